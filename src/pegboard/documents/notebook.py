"""Jupyter notebooks to Markdown: cells and the text of their outputs."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, Final, TypeAlias, cast

from pegboard.documents.damage import Damage
from pegboard.documents.errors import DocumentRefused
from pegboard.documents.markdown import fence

Table: TypeAlias = dict[str, Any]

MAX_OUTPUT: Final = 4000
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def read_notebook(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}`; pictures in outputs are named, long outputs cut."""
    try:
        book = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DocumentRefused("unsupported", f"the notebook is not valid JSON: {error}") from None
    if not isinstance(book, dict) or not isinstance(cast("Table", book).get("cells"), list):
        raise DocumentRefused(
            "unsupported", "the notebook has no list of cells (only version 4 is supported)"
        )
    table = cast("Table", book)
    language = str(_table(_table(table.get("metadata")).get("language_info")).get("name") or "python")
    damage = Damage()
    parts = [
        damage.read(f"cell {number}", partial(_cell, number, _table(cell), language), "")
        for number, cell in enumerate(table["cells"], 1)
    ]
    return {"text": "\n\n".join(p for p in parts if p), "pages": None, "note": damage.note()}


def _cell(number: int, cell: Table, language: str) -> str:
    source = _text(cell.get("source"))
    if cell.get("cell_type") == "markdown":
        return source
    if cell.get("cell_type") != "code":
        return fence(source) if source.strip() else ""
    parts = [f"Cell {number}:\n{fence(source, language)}"]
    parts += [_output(_table(output)) for output in cast("list[Any]", cell.get("outputs") or [])]
    return "\n\n".join(p for p in parts if p)


def _output(output: Table) -> str:
    if output.get("output_type") == "error":
        return fence(f"{output.get('ename')}: {_ESCAPES.sub('', str(output.get('evalue')))}", "error")
    data = _table(output.get("data"))
    text = _ESCAPES.sub("", _text(output.get("text")) or _text(data.get("text/plain")))
    pictures = [f"[output {kind}]" for kind in data if kind.startswith("image/")]
    if len(text) > MAX_OUTPUT:
        text = text[:MAX_OUTPUT] + f"\n… {len(text) - MAX_OUTPUT} characters more"
    return "\n".join([fence(text, "output")] * bool(text.strip()) + pictures)


def _table(value: Any) -> Table:
    """The value where it is an object, else an empty one: notebooks are written by many programs."""
    return cast("Table", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value or "")
