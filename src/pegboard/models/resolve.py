"""choose: from `--model` text, or from what is there, to a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pegboard.core.errors import ConfigError, ModelError
from pegboard.core.schema.problems import did_you_mean, nearest
from pegboard.core.toolkit import import_object
from pegboard.models import MODELS
from pegboard.models.conversation import RetryTiming
from pegboard.models.servers import LocalServer
from pegboard.models.weights import WEIGHTS, present
from pegboard.ports.model import Model

FORMS: Final = (
    "openai:NAME", "anthropic:NAME", "gemini:NAME", "ollama:NAME", "lmstudio:NAME",
    "openai:NAME@http://host:port/v1", "openai-responses:NAME", "gguf:/path/to/model.gguf", "gguf:smollm2",
    "local", "scripted:FILE",
)  # fmt: skip
"""What `--model` takes."""

_SERVERS: Final[dict[str, str]] = {
    "ollama": "http://127.0.0.1:11434/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "lm-studio": "http://127.0.0.1:1234/v1",
}
"""Servers of this machine that speak the protocol of `openai`, at the ports that they listen at by default."""

_BARE: Final = (
    (re.compile(r"(?:gpt(?!-oss)|chatgpt|codex)-[^:/]*|o[1-9](?:-[^:/]*)?", re.IGNORECASE), "openai"),
    (re.compile(r"claude-[^:/]*", re.IGNORECASE), "anthropic"),
    (re.compile(r"gemini-[^:/]*", re.IGNORECASE), "gemini"),
)
"""Names of models that one provider alone has, so that it need not be named."""

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
"""The variables that hold each provider's key, first one first."""

DEFAULTS: Final[dict[str, str]] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.2-sol",
    "gemini": "gemini-3.8-flash",
}
"""The model that a provider's key stands for where none is named, in the order in which keys are tried."""

OTHER_KEY: Final = "PEGBOARD_MODEL_KEY"
"""The variable that holds the key of a server named by URL."""

_AT: Final = re.compile(r"@(https?://.*)\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """What `--model` says.

    Attributes:
        family: a key of MODELS.
        name: the model's name, path or file; empty for `local`.
        base_url: another server, None = the provider's own.
    """

    family: str
    name: str = ""
    base_url: str | None = None


class NoModel(ModelError):
    """No model was named and none is there.

    Attributes:
        found: the local servers that answered, and would be used if a person accepted one.
    """

    def __init__(self, found: Sequence[LocalServer]) -> None:
        super().__init__("no model is configured, and none was found.", hint=_ways(found))
        self.found = tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSources:
    """What a choice may use. Values come from the config; nothing here reads the environment.

    Attributes:
        env: environment values; keys and base URLs are taken from here.
        keys: keys by origin (`https://host:port`), for servers named by URL.
        data_dir: our XDG data folder, for weights.
        configured: the model that the user's config names, None = none.
        find: looks for local servers; asked only where nothing else is there.
        accepted: gives the identities of local servers that the user accepted once.
        waiting: retry policy, clock and sleep of remote models.
    """

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    data_dir: Path | None = None
    configured: str | None = None
    find: Callable[[], Sequence[LocalServer]] = tuple
    accepted: Callable[[], frozenset[str]] = frozenset
    waiting: RetryTiming | None = None


def open_configured(
    name: str | None,
    *,
    environment: Mapping[str, str],
    data_dir: Path | None,
    configured: str | None = None,
    keys: Mapping[str, str] | None = None,
    find: Callable[[], Sequence[LocalServer]] = tuple,
    accepted: Callable[[], frozenset[str]] = frozenset,
) -> Model:
    """`choose_model` with its surroundings spelled out.

    Raises:
        ConfigError, ModelError: see `choose_model`.
    """
    around = ModelSources(
        env=environment,
        keys=keys or {},
        data_dir=data_dir,
        configured=configured,
        find=find,
        accepted=accepted,
    )
    return choose_model(name, around)


def available(
    *,
    environment: Mapping[str, str],
    data_dir: Path | None,
    found: Sequence[LocalServer] = (),
    accepted: frozenset[str] = frozenset(),
) -> list[dict[str, str]]:
    """`{name, status}` of every way to a model: `ready`, or what it needs."""
    rows: list[dict[str, str]] = []
    for family, default in DEFAULTS.items():
        missing = _missing(family)
        if missing:
            status = f"needs pip install 'pegboard[{missing}]'"
        elif _key_of(family, environment):
            status = "ready"
        else:
            status = f"needs {KEYS[family][0]}"
        rows.append({"name": f"{family}:{default}", "status": status})
    for server in found:
        status = (
            f"ready ({server.kind} runs here, accepted)"
            if server.identity in accepted
            else f"{server.kind} runs here; used when named, or after pegboard models accept {server.port}"
        )
        rows += [{"name": f"openai:{m}@{server.base_url}", "status": status} for m in server.models]
    for name in WEIGHTS:
        missing = _missing("gguf")
        if missing:
            status = f"needs pip install 'pegboard[{missing}]'"
        elif data_dir is not None and present(name, data_dir):
            status = "ready"
        else:
            status = f"needs pegboard models get {name}"
        rows.append({"name": f"gguf:{name}", "status": status})
    return [*rows, {"name": "local", "status": "ready (a keyword router, no language model)"}]


_MODULES: Final = {
    "openai": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("google.genai", "gemini"),
    "gguf": ("xllamacpp", "gguf"),
}


def _missing(family: str) -> str:
    """The extra that a family lacks here, empty where nothing is missing; imports no SDK."""
    module, extra = _MODULES[family]
    try:
        return "" if find_spec(module) is not None else extra
    except ModuleNotFoundError:
        return extra


def parse(text: str) -> ModelReference:
    """Read a `--model` text.

    Raises:
        ConfigError: no such form; the message lists the forms.
    """
    bare = text.strip()
    if not bare:
        raise ConfigError(f"the name of the model is empty. Forms: {', '.join(FORMS)}")
    if own := next((family for names, family in _BARE if names.fullmatch(_AT.sub("", bare))), None):
        bare = f"{own}:{bare}"
    family, _, name = bare.partition(":")
    family = family.lower().replace("_", "-")
    if (family in MODELS or family in _SERVERS) and family != "local" and not name:
        form = next((form for form in FORMS if form.startswith(f"{family}:")), f"{family}:NAME")
        raise ConfigError(f"{text!r} has no model name; write {form}. Forms: {', '.join(FORMS)}")
    server = _SERVERS.get(family)
    if server is not None:
        family, name = "openai", name if _AT.search(name) else f"{name}@{server}"
    if family not in MODELS:
        raise ConfigError(
            f"unknown model provider {family!r} in {text!r}{_meant(bare)} Forms: {', '.join(FORMS)}"
        )
    if family == "local":
        if name:
            raise ConfigError(f"{text!r}: local takes no name")
        return ModelReference("local")
    if family in ("gguf", "scripted"):
        return ModelReference(family, name)
    at = _AT.search(name)
    if at is None:
        return ModelReference(family, name)
    if at.start() == 0:
        raise ConfigError(f"{text!r} names no model before the @")
    return ModelReference(family, name[: at.start()], _checked_url(at[1], text))


def names_place(text: str) -> bool:
    """Whether a `--model` text says itself where the model is: at an address, or in a file of this machine.

    Raises:
        ConfigError: see `parse`.
    """
    reference = parse(text)
    known = reference.family == "gguf" and reference.name in WEIGHTS
    return bool(_AT.search(text)) or (reference.family in ("gguf", "scripted") and not known)


def _meant(text: str) -> str:
    """The form that a text without a known provider most likely means."""
    provider, slash, name = text.partition("/")
    if slash and provider.lower() in {*MODELS, *_SERVERS}:
        return f"; write {provider.lower()}:{name}."
    vendor, dash, version = text.partition("-")
    if dash and ":" not in text and (near := nearest(vendor, ("gpt", "claude", "gemini"))):
        return f"; did you mean '{near[0]}-{version}'?"
    return did_you_mean(text.partition(":")[0].lower(), [*MODELS, *_SERVERS], otherwise=".")


def choose_model(text: str | None, surroundings: ModelSources) -> Model:
    """The model that `text` names; where it is None, the one that is there.

    Where none is named: the config's, then the first provider whose key is set, then a local
    server that was accepted. Servers that were merely found are offered, never used.

    Raises:
        ConfigError: `text` is no model.
        ModelError: the named model lacks a key or an extra.
        NoModel: there is none at all; the message lists the ways.
    """
    if text is not None:
        return _make(parse(text), surroundings)
    if surroundings.configured:
        return _make(parse(surroundings.configured), surroundings)
    for family, name in DEFAULTS.items():
        if _key_of(family, surroundings.env):
            return _make(ModelReference(family, name), surroundings)
    found = surroundings.find()
    accepted = surroundings.accepted() if found else frozenset[str]()
    for server in found:
        if server.identity in accepted and server.models:
            return _make(ModelReference("openai", server.models[0], server.base_url), surroundings)
    raise NoModel(found)


def origin_of(url: str) -> str:
    """`scheme://host:port` of a URL, the port always there."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
    return f"{parts.scheme.lower()}://{(parts.hostname or '').lower()}:{port}"


def _make(reference: ModelReference, around: ModelSources) -> Model:
    make = import_object(MODELS[reference.family])
    if hasattr(make, "open_named"):
        return make.open_named(reference.name, around)
    family = reference.family
    base_url = reference.base_url or _own_url(family, around.env)
    key = _key_of(family, around.env) if reference.base_url is None else _key_for(base_url or "", around)
    return make(reference.name, api_key=key, base_url=base_url, waiting=around.waiting)


def _key_of(family: str, env: Mapping[str, str]) -> str | None:
    names = KEYS.get(family, (f"{family.upper().replace('-', '_')}_API_KEY",))
    return next((env[name] for name in names if env.get(name)), None)


def _own_url(family: str, env: Mapping[str, str]) -> str | None:
    """Where the provider's key in the environment belongs to, None = the provider itself.

    OPENAI_BASE_URL stands beside OPENAI_API_KEY: who sets both means the pair, and the key of
    a proxy must not go to the provider.
    """
    name = {
        "openai": "OPENAI_BASE_URL",
        "openai-responses": "OPENAI_BASE_URL",
        "anthropic": "ANTHROPIC_BASE_URL",
    }
    variable = name.get(family)
    url = env.get(variable) if variable else None
    return _checked_url(url, str(variable)) if url else None


def _key_for(url: str, around: ModelSources) -> str | None:
    """The key of a server named by URL: its own, never the provider's."""
    origin = origin_of(url)
    own = {origin_of(known): key for known, key in around.keys.items()}
    if origin in own:
        return own[origin]
    for family in KEYS:
        paired = _own_url(family, around.env)
        if paired is not None and origin_of(paired) == origin:
            return _key_of(family, around.env)
    return around.env.get(OTHER_KEY) or None


def _checked_url(url: str, where: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{where!r}: {url!r} is not a URL: {error}") from error
    if not host or parts.scheme.lower() not in ("http", "https"):
        raise ConfigError(f"{where!r}: {url!r} is not an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{where!r}: a URL must not hold a key or password; set {OTHER_KEY}")
    return url.rstrip("/")


def _ways(found: Sequence[LocalServer]) -> str:
    lines = ["You can:"]
    for server in found:
        if not server.models:
            lines.append(f"- {server.kind} runs at {server.base_url} and offers no model; load one there")
            continue
        lines.append(
            f"- {server.kind} runs at {server.base_url}; to use it: --model "
            f"openai:{server.models[0]}@{server.base_url}, or for good: pegboard models accept {server.port}"
        )
    keys = " or ".join(names[0] for family, names in KEYS.items() if family in DEFAULTS)
    lines += [
        f"- set {keys}",
        "- name any compatible server: --model openai:NAME@http://host:port/v1",
        "- a small model on this machine: pegboard models get smollm2, then --model gguf:smollm2",
        "- no language model, only a keyword router: --model local",
    ]
    return "\n".join(lines)
