"""MCP servers as settings files of any known form name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from pegboard.core.errors import ConfigError
from pegboard.core.schema.problems import did_you_mean, fold
from pegboard.mcp.config import NAME, OAUTH, ServerConfig, Transport
from pegboard.mcp.naming import STYLES, Style

_TRANSPORTS: Final[Mapping[str, Transport]] = {
    "stdio": "stdio",
    "http": "streamable_http",
    "streamablehttp": "streamable_http",
    "sse": "sse",
    "httpsse": "http_sse",
}
_VARIABLE: Final = re.compile(r"\$\{(?:(env|input):)?([A-Za-z_][A-Za-z0-9_.-]*)(?::-([^}]*))?\}")


def servers_of(
    value: Any,
    *,
    environment: Mapping[str, str] | None,
    inputs: Mapping[str, str] | None = None,
    source: str = "config",
    keep: bool = False,
    foreign: bool = False,
) -> tuple[ServerConfig, ...]:
    """The servers of a settings value.

    Takes a list of tables with `name`, a map by name, and whole files of
    desktop clients (`mcpServers`), VS Code (`servers` with `inputs`) and `.mcp.json`. Keys match without
    regard to case, `_` or `-`.

    Args:
        value: the parsed settings.
        environment: values for `${VAR}`, `${env:VAR}` and `${VAR:-default}`; None = they stay as they are written.
        inputs: answers for VS Code's `${input:id}` by id; others come from PEGBOARD_INPUT_ID in the environment
            or the default under the file's own `inputs`; a missing one is an error that names the variable.
        source: for messages.
        keep: a server that is wrong, or whose variable has no value, is kept with that as its `fault`: it must not
            cost the others.
        foreign: another program owns the file: a name that is not allowed here is fitted, and a key that means
            nothing here becomes one of the server's `notes`.

    Raises:
        ConfigError: a wrong name, key or value, or a variable without a value, unless `keep`; the message names it.
    """
    table = _inner(value)
    answers = _answers(value, {} if environment is None else environment, inputs or {})
    rows: list[tuple[str, Any]]
    if isinstance(table, Mapping):
        rows = [(str(k), v) for k, v in cast("Mapping[Any, Any]", table).items()]
    elif isinstance(table, Sequence) and not isinstance(table, str):
        rows = [(_text(_get(one, "name")), one) for one in cast("Sequence[Any]", table)]
    else:
        raise ConfigError(f"{source}: MCP servers must be a list or a map, not {type(table).__name__}")
    out: list[ServerConfig] = []
    for written, row in rows:
        taken = {one.name for one in out}
        name = written
        if foreign and not NAME.match(written):
            name = _fitted(written, taken)
        try:
            if name in taken:
                raise ConfigError(f"{source}: two MCP servers are called {name!r}")
            if not isinstance(row, Mapping):
                raise ConfigError(f"{source}: MCP server {name!r} must be a table, not {type(row).__name__}")
            fill = _Filler(source, name, environment, answers)
            filled = cast("Mapping[str, Any]", fill.fill(row, ""))
            if fill.fault and not keep:
                raise ConfigError(fill.fault)
            made = _server(name, filled, source, fill.fault, foreign=foreign)
        except ConfigError as error:
            if not keep:
                raise
            # It cannot be started, and is listed with what is wrong with it.
            made = ServerConfig(
                name=_fitted(written, taken), transport="streamable_http", source=source, fault=str(error)
            )
        if made.name != written:
            note = f"{source}: the MCP server {written!r} is called {made.name!r} here"
            made = replace(made, notes=(note, *made.notes))
        out.append(made)
    return tuple(out)


def _fitted(name: str, taken: set[str]) -> str:
    """The name in characters that are allowed here, with a number where it is taken."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip("_.-")[:40] or "server"
    numbered = (plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 3)))
    return next(one for one in numbered if one not in taken)


def input_variable(id: str) -> str:
    """The environment variable that answers VS Code's input of that id."""
    return "PEGBOARD_INPUT_" + re.sub(r"[^A-Za-z0-9]", "_", id).upper()


def _answers(value: Any, environment: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Answers to a file's `inputs`: given ones, then the environment's, then the file's own defaults."""
    listed: Any = cast("Mapping[str, Any]", value).get("inputs") if isinstance(value, Mapping) else None
    out = dict(given)
    for one in cast("list[Any]", listed) if isinstance(listed, list) else []:
        row: Mapping[str, Any] = cast("Mapping[str, Any]", one) if isinstance(one, Mapping) else {}
        id = row.get("id")
        if isinstance(id, str) and id not in out:
            found: Any = environment.get(input_variable(id)) or row.get("default")
            if isinstance(found, str):
                out[id] = found
    return out


_WRAPPERS: Final = ("mcpservers", "servers", "mcp", "tools")


def _inner(value: Any) -> Any:
    """The servers inside the wrappers that files of several programs put around them."""
    for _ in range(3):
        if not isinstance(value, Mapping):
            return cast("object", value)
        folded: dict[str, Any] = {fold(str(k)): v for k, v in cast("Mapping[Any, Any]", value).items()}
        found: Any = next((folded[w] for w in _WRAPPERS if isinstance(folded.get(w), Mapping | list)), None)
        # A server may be called "tools": its table has a command or url, a wrapper has not.
        if found is None or (isinstance(found, Mapping) and _is_server(cast("Mapping[str, Any]", found))):
            return cast("object", value)
        value = found  # pyright: ignore[reportUnknownVariableType]
    return value


def _is_server(table: Mapping[str, Any]) -> bool:
    return any(
        isinstance(v, str) and fold(str(k)) in ("command", "url", "serverurl") for k, v in table.items()
    )


_KEYS: Final[Mapping[str, str]] = {
    "name": "", "type": "transport", "transport": "transport", "transporttype": "transport",
    "command": "command", "args": "args", "arguments": "args", "env": "env", "environment": "env",
    "envfile": "env_file", "cwd": "cwd", "url": "url", "serverurl": "url", "httpurl": "url", "headers": "headers",
    "timeout": "timeout_s", "timeouts": "timeout_s", "tooltimeout": "timeout_s", "tooltimeouts": "tool_timeouts",
    "progressextends": "progress_extends", "maxs": "max_s", "starts": "start_s", "startuptimeout": "start_s",
    "starttimeout": "start_s", "allow": "allow", "allowedtools": "allow", "enabledtools": "allow",
    "includetools": "allow", "tools": "allow", "deny": "deny", "excludetools": "deny", "disabledtools": "deny",
    "resources": "resources", "prompts": "prompts", "protocol": "protocol", "naming": "naming",
    "parallel": "parallel", "oauth": "oauth", "auth": "oauth", "disabled": "disabled", "enabled": "enabled",
    "description": "", "gallery": "", "dev": "",
}  # fmt: skip
"""Folded keys of every known form -> our field; empty = words for people or other programs only."""

_GRANTS: Final = frozenset({"alwaysallow", "autoapprove", "trust", "trusted"})
"""Keys by which other programs let calls run unasked. A server's own table never grants anything here."""


def _server(name: str, row: Mapping[str, Any], source: str, fault: str, *, foreign: bool) -> ServerConfig:
    found: dict[str, Any] = {}
    notes: list[str] = []
    for key, value in row.items():
        if fold(key) in _GRANTS:
            if value:
                notes.append(
                    f"{source}: MCP server {name!r}: the key {key!r} grants nothing here; to let its calls run "
                    f"unasked, say 'allow call:{name}/*' in a policy"
                )
            continue
        field_name = _KEYS.get(fold(key))
        if field_name is None:
            unknown = f"{source}: MCP server {name!r} has the unknown key {key!r}{did_you_mean(key, _KEYS)}"
            if not foreign:
                raise ConfigError(unknown)
            notes.append(unknown)
            continue
        if field_name:
            found[field_name] = value
    try:
        return replace(_typed(name, found, source, fault), notes=tuple(notes))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{source}: MCP server {name!r}: {error}") from None


def _typed(name: str, found: dict[str, Any], source: str, fault: str) -> ServerConfig:
    url = _text(found.get("url"))
    said = fold(_text(found.get("transport")))
    transport = _TRANSPORTS.get(said) if said else ("streamable_http" if url else "stdio")
    if transport is None:
        raise ValueError(f"transport {found['transport']!r} is none of stdio, streamable_http, sse, http_sse")
    config = ServerConfig(
        name=name,
        transport=transport,
        command=_text(found.get("command")),
        args=_texts(found.get("args")),
        env=_table(found.get("env"), "env"),
        cwd=_text(found.get("cwd")) or None,
        url=url,
        headers=_table(found.get("headers"), "headers"),
        allow=None if found.get("allow") is None else _texts(found["allow"]),
        deny=_texts(found.get("deny")),
        protocol=_text(found.get("protocol")) or "auto",
        oauth=_oauth(found.get("oauth")),
        naming=_style(found.get("naming")),
        env_file=_text(found.get("env_file")),
        disabled=_flag(found.get("disabled", False), "disabled")
        or not _flag(found.get("enabled", True), "enabled"),
        source=source,
        fault=fault,
    )
    numbers = {k: _seconds(found[k], k) for k in ("timeout_s", "max_s", "start_s") if k in found}
    flags = {
        k: _flag(found[k], k) for k in ("progress_extends", "resources", "prompts", "parallel") if k in found
    }
    per_tool = {str(k): _seconds(v, k) for k, v in dict(found.get("tool_timeouts") or {}).items()}
    return replace(config, **numbers, **flags, tool_timeouts=per_tool)


class _Filler:
    """Fills variables in every text below a server's table.

    Attributes:
        fault: the first variable without a value, in a sentence; it stays as it stands.
    """

    def __init__(
        self, source: str, server: str, environment: Mapping[str, str] | None, inputs: Mapping[str, str]
    ) -> None:
        self._source = source
        self._server = server
        self._environment = environment
        self._inputs = inputs
        self.fault = ""

    def fill(self, value: Any, key: str) -> Any:
        if self._environment is None:
            return value
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: self._value(match, key), value)
        if isinstance(value, Mapping):
            table = cast("Mapping[Any, Any]", value)
            return {str(k): self.fill(v, f"{key}.{k}".lstrip(".")) for k, v in table.items()}
        if isinstance(value, list):
            return [self.fill(v, f"{key}[{i}]") for i, v in enumerate(cast("list[Any]", value))]
        return value

    def _value(self, match: re.Match[str], key: str) -> str:
        kind, name, default = match[1], match[2], match[3]
        values = self._inputs if kind == "input" or self._environment is None else self._environment
        found = values.get(name) or default
        if found is None:
            what = f"the environment variable {name}, which is not set"
            if kind == "input":
                what = f"the input {name}; set the environment variable {input_variable(name)}"
            self.fault = self.fault or f"{self._source}: MCP server {self._server!r}: key {key} needs {what}"
            return match[0]
        return found


def _get(row: Any, key: str) -> Any:
    if not isinstance(row, Mapping):
        return None
    return next((v for k, v in cast("Mapping[Any, Any]", row).items() if fold(str(k)) == key), None)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r:.60}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        raise TypeError(f"expected a list of texts, got {value!r:.60}")
    return tuple(str(v) for v in value)


def _table(value: Any, key: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{key} must be a table, got {value!r:.60}")
    return {str(k): str(v) for k, v in cast("Mapping[Any, Any]", value).items()}


def _oauth(value: Any) -> dict[str, str]:
    known = {fold(key): key for key in OAUTH}
    out: dict[str, str] = {}
    for key, given in _table(value, "oauth").items():
        name = known.get(fold(key))
        if name is None:
            raise ValueError(f"oauth has the unknown key {key!r}; known are {', '.join(OAUTH)}")
        out[name] = given
    if "client_secret" in out and "private_key" in out:
        raise ValueError("oauth has both client_secret and private_key; give one")
    if ("client_secret" in out or "private_key" in out) and not ("client_id" in out and "issuer" in out):
        # Without the issuer the server itself would name who gets the secret.
        raise ValueError("oauth with a client_secret or private_key needs client_id and issuer as well")
    return out


def _flag(value: Any, key: str) -> bool:
    # "false" in quotes is what a variable leaves behind; taken as truth it would be the opposite.
    word = value.strip().lower() if isinstance(value, str) else value
    if word in (True, "true", "yes", "1"):
        return True
    if word in (False, "false", "no", "0", ""):
        return False
    raise TypeError(f"{key} must be true or false, got {value!r:.60}")


def _style(value: Any) -> Style:
    word = fold(_text(value)) or "mcp"
    for style in STYLES:
        if fold(style) == word:
            return style
    raise ValueError(f"naming {value!r} is none of {', '.join(STYLES)}")


def _seconds(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError(f"{key} must be seconds above 0, got {value!r}")
    return float(value)
