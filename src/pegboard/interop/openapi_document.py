"""OpenAPI documents: parsed, references followed inside the document only, schemas in JSON Schema's own words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pegboard.core.errors import BuildError

_DEFS: Final = "#/$defs/"
_SCHEMAS: Final = "#/components/schemas/"
# What stands below these is a value or a list of names, no schema.
_VALUES: Final = frozenset({"example", "examples", "default", "enum", "const", "required"})


def parsed(document: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """A document from its text.

    Raises:
        BuildError: it is neither JSON nor YAML, no object, or no OpenAPI 3.
    """
    found: Any = document
    if not isinstance(document, Mapping):
        text = document.decode("utf-8-sig") if isinstance(document, bytes) else document
        try:
            found = json.loads(text)
        except ValueError:
            import yaml

            try:
                found = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise BuildError(f"the OpenAPI document is neither JSON nor YAML: {error}") from error
    if not isinstance(found, Mapping):
        raise BuildError("the OpenAPI document is not an object")
    spec = cast("Mapping[str, Any]", found)
    version = str(spec.get("openapi", ""))
    if not version.startswith("3."):
        older = (
            f"; it is Swagger {spec['swagger']}, convert it to OpenAPI 3 first" if "swagger" in spec else ""
        )
        raise BuildError(f"this is no OpenAPI 3 document (openapi: {version or 'missing'}){older}")
    return spec


def follow(spec: Mapping[str, Any], node: Any) -> Mapping[str, Any]:
    """The node that a local reference means.

    Raises:
        BuildError: it leads out of the document, or round in a circle.
    """
    seen = 0
    while isinstance(node, Mapping) and "$ref" in node:
        reference = str(cast("Mapping[str, Any]", node)["$ref"])
        seen += 1
        if not reference.startswith("#/") or seen > 20:
            raise BuildError(f"the reference {reference!r} leads out of the document or into a circle")
        node = _at(spec, reference)
    return mapping(node)


def own_schema(schema: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with everything that it refers to as `$defs` of its own.

    Raises:
        BuildError: a reference leads nowhere, or out of the document.
    """
    names: dict[str, str] = {}
    defs: dict[str, Any] = {}
    waiting: list[str] = []

    def named(reference: str) -> str:
        if reference not in names:
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.removeprefix(_SCHEMAS).removeprefix("#/"))
            while plain in names.values():
                plain += "_"
            names[reference] = plain
            waiting.append(reference)
        return _DEFS + names[reference]

    def moved(node: Any) -> Any:
        if isinstance(node, list):
            return [moved(n) for n in cast("list[Any]", node)]
        if not isinstance(node, Mapping):
            return node
        out: dict[str, Any] = {}
        for key, value in cast("Mapping[str, Any]", node).items():
            if key == "$ref" and isinstance(value, str):
                if not value.startswith("#/"):
                    raise BuildError(f"the reference {value!r} leads out of the document")
                out[key] = named(value)
            elif key != "discriminator":
                out[key] = value if key in _VALUES else moved(value)
        return _newer(out)

    made = cast("dict[str, Any]", moved(schema))
    while waiting:
        reference = waiting.pop()
        found = _at(spec, reference)
        if found is None:
            raise BuildError(f"the document refers to the schema {reference!r}, which it lacks")
        defs[names[reference]] = moved(found)
    return {**made, "$defs": defs} if defs else made


def server_of(*nodes: Mapping[str, Any]) -> str:
    """The first server of the first node that has any, its variables at their defaults; empty without one."""
    for node in nodes:
        servers = node.get("servers")
        if not isinstance(servers, list) or not servers:
            continue
        first = mapping(cast("list[Any]", servers)[0])
        url = str(first.get("url", ""))
        for name, variable in mapping(first.get("variables")).items():
            url = url.replace("{" + name + "}", str(mapping(variable).get("default", "")))
        return url
    return ""


def base_of(spec: Mapping[str, Any], *nodes: Mapping[str, Any]) -> str:
    """Where an operation's requests go: its own server, its path's, or the document's.

    Raises:
        BuildError: none of them has a host.
    """
    url, whole = server_of(*nodes, spec), server_of(spec)
    if urlsplit(whole).hostname and not urlsplit(url).hostname:
        # A relative address starts at where the document lies (OpenAPI 3.1 §4.8.5).
        from urllib.parse import urljoin

        url = urljoin(whole.rstrip("/") + "/", url)
    if not urlsplit(url).hostname:
        raise BuildError(f"the document names no server with a host ({url or 'none'}); give base_url=…")
    return url


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _at(spec: Mapping[str, Any], reference: str) -> Any:
    found: Any = spec
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdigit() and int(name) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(name)]
        else:
            found = mapping(found).get(name)
    return found


def _newer(node: dict[str, Any]) -> dict[str, Any]:
    """3.0's words in 3.1's: `nullable`, and bounds that are exclusive by a flag."""
    nullable = node.pop("nullable", False) is True
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # A false flag says nothing and must go all the same.
        if isinstance(node.get(flag), bool) and node.pop(flag) and bound in node:
            node[flag] = node.pop(bound)
    if not nullable:
        return node
    if isinstance(node.get("type"), str):
        node["type"] = [node["type"], "null"]
        if isinstance(node.get("enum"), list) and None not in node["enum"]:
            node["enum"] = [*node["enum"], None]
        return node
    return (
        {"anyOf": [node, {"type": "null"}]}
        if any(k in node for k in ("$ref", "allOf", "oneOf", "anyOf"))
        else node
    )
