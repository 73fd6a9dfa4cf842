"""The child process in which one document is parsed: `python -m pegboard.documents.worker KIND …`."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from pegboard.documents.errors import DocumentRefused
from pegboard.documents.sniff import true_kind

READERS: Final[dict[str, str]] = {
    "pdf": "pegboard.documents.pdf:read_pdf",
    "docx": "pegboard.documents.docx:read_docx",
    "xlsx": "pegboard.documents.xlsx:read_xlsx",
    "pptx": "pegboard.documents.pptx:read_pptx",
    "html": "pegboard.documents.html:read_html",
    "notebook": "pegboard.documents.notebook:read_notebook",
    "csv": "pegboard.documents.table_file:read_csv",
    "image": "pegboard.documents.image:read_image",
}

MAX_TEXT: Final = 4 << 20
"""Characters of Markdown that one document may give."""


def main() -> None:
    """Read the document on stdin; one JSON object on stdout: a Document's fields, or `error`.

    Arguments: one JSON object `{kind, pages, memory_bytes, cpu_s}`.
    """
    job: dict[str, Any] = json.loads(sys.argv[1])
    # Before a single byte of the document is looked at.
    resource.setrlimit(resource.RLIMIT_AS, (job["memory_bytes"], job["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CPU, (job["cpu_s"], job["cpu_s"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = answer(job["kind"], sys.stdin.buffer.read, job["pages"])
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    # Taking the parsers down in good order takes longer than many documents.
    os._exit(0)


def answer(kind: str, read: Callable[[], bytes], pages: str | None) -> dict[str, Any]:
    """A Document's fields, or `error`, of what `read` gives."""
    try:
        data = read()
        kind, told = true_kind(kind, data)
        module, _, name = READERS[kind].partition(":")
        found: dict[str, Any] = getattr(import_module(module), name)(data, pages)
    except DocumentRefused as refused:
        return _error(refused.code, refused.message, refused.hint)
    except ImportError as error:
        return _error(
            "unavailable",
            f"the package {error.name or error} is not installed",
            "pip install 'pegboard[documents]'",
        )
    except MemoryError:
        return _error("too_large", "the document needs more memory than a reader may take")
    except Exception as error:  # noqa: BLE001  (boundary: any parser, any hostile file)
        # A boundary: whatever a parser raises over a hostile file says that it cannot be read.
        return _error("unsupported", f"the document is damaged: {type(error).__name__}: {str(error)[:200]}")
    found["kind"], found["note"] = kind, " ".join(filter(None, (told, found["note"])))
    if len(found["text"]) > MAX_TEXT:
        found["text"] = found["text"][:MAX_TEXT]
        found["note"] = f"{found['note']} The text was cut at {MAX_TEXT} characters.".strip()
    return found


def _error(code: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "hint": hint}}


if __name__ == "__main__":
    main()
