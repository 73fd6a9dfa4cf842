"""`pegboard tools`: what tools there are."""

from __future__ import annotations

import json
from typing import Any

from pegboard.cli.options import Options
from pegboard.cli.show import note, print_json, say, table
from pegboard.core.tool import Tool


def tools(dialect: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        kit = app.toolkit
        for line in app.config.ignored:
            note(f"note: {line}")
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
            rows = [(t.name, ", ".join(t.kinds()) or "none", t.description.splitlines()[0][:80]) for t in kit]
            table(rows, head=("tool", "effects", "what it does"))
    return 0


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "effects": list(tool.kinds()),
    }
