"""Where an operation's arguments go: path, query, headers, cookies and body, in the styles of OpenAPI 3.1 §4.8.12."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import quote

from pegboard.core.errors import InvalidArguments
from pegboard.interop.http import BodyKind, HttpRequest, Part, SecretTemplate, fill_path, safe_headers, scalar

_BY_DEFAULT: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_JOINT: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterLocation:
    """Where one argument goes.

    Attributes:
        argument, name: as the tool and as the document call it.
        where: path, query, header or cookie.
        style, explode: how lists and objects are written; see `placed`.
        as_json: it is written as JSON, whatever it is.
    """

    argument: str
    name: str
    where: str
    style: str = ""
    explode: bool = True
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, read.

    Attributes:
        method, path: as the document has them.
        places: of its parameters.
        body, mime: what is sent as body, and its media type.
        spread: the body's properties are arguments of their own.
        files: properties of a multipart body that are files.
        schema: of its arguments.
    """

    method: str
    path: str
    places: tuple[ParameterLocation, ...]
    body: BodyKind = "none"
    mime: str = ""
    spread: bool = False
    files: frozenset[str] = frozenset()
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFields:
    """What goes with every request: values in the operator's own words, which may hold `secret://name`."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()


def locate_parameter(name: str, where: str, parameter: Mapping[str, Any]) -> ParameterLocation:
    """The place of a parameter of the document that the tool calls `name`."""
    style = str(parameter.get("style") or _BY_DEFAULT.get(where, "form"))
    explode = parameter.get("explode")
    return ParameterLocation(
        argument=name,
        name=str(parameter.get("name")),
        where=where,
        style=style,
        explode=style in ("form", "deepObject") if explode is None else bool(explode),
        as_json="content" in parameter,
    )


def request_of(
    read: Operation, base: str, arguments: Mapping[str, Any], fixed: FixedFields, fill: SecretTemplate
) -> HttpRequest:
    """The request of one call."""
    given = dict(arguments)
    path: dict[str, str] = {}
    query: list[tuple[str, str]] = [(k, fill(v)) for k, v in fixed.query]
    headers: dict[str, str] = {}
    cookies = [f"{k}={fill(v)}" for k, v in fixed.cookies]
    for place in read.places:
        if place.argument not in given:
            continue
        value = given.pop(place.argument)
        if place.as_json:
            value = json.dumps(value, ensure_ascii=False)
        match place.where:
            case "path":
                path[place.name] = _path(place, value)
            case "query":
                query += _query(place, value)
            case "header":
                headers[place.name] = _pairs(value, "=") if place.explode else scalar(value)
            case _:
                # Quoted: a `;` would begin another cookie (RFC 6265 §4.2.1).
                cookies += [f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in _query(place, value)]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    body = given if read.spread else given.get("body")
    kind: BodyKind = read.body if (read.spread and given) or "body" in given else "none"
    if kind == "multipart":
        body = [_part(read, k, v) for k, v in cast("Mapping[str, Any]", body or {}).items()]
    elif kind == "bytes":
        body = _bytes("body", body)
    own = {k: _basic(fill(v)) for k, v in fixed.headers.items()}
    taken = {k.lower() for k in own}
    return HttpRequest(
        method=read.method.upper(),
        url=base.rstrip("/") + fill_path(read.path, path, ready=True),
        query=query,
        headers={**{k: v for k, v in safe_headers(headers).items() if k.lower() not in taken}, **own},
        body=body,
        kind=kind,
        mime=read.mime,
        secrets=fill.used,
    )


def _path(place: ParameterLocation, value: Any) -> str:
    """simple `a,b`, label `.a.b` and matrix `;name=a;name=b`, each value one quoted piece."""
    if value in ("", ".", "..", [], {}):
        raise InvalidArguments(
            f".{place.argument}: {value!r} is not allowed in a path", hint="Give another value."
        )
    match place.style:
        case "label":
            joint = "." if place.explode else ","
            return "." + joint.join(_pieces(value, explode=place.explode))
        case "matrix":
            name = quote(place.name, safe="")
            if isinstance(value, Mapping) and place.explode:
                return "".join(f";{p}" for p in _pieces(value, explode=True))
            if isinstance(value, list) and place.explode:
                return "".join(f";{name}={p}" for p in _pieces(cast("list[Any]", value), explode=True))
            return f";{name}=" + ",".join(_pieces(value, explode=False))
        case _:
            return ",".join(_pieces(value, explode=place.explode))


def _pieces(value: Any, *, explode: bool) -> list[str]:
    if isinstance(value, Mapping):
        items = [
            (quote(str(k), safe=""), quote(scalar(v), safe=""))
            for k, v in cast("Mapping[str, Any]", value).items()
        ]
        return [f"{k}={v}" for k, v in items] if explode else [part for pair in items for part in pair]
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [quote(scalar(v), safe="") for v in values]


def _query(place: ParameterLocation, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        if place.style == "deepObject":
            return [(f"{place.name}[{k}]", scalar(v)) for k, v in pairs]
        return [(k, scalar(v)) for k, v in pairs] if place.explode else [(place.name, scalar(value))]
    if isinstance(value, list):
        texts = [scalar(v) for v in cast("list[Any]", value)]
        if place.explode:
            return [(place.name, text) for text in texts]
        return [(place.name, _JOINT.get(place.style, ",").join(texts))]
    return [(place.name, scalar(value))]


def _pairs(value: Any, mark: str) -> str:
    if not isinstance(value, Mapping):
        return scalar(value)
    return ",".join(f"{k}{mark}{scalar(v)}" for k, v in cast("Mapping[str, Any]", value).items())


def _part(read: Operation, name: str, value: Any) -> Part:
    """One part of a multipart body; what is no text is JSON (OpenAPI 3.1 §4.8.15)."""
    if name in read.files:
        found = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {"text": value}
        return Part(name=name, data=_bytes(name, found), filename=str(found.get("filename") or name))
    if isinstance(value, (Mapping, list)):
        return Part(name=name, data=json.dumps(value, ensure_ascii=False).encode(), mime="application/json")
    return Part(name=name, data=scalar(value).encode("utf-8"))


def _bytes(name: str, value: Any) -> bytes:
    """The bytes of `{text}` or `{base64}`, or of plain text."""
    if not isinstance(value, Mapping):
        return scalar(value).encode("utf-8")
    found = cast("Mapping[str, Any]", value)
    if "base64" not in found:
        return scalar(found.get("text", "")).encode("utf-8")
    try:
        return base64.b64decode(str(found["base64"]), validate=True)
    except ValueError as error:
        raise InvalidArguments(f".{name}.base64 is not base64: {error}") from error


def _basic(value: str) -> str:
    """`Basic user:password` as it is sent (RFC 7617 §2); a value without a colon is encoded already."""
    scheme, _, credentials = value.partition(" ")
    if scheme != "Basic" or ":" not in credentials:
        return value
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"
