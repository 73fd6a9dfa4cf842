"""`pegboard tools`: what tools there are."""

from __future__ import annotations

import json
from typing import Any

from pegboard.cli.options import Options
from pegboard.cli.show import print_json, say, table
from pegboard.core.tool import Tool


def tools(dialect: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        kit = app.toolkit
        if dialect is not None:
            shown = kit.schemas(dialect)
            say(
                shown
                if isinstance(shown, str)
                else json.dumps(shown, ensure_ascii=False, indent=None if options.json else 2)
            )
        elif options.json:
            print_json([_row(t) for t in kit])
        else:
            rows = [(t.name, ", ".join(_kinds(t)) or "pure", t.description.splitlines()[0][:80]) for t in kit]
            table(rows, head=("tool", "effects", "what it does"))
    return 0


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "effects": _kinds(tool),
    }


def _kinds(tool: Tool) -> list[str]:
    """The kinds of effect that a tool can have, as far as it declares them."""
    kinds = [p.marker.kind for p in tool.markers if p.marker is not None]
    declared = tool.effects
    if declared is not None and not callable(declared):
        kinds += [e.kind for e in declared]
    return sorted(set(kinds))
