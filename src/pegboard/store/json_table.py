"""JsonTable: a small table in one private file, sealed so that a change by anything else is noticed.

What a person trusts (project files, definitions of foreign tools, model servers) is kept so. The file carries a mac
over its entries and the number of changes so far; the mac of the last change is kept outside as well, beside the
heads of the streams, so that an older state that was put back is missed too.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from pegboard.core.errors import ConfigError
from pegboard.store.chain import TABLE_FILE, Chain
from pegboard.store.private_file import replace_private

T = TypeVar("T")

_PARTS: Final = {"changes", "mac", "entries"}


class _Sealed(NamedTuple):
    """A file's content: entries by key, the number of changes, and the mac, which is empty in an older file."""

    entries: dict[str, Any]
    changes: int = 0
    mac: str = ""


class JsonTable(Generic[T]):
    """JSON values by text, in a file of mode 0600 that is replaced whole.

    Args:
        file: made at the first write.
        what: what it holds, for error texts: "trusted files".
        chain: gives the key, and the folder outside; asked for only where there is a file.
    """

    def __init__(self, file: Path, what: str, chain: Callable[[], Chain]) -> None:
        self.file = file
        self._what = what
        self._chain = chain

    def read(self) -> dict[str, T]:
        """The table; empty where there is no file yet. A file of an older Pegboard is sealed by the next change.

        Raises:
            ConfigError: the file holds something else, or was not written by Pegboard.
        """
        kept = self._kept()
        if kept is None:
            return {}
        if not self._holds(kept, self._chain()):
            raise ConfigError(
                f"the list of {self._what} {self.file} was changed by another program; look at it, then take it as it "
                "is with: pegboard audit accept --reason TEXT, or move it away to start afresh"
            )
        return cast("dict[str, T]", kept.entries)

    def add(self, key: str, value: T) -> None:
        """Keep a value, in place of an older one."""
        self.change(lambda known: known.update({key: value}))

    def remove(self, key: str) -> bool:
        """Drop a value; False where there was none."""
        if key not in self.read():
            return False
        self.change(lambda known: known.pop(key, None))
        return True

    def change(self, fn: Callable[[dict[str, T]], object]) -> dict[str, T]:
        """Let a function change the entries, while no other process does; the entries after it.

        Raises:
            ConfigError: see `read`.
        """
        with self._alone():
            known = self.read()
            fn(known)
            self._write(known)
            return known

    def faults(self) -> list[str]:
        """What is wrong with the file, a sentence each."""
        name = self.file.name
        try:
            kept = self._kept()
        except ConfigError as error:
            return [f"{name}: {error}"]
        chain = self._chain()
        head = chain.head(TABLE_FILE + name)
        if kept is None:
            return [f"{name}: the list of {self._what} is missing"] if head is not None else []
        if not self._holds(kept, chain):
            return [f"{name}: the list of {self._what} was changed without the key"]
        if head is not None and (head[0] > kept.changes or (head[0] == kept.changes and head[1] != kept.mac)):
            return [f"{name}: an older list of {self._what} was put back"]
        return []

    def accept(self) -> None:
        """Seal the file as it is.

        Raises:
            ConfigError: it cannot be read.
        """
        with self._alone():
            kept = self._kept()
            self._write({} if kept is None else kept.entries)

    def _kept(self) -> _Sealed | None:
        try:
            known: object = json.loads(self.file.read_text(encoding="utf-8"))
            if not isinstance(known, dict):
                raise ValueError(f"expected a table, got a {type(known).__name__}")
            table = cast("dict[str, Any]", known)
            if set(table) != _PARTS:
                return _Sealed(table)
            if not isinstance(table["entries"], dict):
                raise ValueError("its entries are no table")
            return _Sealed(cast("dict[str, Any]", table["entries"]), int(table["changes"]), str(table["mac"]))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"cannot read the list of {self._what} {self.file} ({error}); move it away to start afresh"
            ) from None

    def _holds(self, kept: _Sealed, chain: Chain) -> bool:
        if not kept.mac:
            # Written before lists were sealed; once one was, there is a head.
            return chain.head(TABLE_FILE + self.file.name) is None
        return hmac.compare_digest(self._mac(kept.changes, kept.entries, chain), kept.mac)

    def _mac(self, changes: int, entries: dict[str, Any], chain: Chain) -> str:
        text = json.dumps([self.file.name, changes, entries], sort_keys=True)
        return hmac.digest(chain.key, text.encode(), "sha256").hex()

    def _write(self, entries: dict[str, Any]) -> None:
        chain = self._chain()
        head = chain.head(TABLE_FILE + self.file.name)
        with suppress(ConfigError):
            kept = self._kept()
            head = max(head or (0, ""), (0 if kept is None else kept.changes, ""))
        changes = 1 + (0 if head is None else head[0])
        mac = self._mac(changes, entries, chain)
        text = json.dumps({"changes": changes, "mac": mac, "entries": entries}, indent=1)
        replace_private(self.file, text, sync=True)
        # Its disk may be full; the list is kept all the same.
        with suppress(OSError):
            chain.keep_head(TABLE_FILE + self.file.name, changes, mac)

    @contextmanager
    def _alone(self) -> Generator[None]:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
