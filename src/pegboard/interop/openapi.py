"""OpenAPI 3.1 (and 3.0) documents as tools: each operation one tool with the effect `connect HOST`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pegboard.core.errors import BuildError
from pegboard.core.signature import Signature
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.interop.http import (
    BodyKind,
    Filling,
    Request,
    Secrets,
    Sender,
    effects_of,
    fill_path,
    safe_headers,
    scalar,
)

_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_IDEMPOTENT: Final = frozenset({"get", "put", "delete", "head", "options"})
_DEFS: Final = "#/$defs/"
_SCHEMAS: Final = "#/components/schemas/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where one argument goes."""

    argument: str
    name: str
    where: str
    explode: bool = True
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """One operation, read."""

    method: str
    path: str
    places: tuple[_Place, ...]
    body: BodyKind = "none"
    spread: bool = False
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])


def openapi_tools(
    document: str | bytes | Mapping[str, Any],
    *,
    base_url: str = "",
    auth: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    secrets: Secrets | None = None,
    keep: Iterable[str] = (),
    timeout_s: float = 30.0,
    client: Callable[[], Any] | None = None,
) -> Toolkit:
    """A tool for each operation of a document.

    Args:
        document: JSON or YAML text, or the parsed document. Only references inside it are followed.
        base_url: in place of the document's first server.
        auth: security scheme → its value, usually `secret://name`; `user:password` for basic.
        headers: sent with every request; values may hold `secret://name`.
        secrets: what `secret://name` means; asked at each call, sent to this server only.
        keep: patterns of tool names or `METHOD /path`; empty = all.
        timeout_s: seconds for connecting and for each read.
        client: makes an httpx2.AsyncClient in place of our own.

    Raises:
        BuildError: no OpenAPI document, no server, or two operations of one name.
    """
    spec = _parsed(document)
    version = str(spec.get("openapi", ""))
    if not version.startswith("3."):
        raise BuildError(f"this is no OpenAPI 3 document (openapi: {version or 'missing'})")
    base = base_url or _server(spec)
    effects = effects_of(base)
    sender = Sender(secrets=secrets or {}, timeout_s=timeout_s, client=client)
    fixed = {**(headers or {})}
    extra = _credentials(spec, auth or {}, fixed)
    patterns = tuple(keep)
    tools: list[Tool] = []
    for path, item in _mapping(spec.get("paths")).items():
        for method in _METHODS:
            operation = _mapping(_mapping(item).get(method))
            if not operation:
                continue
            name = _name(operation, method, path)
            if patterns and not any(
                fnmatchcase(name, p) or fnmatchcase(f"{method.upper()} {path}", p) for p in patterns
            ):
                continue
            read = _read_operation(spec, method, path, _mapping(item), operation)
            tools.append(_tool(read, operation, name, base, effects, sender, fixed, extra))
    return Toolkit(tools)


def _tool(
    read: _Operation,
    operation: Mapping[str, Any],
    name: str,
    base: str,
    effects: Any,
    sender: Sender,
    fixed: Mapping[str, str],
    extra: list[tuple[str, str]],
) -> Tool:
    async def call(**arguments: Any) -> Any:
        return await sender.send(_request(read, base, arguments, fixed, extra, sender.filling(base)))

    text = str(operation.get("summary") or "").strip()
    more = str(operation.get("description") or "").strip()
    description = (
        "\n\n".join(dict.fromkeys(t for t in (text, more) if t)) or f"{read.method.upper()} {read.path}"
    )
    made = Tool(
        call,
        name=name,
        description=description[:1000],
        effects=effects,
        parameters=read.schema,
        idempotent=read.method in _IDEMPOTENT,
        hints=tuple(str(t) for t in operation.get("tags") or ()),
    )
    made.signature = Signature.foreign(
        read.schema, description=description[:1000], name=name, closed=True, fill_defaults=False
    )
    return made


def _request(
    read: _Operation,
    base: str,
    arguments: Mapping[str, Any],
    fixed: Mapping[str, str],
    extra: list[tuple[str, str]],
    fill: Filling,
) -> Request:
    given = dict(arguments)
    path: dict[str, Any] = {}
    query: list[tuple[str, str]] = [(k, fill(v)) for k, v in extra]
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for place in read.places:
        if place.argument not in given:
            continue
        value = given.pop(place.argument)
        match place.where:
            case "path":
                path[place.name] = value
            case "query":
                query += _query(place, value)
            case "header":
                headers[place.name] = scalar(value)
            case _:
                cookies.append(f"{place.name}={scalar(value)}")
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    body = given if read.spread else given.get("body")
    kind: BodyKind = read.body if (read.spread and given) or "body" in given else "none"
    return Request(
        method=read.method.upper(),
        url=base.rstrip("/") + fill_path(read.path, path),
        query=query,
        headers={**safe_headers(headers), **{k: _basic(fill(v)) for k, v in fixed.items()}},
        body=body,
        kind=kind,
        secrets=fill.used,
    )


def _basic(value: str) -> str:
    """`Basic user:password` as it is sent (RFC 7617 §2); a value without a colon is encoded already."""
    scheme, _, credentials = value.partition(" ")
    if scheme != "Basic" or ":" not in credentials:
        return value
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


def _query(place: _Place, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        if place.style == "deepObject":
            return [(f"{place.name}[{k}]", scalar(v)) for k, v in pairs]
        return [(k, scalar(v)) for k, v in pairs] if place.explode else [(place.name, scalar(value))]
    if isinstance(value, list) and place.explode:
        return [(place.name, scalar(v)) for v in cast("list[Any]", value)]
    joint = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(place.style, ",")
    if isinstance(value, list):
        return [(place.name, joint.join(scalar(v) for v in cast("list[Any]", value)))]
    return [(place.name, scalar(value))]


def _read_operation(
    spec: Mapping[str, Any], method: str, path: str, item: Mapping[str, Any], operation: Mapping[str, Any]
) -> _Operation:
    given: dict[tuple[str, str], Mapping[str, Any]] = {}
    for raw in [*_list(item.get("parameters")), *_list(operation.get("parameters"))]:
        parameter = _follow(spec, raw)
        given[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    properties: dict[str, Any] = {}
    required: list[str] = []
    places: list[_Place] = []
    for (name, where), parameter in given.items():
        argument = name if name not in properties else f"{name}_{where}"
        schema = dict(_follow(spec, parameter.get("schema") or {}))
        text = parameter.get("description") or schema.get("description")
        properties[argument] = {**schema, **({"description": text} if text else {})}
        style = str(parameter.get("style", ""))
        explode = bool(parameter.get("explode", style in ("", "form", "deepObject")))
        places.append(_Place(argument=argument, name=name, where=where, explode=explode, style=style))
        if parameter.get("required") or where == "path":
            required.append(argument)
    kind, spread = _body(spec, operation, properties, required)
    schema = _own({"type": "object", "properties": properties, "required": required}, spec)
    return _Operation(method=method, path=path, places=tuple(places), body=kind, spread=spread, schema=schema)


def _body(
    spec: Mapping[str, Any], operation: Mapping[str, Any], properties: dict[str, Any], required: list[str]
) -> tuple[BodyKind, bool]:
    """Add the body's parameters; its kind, and whether its properties are arguments of their own."""
    body = _follow(spec, operation.get("requestBody") or {})
    content = _mapping(body.get("content"))
    chosen = next((m for m in content if "json" in m), None)
    kind: BodyKind = "json"
    if chosen is None:
        chosen = next((m for m in content if m in ("application/x-www-form-urlencoded", "text/plain")), None)
        kind = "form" if chosen == "application/x-www-form-urlencoded" else "text"
    if chosen is None:
        return "none", False
    schema = dict(_follow(spec, _mapping(content[chosen]).get("schema") or {}))
    own = _mapping(schema.get("properties"))
    plain = not any(k in schema for k in ("oneOf", "anyOf", "allOf", "additionalProperties"))
    if own and plain and not (own.keys() & properties.keys()):
        properties.update(own)
        if body.get("required"):
            required += [str(r) for r in schema.get("required") or ()]
        return kind, True
    properties["body"] = {"description": "The request's body.", **schema}
    if body.get("required"):
        required.append("body")
    return kind, False


def _own(schema: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every referenced component as `$defs` of its own."""
    components = _mapping(_mapping(spec.get("components")).get("schemas"))
    defs: dict[str, Any] = {}
    waiting: list[str] = []

    def moved(node: Any) -> Any:
        if isinstance(node, list):
            return [moved(n) for n in cast("list[Any]", node)]
        if not isinstance(node, Mapping):
            return node
        out: dict[str, Any] = {}
        for key, value in cast("Mapping[str, Any]", node).items():
            if key == "$ref" and isinstance(value, str) and value.startswith(_SCHEMAS):
                name = value.removeprefix(_SCHEMAS)
                waiting.append(name)
                value = _DEFS + name
            out[key] = moved(value) if key not in ("example", "default", "enum", "const") else value
        return _newer(out)

    made = cast("dict[str, Any]", moved(schema))
    while waiting:
        name = waiting.pop()
        if name not in defs:
            if name not in components:
                raise BuildError(f"the document refers to the schema {name!r}, which it lacks")
            defs[name] = {}
            defs[name] = moved(components[name])
    return {**made, "$defs": defs} if defs else made


def _newer(node: dict[str, Any]) -> dict[str, Any]:
    """3.0's words in 3.1's: `nullable`, and bounds that are exclusive by a flag."""
    if node.pop("nullable", False) is True and isinstance(node.get("type"), str):
        node["type"] = [node["type"], "null"]
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # A false flag says nothing and must go all the same.
        if isinstance(node.get(flag), bool) and node.pop(flag) and bound in node:
            node[flag] = node.pop(bound)
    return node


def _credentials(
    spec: Mapping[str, Any], auth: Mapping[str, str], headers: dict[str, str]
) -> list[tuple[str, str]]:
    """Puts each scheme's value into `headers`; those that go into the query are returned."""
    schemes = _mapping(_mapping(spec.get("components")).get("securitySchemes"))
    query: list[tuple[str, str]] = []
    for name, value in auth.items():
        scheme = _follow(spec, schemes.get(name) or {})
        kind, http = str(scheme.get("type", "")), str(scheme.get("scheme", "")).lower()
        if kind == "apiKey" and scheme.get("in") == "query":
            query.append((str(scheme["name"]), value))
        elif kind == "apiKey" and scheme.get("in") == "header":
            headers[str(scheme["name"])] = value
        elif (kind == "http" and http == "bearer") or kind in ("oauth2", "openIdConnect"):
            headers["Authorization"] = f"Bearer {value}"
        elif kind == "http" and http == "basic":
            headers["Authorization"] = f"Basic {value}"
        else:
            known = ", ".join(schemes) or "none"
            raise BuildError(
                f"the security scheme {name!r} is not one that can be filled; there are: {known}"
            )
    return query


def _name(operation: Mapping[str, Any], method: str, path: str) -> str:
    given = str(operation.get("operationId") or f"{method}_{path}")
    name = re.sub(r"[^A-Za-z0-9]+", "_", given).strip("_")[:64]
    return name if re.match(r"[A-Za-z_]", name) else f"op_{name}"[:64]


def _server(spec: Mapping[str, Any]) -> str:
    servers = _list(spec.get("servers"))
    url = str(_mapping(servers[0]).get("url", "")) if servers else ""
    for name, variable in _mapping(_mapping(servers[0]).get("variables") if servers else None).items():
        url = url.replace("{" + name + "}", str(_mapping(variable).get("default", "")))
    if not urlsplit(url).hostname:
        raise BuildError(f"the document names no server with a host ({url or 'none'}); give base_url=…")
    return url


def _follow(spec: Mapping[str, Any], node: Any) -> Mapping[str, Any]:
    """The node that a local reference means."""
    seen = 0
    while isinstance(node, Mapping) and "$ref" in node:
        reference = str(cast("Mapping[str, Any]", node)["$ref"])
        seen += 1
        if not reference.startswith("#/") or seen > 20:
            raise BuildError(f"the reference {reference!r} leads out of the document or into a circle")
        found: Any = spec
        for step in reference[2:].split("/"):
            found = _mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
        node = found
    return _mapping(node)


def _parsed(document: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(document, Mapping):
        return document
    text = document.decode("utf-8") if isinstance(document, bytes) else document
    try:
        found: Any = json.loads(text)
    except ValueError:
        import yaml

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise BuildError(f"the OpenAPI document is neither JSON nor YAML: {error}") from error
    if not isinstance(found, Mapping):
        raise BuildError("the OpenAPI document is no object")
    return cast("Mapping[str, Any]", found)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


__all__ = ["openapi_tools"]
