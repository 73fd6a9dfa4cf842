"""XLSX to Markdown: one table a sheet, values with their formulas, and the comments on its cells."""

from __future__ import annotations

import datetime
import io
import zipfile
from functools import partial
from importlib import import_module
from typing import Any, Final

from pegboard.documents.archive import open_archive
from pegboard.documents.damage import Damage
from pegboard.documents.errors import DocumentRefused
from pegboard.documents.markdown import table
from pegboard.documents.pages import chosen

MAX_ROWS: Final = 2000
MAX_COLUMNS: Final = 200
MAX_SHEETS: Final = 50
MAX_COMMENTS: Final = 200
"""Comments of one sheet that are shown."""


def read_xlsx(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}`; columns by letter and rows by number, so that cells can be named."""
    damage = Damage()
    try:
        reader, counted = open_archive(data, _readers, damage)
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise DocumentRefused("unsupported", f"the file is not an Excel workbook: {error}") from None
    formulas, values = reader.wb, counted.wb
    names = [name for name in formulas.sheetnames if hasattr(formulas[name], "iter_rows")]
    numbers, note = chosen(pages, len(names), most=MAX_SHEETS, noun="sheet")
    parts: list[str] = []
    notes = [note] if note else []
    damage.parts += [f"sheet {s.name!r}" for s in reader.parser.sheets if s.name not in formulas.sheetnames]
    for number in numbers:
        name = names[number - 1]
        text, cut = _sheet(name, formulas[name], values[name], damage)
        hidden = "" if formulas[name].sheet_state == "visible" else " (hidden)"
        parts.append(f"## Sheet {number}: {name}{hidden}\n\n{text or '(empty)'}")
        comments = damage.read(f"the comments of sheet {name!r}", partial(_comments, reader, name), [])
        if comments:
            parts.append("Comments:\n" + "\n".join(comments[:MAX_COMMENTS]))
        if len(comments) > MAX_COMMENTS:
            notes.append(f"Sheet {name!r} has {len(comments)} comments, of which {MAX_COMMENTS} are shown.")
        if cut:
            notes.append(f"Sheet {name!r} is shown up to row {MAX_ROWS} and column {MAX_COLUMNS} only.")
    notes.append(damage.note())
    return {"text": "\n\n".join(parts), "pages": len(names), "note": " ".join(filter(None, notes))}


def _readers(stream: io.BytesIO) -> tuple[Any, Any]:
    """The workbook with its formulas, and with the values that were stored for them."""
    return _reader(stream, data_only=False), _reader(io.BytesIO(stream.getvalue()), data_only=True)


def _reader(stream: io.BytesIO, *, data_only: bool) -> Any:
    reader: Any = import_module("openpyxl.reader.excel").ExcelReader(
        stream, read_only=True, data_only=data_only, keep_links=False
    )
    # openpyxl stumbles over a chart sheet without a drawing.
    reader.read_chartsheet = _no_cells
    reader.read()
    return reader


def _comments(reader: Any, sheet: str) -> list[str]:
    """`- B2 (author): text`, by cell; openpyxl leaves them out where it reads row by row."""
    relations: Any = import_module("openpyxl.packaging.relationship")
    listed: Any = import_module("openpyxl.comments.comment_sheet").CommentSheet
    fromstring: Any = import_module("openpyxl.xml.functions").fromstring
    kind: str = import_module("openpyxl.xml.constants").COMMENTS_NS
    found: list[str] = []
    for entry, relation in reader.parser.find_sheets():
        path = relations.get_rels_path(relation.target)
        if entry.name != sheet or path not in reader.valid_files:
            continue
        for dependent in relations.get_dependents(reader.archive, path).find(kind):
            tree = fromstring(reader.archive.read(dependent.target))
            for cell, comment in listed.from_tree(tree).comments:
                # Excel puts advice to its older versions before the text of a thread.
                text = comment.text
                if text.startswith("[Threaded comment]"):
                    text = text.partition("Comment:")[2]
                found.append(f"- {cell} ({comment.author}): {' '.join(text.split())}")
    return found


def _no_cells(*_: Any) -> None:
    """A sheet that is a chart holds none."""


def _sheet(name: str, formulas: Any, values: Any, damage: Damage) -> tuple[str, bool]:
    """The table and whether it was cut; of a damaged sheet the rows before the damage."""
    get_column_letter: Any = import_module("openpyxl.utils").get_column_letter
    rows: list[tuple[int, list[str]]] = []

    def read() -> bool:
        formulas.reset_dimensions()
        values.reset_dimensions()
        cut = False
        pairs = zip(formulas.iter_rows(values_only=True), values.iter_rows(values_only=True), strict=False)
        for number, (written, counted) in enumerate(pairs, 1):
            if number > MAX_ROWS:
                return True
            cut = cut or any(v is not None for v in written[MAX_COLUMNS:])
            texts = [_cell(f, v) for f, v in zip(written[:MAX_COLUMNS], counted[:MAX_COLUMNS], strict=False)]
            while texts and not texts[-1]:
                texts.pop()
            if texts:
                rows.append((number, texts))
        return cut

    cut = damage.read(lambda: f"sheet {name!r}" + (f" after row {rows[-1][0]}" if rows else ""), read, False)
    if not rows:
        return "", cut
    width = max(len(texts) for _, texts in rows)
    head = ["", *(get_column_letter(i) for i in range(1, width + 1))]
    return table([head, *([str(number), *texts] for number, texts in rows)]), cut


def _cell(written: Any, counted: Any) -> str:
    """The value; for a formula `value (=FORMULA)`, or the formula alone where no value was stored."""
    formula = getattr(written, "text", written)
    if isinstance(formula, str) and formula.startswith("="):
        value = _text(counted)
        return f"{value} ({formula})" if value else formula
    return _text(written)


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.timedelta():
            # As Excel shows a duration, [h]:mm:ss, whatever the days.
            minutes, seconds = divmod(int(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return str(value)
