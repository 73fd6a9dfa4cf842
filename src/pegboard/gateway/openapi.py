"""The endpoints of the gateway, and the OpenAPI document that tells them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request

from pegboard.version import VERSION

_REFERENCE: Final = "#/components/schemas/{model}"
_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {name: {"type": "string"} for name in ("code", "message", "hint")},
        }
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path.

    Attributes:
        method, path: as starlette writes them.
        handler: answers a request with a Response, or with what becomes JSON. Its docstring is the summary.
        body: what the request's body has to be; None = it has none.
        query: type by name of the query's parameters.
        public: it needs no token.
        media: of the response, where it is not JSON.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Any]]
    body: type[BaseModel] | None = None
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    public: bool = False
    media: str = "application/json"

    @property
    def shown_path(self) -> str:
        """The path as OpenAPI writes it."""
        return self.path.replace(":path}", "}")

    @property
    def public_path(self) -> str:
        """The path as a RequestGuard takes it."""
        return re.sub(r"{\w+}$", "*", self.path)

    @property
    def summary(self) -> str:
        """What it does."""
        return (self.handler.__doc__ or "").partition("\n")[0]


def openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the endpoints."""
    bodies = [(e.body, "validation") for e in endpoints if e.body is not None]
    _, schemas = models_json_schema(bodies, ref_template=_REFERENCE)  # pyright: ignore[reportArgumentType]
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.shown_path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pegboard", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Endpoint) -> dict[str, Any]:
    error = {
        "description": "An error.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    shown: dict[str, Any] = {
        "operationId": one.handler.__name__,
        "summary": one.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"{(\w+)}", one.shown_path)
            ),
            *({"name": name, "in": "query", "schema": {"type": kind}} for name, kind in one.query.items()),
        ],
        "responses": {
            "2XX": {"description": "The answer.", "content": {one.media: {}}}, "4XX": error, "5XX": error,
        },
        "security": [] if one.public else [{"token": []}],
    }  # fmt: skip
    if one.body is not None:
        schema = {"$ref": _REFERENCE.format(model=one.body.__name__)}
        shown["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return shown


def front_page(endpoints: Sequence[Endpoint], workspace_note: str) -> str:
    """A page for a person who opens the address in a browser."""
    rows = "\n".join(
        f"<tr><td>{e.method}<td><code>{escape(e.shown_path)}</code><td>{escape(e.summary)}" for e in endpoints
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Pegboard</title>'
        "<h1>Pegboard</h1>"
        f"<p>{escape(workspace_note)} Send the token as <code>Authorization: Bearer TOKEN</code>. "
        'The API is described in <a href="/openapi.json">/openapi.json</a>.'
        f"<table>\n{rows}\n</table></html>\n"
    )
