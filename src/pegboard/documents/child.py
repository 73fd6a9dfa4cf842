"""Runs one reader in a limited child process and turns its answer into a Document."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.content import Image
from pegboard.core.errors import InvalidArguments, TimedOut, TooLarge, ToolError, Unavailable, Unsupported
from pegboard.ports.documents import OFFICE, Document, DocumentKind

_ERRORS: Final[dict[str, type[ToolError]]] = {
    "invalid_arguments": InvalidArguments,
    "unsupported": Unsupported,
    "too_large": TooLarge,
    "unavailable": Unavailable,
}

_ANSWER_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLimits:
    """What one reader may take.

    Attributes:
        wall_s: seconds until the child is killed.
        cpu_s: seconds of processor time.
        memory_bytes: address space.
    """

    wall_s: float = 30.0
    cpu_s: int = 25
    memory_bytes: int = 1536 << 20


DEFAULT_LIMITS: Final = ReaderLimits()

_SUFFIXES: Final[dict[str, DocumentKind]] = {
    ".pdf": "pdf", ".docx": "docx", ".docm": "docx", ".xlsx": "xlsx", ".xlsm": "xlsx", ".pptx": "pptx",
    ".pptm": "pptx", ".html": "html", ".htm": "html", ".xhtml": "html", ".ipynb": "notebook", ".csv": "csv",
    ".tsv": "csv", ".png": "image", ".jpg": "image", ".jpeg": "image", ".gif": "image", ".webp": "image",
    ".bmp": "image", ".tif": "image", ".tiff": "image",
}  # fmt: skip


class DocumentReader:
    """The Documents port: one child process a document, ended with all that it started."""

    def __init__(self, limits: ReaderLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits

    def kind_of(self, name: str, mime_type: str | None = None) -> DocumentKind | None:
        """By suffix, else by media type."""
        if mime_type is not None:
            if mime_type == "application/pdf":
                return "pdf"
            if mime_type == OFFICE:
                return "docx"  # the reader finds out which
            return "image" if mime_type.startswith("image/") else None
        return _SUFFIXES.get(os.path.splitext(name)[1].lower())

    async def read(self, kind: DocumentKind, data: bytes, *, pages: str | None = None) -> Document:
        """See Documents."""
        limits = self._limits
        job = json.dumps(
            {"kind": kind, "pages": pages, "memory_bytes": limits.memory_bytes, "cpu_s": limits.cpu_s}
        )
        home = str(Path(__file__).parents[2])
        start = (
            f"import sys; sys.path.insert(0, {home!r}); from pegboard.documents.worker import main; main()"
        )
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", start, job,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8"}, cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(limits.wall_s):
                answer = await _talk(child, data)
                status = await child.wait()
        except TimeoutError:
            raise TimedOut(
                f"reading the {kind} took longer than {limits.wall_s:g} s and was stopped",
                hint="Ask for fewer pages, or convert it with a command.",
                retryable=False,
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
        return document_of(kind, answer, status)


async def _talk(child: asyncio.subprocess.Process, data: bytes) -> bytes:
    """Send the document and take the answer, both ways at once."""
    assert child.stdin is not None
    assert child.stdout is not None
    reading = asyncio.ensure_future(_read(child.stdout))
    try:
        # A child that ended early has answered; its broken pipe says nothing more.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            child.stdin.write(data)
            await child.stdin.drain()
            child.stdin.close()
            await child.stdin.wait_closed()
        return await reading
    finally:
        reading.cancel()


async def _read(stream: asyncio.StreamReader) -> bytes:
    parts = bytearray()
    while block := await stream.read(1 << 18):
        parts += block
        if len(parts) > _ANSWER_BYTES:
            raise TooLarge(f"the reader returned more than {_ANSWER_BYTES} bytes")
    return bytes(parts)


def document_of(kind: DocumentKind, answer: bytes, status: int) -> Document:
    """The Document in a worker's answer, or the error that it tells."""
    try:
        found = cast("dict[str, Any]", json.loads(answer))
    except ValueError:
        if status == -signal.SIGXCPU:
            raise TimedOut(f"reading the {kind} took too much processor time", retryable=False) from None
        raise Unsupported(
            f"the {kind} reader crashed on this file (exit status {status})",
            hint="It may be damaged or malicious; convert it with another program.",
        ) from None
    error = found.get("error")
    if error is not None:
        raise _ERRORS[error["code"]](error["message"], hint=error["hint"])
    picture = found.get("image")
    return Document(
        kind=found.get("kind", kind),
        text=found["text"],
        image=None
        if picture is None
        else Image(data=base64.b64decode(picture), mime_type=found["mime_type"], label=found["text"]),
        pages=found["pages"],
        note=found["note"],
    )
