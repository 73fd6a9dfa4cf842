"""Docstrings: what they say to a model, in the Google, NumPy and Sphinx styles."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, cast

from pegboard.core.values import record


@record(kw_only=True)
class ParsedDocstring:
    """A parsed docstring.

    Attributes:
        description: the paragraphs before the first section.
        parameters: what is said about each parameter, by its name.
        returns: what is said about the result, may be empty.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    returns: str = ""


NOTHING: Final = ParsedDocstring()


def read_docstring(text: str | None) -> ParsedDocstring:
    """Parse one docstring, as it stands in the source (indentation is removed here)."""
    if not text or not text.strip():
        return NOTHING
    clean = inspect.cleandoc(text)
    if ":" not in clean and "---" not in clean:
        # No style has a section without one of these, and loading the parser costs as much as pydantic's half.
        return ParsedDocstring(description=clean.strip())
    from griffe import Docstring, parse

    sections = cast("list[Any]", parse(Docstring(clean), cast("Any", _style_of(clean)), warnings=False))
    description: list[str] = []
    parameters: dict[str, str] = {}
    returns = ""
    for position, section in enumerate(sections):
        kind = section.kind.value
        if kind == "text" and position == len(description):
            description.append(section.value.strip())
        elif kind in ("parameters", "other parameters"):
            for item in section.value:
                words = _one_line(item.description)
                for name in item.name.split(","):
                    parameters[name.strip().lstrip("*")] = words
        elif kind == "returns":
            returns = " ".join(_one_line(item.description) for item in section.value).strip()
    return ParsedDocstring(description="\n\n".join(description), parameters=parameters, returns=returns)


def _style_of(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    if any(line.startswith((":param", ":return", ":arg", ":raise", ":type")) for line in lines):
        return "sphinx"
    if any(line.startswith("---") and not line.strip("-") for line in lines):
        return "numpy"
    return "google"


def _one_line(text: str) -> str:
    return " ".join(text.split())
