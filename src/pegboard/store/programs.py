"""Saved programs: the state of programs that wait for a person, until they go on."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from typing import Any, Final

from pegboard.core.errors import Conflict
from pegboard.ports.store import Put, Store

_TABLE: Final = "programs"

MAX_BYTES: Final = 16 * 2**20
"""Of the state of one program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedProgram:
    """A program that waits.

    Attributes:
        code: SHA-256 (hex) of its text.
        snapshot: the interpreter's state.
        made: how many calls it has made.
        names: the tools of the calls that have their result.
        printed: what it has printed.
        labels, sources: of what it has read.
        open: the calls that it waits for: the interpreter's number, id, tool, arguments, and the result if it is there.
    """

    code: str
    snapshot: bytes
    made: int
    names: tuple[str, ...] = ()
    printed: str = ""
    labels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    open: tuple[tuple[int, str, str, dict[str, Any], dict[str, Any] | None], ...] = ()


class SavedPrograms:
    """The programs of a store that wait.

    Each is kept under its call, and known by the SHA-256 of all that is kept: whoever has that from the record gets
    that very state or none.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put(self, place: str, program: SavedProgram) -> str:
        """Keep a program in the place of its call; the SHA-256 (hex) by which `take` knows it.

        Raises:
            Conflict: it is over MAX_BYTES.
        """
        body = json.dumps(
            {**asdict(program), "snapshot": b64encode(program.snapshot).decode("ascii")}, ensure_ascii=False
        ).encode("utf-8", "surrogatepass")
        if len(body) > MAX_BYTES:
            raise Conflict(
                f"the program waits for a person, and its state of {len(body)} bytes is over the limit of {MAX_BYTES}",
                hint="Keep less data in variables before a call that needs approval, or make that call by itself.",
            )
        await self._store.put(Put(_TABLE, place, body))
        return hashlib.sha256(body).hexdigest()

    async def take(self, place: str, digest: str) -> SavedProgram | None:
        """The program of that place, which is forgotten; None if there is none, or another than the digest says."""
        row = await self._store.get(_TABLE, place)
        if row is None or hashlib.sha256(row.value).hexdigest() != digest:
            return None
        await self._store.put(Put(_TABLE, place, None))
        value = json.loads(row.value.decode("utf-8", "surrogatepass"))
        return SavedProgram(
            code=value["code"],
            snapshot=b64decode(value["snapshot"]),
            made=value["made"],
            names=tuple(value["names"]),
            printed=value["printed"],
            labels=tuple(value["labels"]),
            sources=tuple(value["sources"]),
            open=tuple(tuple(one) for one in value["open"]),
        )
