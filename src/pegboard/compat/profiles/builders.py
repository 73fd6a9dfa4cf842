"""Words in which profiles say their parameters."""

from __future__ import annotations

from typing import Any

from pegboard.core.profiles import ProfileParameter, ToolProfile

Schema = dict[str, Any]


def text(description: str, **more: Any) -> Schema:
    """A string parameter."""
    return {"type": "string", "description": description, **more}


def integer(description: str, **more: Any) -> Schema:
    """A whole number."""
    return {"type": "integer", "description": description, **more}


def flag(description: str, **more: Any) -> Schema:
    """A boolean."""
    return {"type": "boolean", "description": description, **more}


def required(name: str, schema: Schema, to: str | None = "") -> ProfileParameter:
    """A parameter that must be given; `to` is the name of ours that it stands for."""
    return ProfileParameter(name=name, schema=schema, canonical=to, required=True)


def optional(name: str, schema: Schema, to: str | None = "") -> ProfileParameter:
    """A parameter that may be left out."""
    return ProfileParameter(name=name, schema=schema, canonical=to)


def row(
    name: str, description: str, *parameters: ProfileParameter, tool: str = "", **more: Any
) -> ToolProfile:
    """A tool as a profile shows it; `tool` is ours that stands behind it, the same name where it is left out."""
    return ToolProfile(name=name, tool=tool or name, description=description, parameters=parameters, **more)
