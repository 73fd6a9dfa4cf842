"""CSV and TSV to a Markdown table."""

from __future__ import annotations

import csv
import io
from itertools import islice
from typing import Any, Final

from pegboard.documents.html import decoded
from pegboard.documents.markdown import table

MAX_ROWS: Final = 1000


def read_csv(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}`; the delimiter is found among comma, semicolon, tab and bar."""
    text = decoded(data).removeprefix("\ufeff")
    try:
        dialect: Any = csv.Sniffer().sniff(text[:16384], delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    # The text as a whole is bounded; a long cell is no damage.
    csv.field_size_limit(1 << 28)
    reader = csv.reader(io.StringIO(text, newline=""), dialect)
    rows = [row for row in islice(reader, MAX_ROWS + 1) if row]
    more = next(reader, None) is not None
    note = f"The first {MAX_ROWS} rows; format='text' reads on by offset and limit." if more else ""
    return {"text": table(rows), "pages": None, "note": note}
