"""OpenAPI 3.1 (and 3.0) documents as tools: each operation one tool with the effect `connect HOST`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

from pegboard.core.errors import BuildError
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.interop.http import BodyKind, Secrets, Sender, effects_of
from pegboard.interop.openapi_document import base_of, follow, listed, mapping, own_schema, parsed
from pegboard.interop.openapi_request import (
    FixedFields,
    Operation,
    ParameterLocation,
    locate_parameter,
    request_of,
)
from pegboard.net.client import HttpClient
from pegboard.net.destinations import is_loopback

_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_IDEMPOTENT: Final = frozenset({"get", "put", "delete", "head", "options"})
# Said by other parts of the document; as parameters they are to be ignored (OpenAPI 3.1 §4.8.12.2.1).
_NO_PARAMETERS: Final = frozenset({"accept", "content-type", "authorization", "cookie", "host"})
_FILE: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "filename": {"type": "string"},
        "text": {"type": "string", "description": "The content, if it is text."},
        "base64": {"type": "string", "description": "The content in base64, if it is not text."},
    },
    "additionalProperties": False,
}
"""How a model gives the content of a file."""


def openapi_tools(
    document: str | bytes | Mapping[str, Any],
    *,
    base_url: str = "",
    auth: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    secrets: Secrets | None = None,
    keep: Iterable[str] = (),
    timeout_s: float = 30.0,
    client: HttpClient | None = None,
    notes: Callable[[str], None] | None = None,
) -> Toolkit:
    """A tool for each operation of a document.

    Names that are the same once they are fitted are told apart by `_2`, `_3` and so on, and an operation that cannot
    be read is left out; `notes` gets a sentence for each of these.

    Args:
        document: JSON or YAML text, or the parsed document. Only references inside it are followed.
        base_url: in place of every server of the document.
        auth: security scheme → its value, usually `secret://name`; `user:password` for basic. It goes to the
            document's own server; an operation with another host gets none.
        headers: sent with every request; values may hold `secret://name`.
        secrets: what `secret://name` means; asked at each call.
        keep: patterns of tool names or `METHOD /path`; empty = all.
        timeout_s: seconds for a whole request.
        client: sends the requests; None = one with the usual limits.
        notes: is told what was renamed or left out; None = the log `pegboard.openapi`.

    Raises:
        BuildError: no OpenAPI document, no server, or a credential for which it has no place.
    """
    spec = parsed(document)
    base = base_url or base_of(spec)
    origin = effects_of(base)
    sender = Sender(url=base, secrets=secrets or {}, timeout_s=timeout_s, client=client or HttpClient())
    fixed = _credentials(spec, auth or {}, {**(headers or {})})
    patterns = tuple(keep)
    note = notes or _logged
    tools: dict[str, Tool] = {}
    renamed: list[str] = []
    faults: list[str] = []
    for path, given in mapping(spec.get("paths")).items():
        try:
            item = follow(spec, given)
        except BuildError as error:
            faults.append(f"{path} is left out: {error}")
            continue
        for method in _METHODS:
            operation = mapping(item.get(method))
            if not operation:
                continue
            name = _name(operation, method, path)
            if patterns and not any(
                fnmatchcase(name, p) or fnmatchcase(f"{method.upper()} {path}", p) for p in patterns
            ):
                continue
            free = _free_name(name, tools)
            try:
                read = _read_operation(spec, method, path, item, operation)
                here = base_url or base_of(spec, operation, item)
                # A document that sends one operation elsewhere must not carry the credentials there.
                known = fixed if effects_of(here) == origin else FixedFields()
                made = _tool(read, operation, free, here, _sender_to(here, sender), known)
                made.signature.check()
            except (BuildError, TypeError, ValueError, AttributeError, KeyError) as error:
                # The document is somebody else's: one operation of a wrong form must not cost the others.
                faults.append(f"{method.upper()} {path} is left out: {error}")
                continue
            tools[free] = made
            if free != name:
                renamed.append(
                    f"{method.upper()} {path} is called {free}, since another operation is called {name}"
                )
    if faults and not tools:
        raise BuildError(f"no operation can be used: {faults[0]}")
    for text in (*renamed, *faults):
        note(text)
    return Toolkit(list(tools.values()))


def _sender_to(url: str, own: Sender) -> Sender:
    """The sender of the document's own server, which reaches public places beside it.

    A document of this machine may name another server of this machine.
    """
    hosts = [urlsplit(one).hostname or "" for one in (url, own.url)]
    return replace(own, url=url) if all(map(is_loopback, hosts)) else own


def _logged(text: str) -> None:
    import logging

    logging.getLogger("pegboard.openapi").warning("%s", text)


def _free_name(name: str, taken: Collection[str]) -> str:
    numbered = (f"{name[: 64 - len(mark)]}{mark}" for mark in map("_{}".format, range(2, len(taken) + 3)))
    return next(one for one in (name, *numbered) if one not in taken)


def _tool(
    read: Operation, operation: Mapping[str, Any], name: str, base: str, sender: Sender, fixed: FixedFields
) -> Tool:
    async def call(**arguments: Any) -> Any:
        return await sender.send(request_of(read, base, arguments, fixed, sender.filling(base)))

    text = str(operation.get("summary") or "").strip()
    more = str(operation.get("description") or "").strip()
    description = (
        "\n\n".join(dict.fromkeys(t for t in (text, more) if t)) or f"{read.method.upper()} {read.path}"
    )
    made = Tool(
        call,
        name=name,
        description=description[:1000],
        effects=effects_of(base),
        parameters=read.schema,
        idempotent=read.method in _IDEMPOTENT,
        hints=tuple(str(t) for t in operation.get("tags") or ()),
    )
    made.signature = Signature.foreign(
        read.schema, description=description[:1000], name=name, closed=True, fill_defaults=False
    )
    return made


def _read_operation(
    spec: Mapping[str, Any], method: str, path: str, item: Mapping[str, Any], operation: Mapping[str, Any]
) -> Operation:
    given: dict[tuple[str, str], Mapping[str, Any]] = {}
    for raw in [*listed(item.get("parameters")), *listed(operation.get("parameters"))]:
        parameter = follow(spec, raw)
        if parameter.get("in") == "header" and str(parameter.get("name")).lower() in _NO_PARAMETERS:
            continue
        given[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    properties: dict[str, Any] = {}
    required: list[str] = []
    places: list[ParameterLocation] = []
    for (name, where), parameter in given.items():
        argument = name if name not in properties else f"{name}_{where}"
        schema = dict(_schema_of(parameter))
        text = parameter.get("description") or schema.get("description")
        properties[argument] = {**schema, **({"description": text} if text else {})}
        places.append(locate_parameter(argument, where, parameter))
        if parameter.get("required") or where == "path":
            required.append(argument)
    kind, mime, spread, files = _body(spec, operation, properties, required)
    schema = own_schema({"type": "object", "properties": properties, "required": required}, spec)
    return Operation(
        method=method, path=path, places=tuple(places), body=kind, mime=mime, spread=spread, files=files,
        schema=schema,
    )  # fmt: skip


def _schema_of(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    """A parameter's schema, which may stand below its only media type."""
    for media in mapping(parameter.get("content")).values():
        return mapping(mapping(media).get("schema"))
    return mapping(parameter.get("schema"))


def _kind(content: Mapping[str, Any]) -> tuple[BodyKind, str]:
    """What is sent of the media types that the document offers, the plainest first."""
    kinds: tuple[tuple[BodyKind, Callable[[str], bool]], ...] = (
        ("json", lambda m: "json" in m),
        ("form", lambda m: m == "application/x-www-form-urlencoded"),
        ("multipart", lambda m: m == "multipart/form-data"),
        ("text", lambda m: m.startswith("text/") or m.endswith("xml")),
        ("bytes", lambda m: True),
    )
    for kind, fits in kinds:
        for media in content:
            if fits(media.partition(";")[0].strip().lower()):
                return kind, media
    return "none", ""


def _body(
    spec: Mapping[str, Any], operation: Mapping[str, Any], properties: dict[str, Any], required: list[str]
) -> tuple[BodyKind, str, bool, frozenset[str]]:
    """Add the body's parameters; its kind, media type, whether they are spread, and which are files."""
    body = follow(spec, operation.get("requestBody") or {})
    content = mapping(body.get("content"))
    kind, mime = _kind(content)
    if kind == "none":
        return kind, mime, False, frozenset()
    schema = dict(follow(spec, mapping(content[mime]).get("schema") or {}))
    if kind == "bytes":
        schema = dict(_FILE)
    own = {
        k: _FILE if kind == "multipart" and _is_file(follow(spec, v)) else v
        for k, v in mapping(schema.get("properties")).items()
        # What only the server may set is no argument (OpenAPI 3.1, JSON Schema readOnly).
        if not follow(spec, v).get("readOnly")
    }
    files = frozenset(k for k, v in own.items() if v is _FILE)
    plain = not any(k in schema for k in ("oneOf", "anyOf", "allOf", "additionalProperties"))
    if own and plain and kind != "bytes" and not (own.keys() & properties.keys()):
        properties.update(own)
        if body.get("required"):
            required += [str(r) for r in schema.get("required") or () if r in own]
        return kind, mime, True, files
    if files:
        schema["properties"] = own
    properties["body"] = {"description": "The request's body.", **schema}
    if body.get("required"):
        required.append("body")
    return kind, mime, False, files


def _is_file(schema: Mapping[str, Any]) -> bool:
    return schema.get("format") == "binary" or "contentMediaType" in schema or not schema


def _credentials(spec: Mapping[str, Any], auth: Mapping[str, str], headers: dict[str, str]) -> FixedFields:
    """Each scheme's value where the document wants it.

    Raises:
        BuildError: a scheme that the document lacks, or of a kind that no value fills.
    """
    schemes = mapping(mapping(spec.get("components")).get("securitySchemes"))
    query: list[tuple[str, str]] = []
    cookies: list[tuple[str, str]] = []
    for name, value in auth.items():
        scheme = follow(spec, schemes.get(name) or {})
        kind, http, where = (
            str(scheme.get("type", "")),
            str(scheme.get("scheme", "")).lower(),
            scheme.get("in"),
        )
        if kind == "apiKey" and where == "header":
            headers[str(scheme["name"])] = value
        elif kind == "apiKey" and where in ("query", "cookie"):
            (query if where == "query" else cookies).append((str(scheme["name"]), value))
        elif (kind == "http" and http == "bearer") or kind in ("oauth2", "openIdConnect"):
            headers["Authorization"] = f"Bearer {value}"
        elif kind == "http" and http == "basic":
            headers["Authorization"] = f"Basic {value}"
        else:
            known = ", ".join(schemes) or "none"
            raise BuildError(
                f"the security scheme {name!r} is not one that can be filled; there are: {known}"
            )
    return FixedFields(headers=headers, query=tuple(query), cookies=tuple(cookies))


def _name(operation: Mapping[str, Any], method: str, path: str) -> str:
    given = str(operation.get("operationId") or f"{method}_{path}")
    name = re.sub(r"[^A-Za-z0-9]+", "_", given).strip("_")[:64]
    return name if re.match(r"[A-Za-z_]", name) else f"op_{name}"[:64]


__all__ = ["openapi_tools"]
