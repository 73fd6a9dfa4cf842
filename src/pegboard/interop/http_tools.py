"""Declarative HTTP tools: a file in TOML, YAML or Markdown, no code.

One tool::

    name = "get_weather"
    description = "Current weather of a city."
    method = "GET"
    url = "https://api.example.com/v1/weather/{city}"
    query = { units = "{units}" }
    headers = { Authorization = "Bearer secret://weather" }
    [parameters.city]
    type = "string"
    description = "Name of the city"

Several stand in a list `tool` (or `tools`). In Markdown the front matter holds the same and the text is the
description. `{name}` stands for an argument; a body value that is nothing but `{name}` keeps the argument's
type, and one whose argument is absent is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pegboard.core.errors import BuildError
from pegboard.core.schema.foreign import from_property_map, is_property_map
from pegboard.core.schema.problems import did_you_mean
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.interop.http import (
    BodyKind,
    HttpRequest,
    Secrets,
    SecretTemplate,
    Sender,
    effects_of,
    fill_path,
    safe_headers,
    scalar,
)
from pegboard.net.client import HttpClient

_KEYS: Final = frozenset(
    {"name", "description", "method", "url", "query", "headers", "body", "form", "parameters", "level",
     "timeout_s", "idempotent", "hints"}
)  # fmt: skip
_SLOT: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def http_tools(
    file: str | Path, *, secrets: Secrets | None = None, client: HttpClient | None = None
) -> Toolkit:
    """The tools of a file, or of every such file of a folder.

    Args:
        file: `.toml`, `.yaml`, `.yml` or `.md`, or a folder of these.
        secrets: what `secret://name` in headers and query means; asked at each call and sent only to the
            tool's own host.
        client: sends the requests; None = one with the usual limits.

    Raises:
        BuildError: the file cannot be read, or a tool in it is wrong; the message names both.
    """
    path = Path(file)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".toml", ".yaml", ".yml", ".md"))
        return Toolkit([http_tools(p, secrets=secrets, client=client) for p in files])
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BuildError(f"{path} cannot be read: {error.strerror}") from error
    return Toolkit(
        http_tool(definition, secrets=secrets, client=client, source=path.name)
        for definition in _definitions(path.suffix, text, path.name)
    )


def http_tool(
    definition: Mapping[str, Any],
    *,
    secrets: Secrets | None = None,
    client: HttpClient | None = None,
    source: str = "",
) -> Tool:
    """One tool from its definition.

    Raises:
        BuildError: a key is unknown or missing, or a placeholder names no parameter.
    """
    label = (
        f"{source}: {definition.get('name', 'a tool')}" if source else str(definition.get("name", "a tool"))
    )
    unknown = sorted(set(definition) - _KEYS)
    missing = [k for k in ("name", "description", "url") if not definition.get(k)]
    if unknown or missing:
        what = f"unknown key {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        keys = f"; keys are {', '.join(sorted(_KEYS))}"
        meant = did_you_mean(unknown[0], _KEYS, otherwise=keys) if unknown else keys
        raise BuildError(f"{label}: {what}{meant}")
    given = cast("Mapping[str, Any]", definition.get("parameters") or {})
    schema = from_property_map(_without_optional(given)) if is_property_map(given) else dict(given)
    _mark_optional(schema, given)
    _check_slots(definition, schema, label)
    url = str(definition["url"])
    if _SLOT.search(urlsplit(url).netloc):
        raise BuildError(f"{label}: the host of its url may not depend on an argument")
    sender = Sender(
        url=url,
        secrets=secrets or {},
        timeout_s=float(definition.get("timeout_s", 30)),
        client=client or HttpClient(),
    )
    method = str(definition.get("method", "GET")).upper()

    async def call(**arguments: Any) -> Any:
        return await sender.send(_request(definition, method, url, arguments, sender.filling(url)))

    made = Tool(
        call,
        name=str(definition["name"]),
        description=str(definition["description"]).strip(),
        effects=effects_of(url),
        parameters=schema,
        level=definition.get("level", "auto"),
        idempotent=bool(definition.get("idempotent", method in ("GET", "HEAD", "PUT", "DELETE"))),
        hints=cast("Iterable[str]", definition.get("hints") or ()),
    )
    made.signature = Signature.foreign(schema, description=made.description, name=made.name, closed=True)
    return made


def _request(
    definition: Mapping[str, Any], method: str, url: str, arguments: Mapping[str, Any], fill: SecretTemplate
) -> HttpRequest:
    query: list[tuple[str, str]] = []
    for key, template in cast("Mapping[str, Any]", definition.get("query") or {}).items():
        value = _value(template, arguments, fill)
        if isinstance(value, list):
            query += [(key, scalar(v)) for v in cast("list[Any]", value)]
        elif value is not None:
            query.append((key, scalar(value)))
    headers = {
        key: scalar(value)
        for key, template in cast("Mapping[str, Any]", definition.get("headers") or {}).items()
        if (value := _value(template, arguments, fill)) is not None
    }
    kind: BodyKind = "none"
    body: Any = None
    for key, sort in (("body", "json"), ("form", "form")):
        if key in definition:
            kind, body = cast(BodyKind, sort), _value(definition[key], arguments, fill)
    return HttpRequest(
        method=method,
        url=fill_path(url, arguments),
        query=query,
        headers=safe_headers(headers),
        body=body,
        kind=kind,
        secrets=fill.used,
    )


def _value(template: Any, arguments: Mapping[str, Any], fill: SecretTemplate) -> Any:
    """A template with its arguments; None where one that it needs is absent.

    Secrets are filled in the template's own text only: an argument that looks like a reference is text.
    """
    if isinstance(template, Mapping):
        items = cast("Mapping[str, Any]", template).items()
        filled = {k: _value(v, arguments, fill) for k, v in items}
        return {k: v for k, v in filled.items() if v is not None}
    if isinstance(template, list):
        return [v for t in cast("list[Any]", template) if (v := _value(t, arguments, fill)) is not None]
    if not isinstance(template, str):
        return template
    whole = _SLOT.fullmatch(template)
    if whole is not None:
        return arguments.get(whole[1])
    # The pieces of a split are texts and names in turn.
    pieces = _SLOT.split(template)
    if any(name not in arguments for name in pieces[1::2]):
        return None
    return "".join(scalar(arguments[p]) if i % 2 else fill(p) for i, p in enumerate(pieces))


def _check_slots(definition: Mapping[str, Any], schema: Mapping[str, Any], label: str) -> None:
    known = set(cast("Mapping[str, Any]", schema.get("properties") or {}))
    used: set[str] = set()

    def look(node: Any) -> None:
        if isinstance(node, str):
            used.update(_SLOT.findall(node))
        elif isinstance(node, Mapping):
            for value in cast("Mapping[str, Any]", node).values():
                look(value)
        elif isinstance(node, list):
            for value in cast("list[Any]", node):
                look(value)

    for key in ("url", "query", "headers", "body", "form"):
        look(definition.get(key))
    if used - known:
        raise BuildError(f"{label}: {{{sorted(used - known)[0]}}} is not a parameter")


def _without_optional(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {k: v for k, v in cast("Mapping[str, Any]", sub).items() if k not in ("optional", "required")}
        if isinstance(sub, Mapping)
        else sub
        for name, sub in given.items()
    }


def _mark_optional(schema: dict[str, Any], given: Mapping[str, Any]) -> None:
    """`optional = true` or `required = false` at a parameter."""
    if not is_property_map(given):
        return
    left_out = {
        name
        for name, sub in given.items()
        if isinstance(sub, Mapping)
        and (
            cast("Mapping[str, Any]", sub).get("optional") is True
            or cast("Mapping[str, Any]", sub).get("required") is False
        )
    }
    schema["required"] = [n for n in schema.get("required", ()) if n not in left_out]


def _definitions(suffix: str, text: str, source: str) -> list[Mapping[str, Any]]:
    found = _parsed(suffix, text, source)
    listed: Any = found.get("tool") or found.get("tools")
    if listed is None:
        return [found]
    if isinstance(listed, Mapping):
        listed = [{"name": k, **v} for k, v in cast("Mapping[str, Any]", listed).items()]
    return cast("list[Mapping[str, Any]]", listed)


def _parsed(suffix: str, text: str, source: str) -> Mapping[str, Any]:
    import tomllib

    import yaml

    body = ""
    if suffix == ".md":
        head, mark, body = text.removeprefix("---").partition("\n---")
        if not text.startswith("---") or not mark:
            raise BuildError(f"{source}: a Markdown file needs front matter between --- lines")
        text = head
    try:
        found: Any = tomllib.loads(text) if suffix == ".toml" else yaml.safe_load(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise BuildError(f"{source} cannot be parsed: {error}") from error
    if not isinstance(found, Mapping):
        raise BuildError(f"{source} contains no table")
    made = dict(cast("Mapping[str, Any]", found))
    if body.partition("\n")[2].strip():
        made.setdefault("description", body.partition("\n")[2].strip())
    return made
