"""Words in which profiles say their parameters."""

from __future__ import annotations

from typing import Any

from pegboard.core.profiles import Given, Row

Schema = dict[str, Any]


def text(description: str, **more: Any) -> Schema:
    """A string parameter."""
    return {"type": "string", "description": description, **more}


def whole(description: str, **more: Any) -> Schema:
    """A whole number."""
    return {"type": "integer", "description": description, **more}


def flag(description: str, **more: Any) -> Schema:
    """A boolean."""
    return {"type": "boolean", "description": description, **more}


def need(name: str, schema: Schema, to: str | None = "") -> Given:
    """A parameter that must be given; `to` is the name of ours that it stands for."""
    return Given(name=name, schema=schema, to=to, required=True)


def may(name: str, schema: Schema, to: str | None = "") -> Given:
    """A parameter that may be left out."""
    return Given(name=name, schema=schema, to=to)


def row(name: str, description: str, *parameters: Given, tool: str = "", **more: Any) -> Row:
    """A tool as a profile shows it; `tool` is ours that stands behind it, the same name where it is left out."""
    return Row(name=name, tool=tool or name, description=description, parameters=parameters, **more)
