"""Audit: proof that the history is whole, signed exports, and what confined commands tried to reach."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from pegboard.core.events import DestinationTried
from pegboard.ports.store import Record
from pegboard.services.history import History
from pegboard.store.chain import Fault
from pegboard.store.log import decode_events
from pegboard.store.signing import check, export, fingerprint, line_of, public_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExport:
    """What became of checking a signed export.

    Attributes:
        signer: the fingerprint of the key that signed it.
        records: how many it holds.
        this_machine: whether that key is this machine's.
        faults: session and fault of each record that is not as it was signed.
    """

    signer: str
    records: int
    this_machine: bool
    faults: tuple[tuple[str, Fault], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedDestination:
    """A connection that a confined command tried: in which session and run, when (seconds since the epoch), where to."""

    session: str
    run: str
    at: float
    event: DestinationTried


class Audit:
    """The chained record of what was done.

    Args:
        history: what is audited.
        paths: where the signing key lies.
    """

    def __init__(self, history: History, paths: Paths) -> None:
        self._history = history
        self._paths = paths

    async def sessions(self, session: str | None = None) -> list[str]:
        """All sessions that were ever recorded, or the named one.

        Raises:
            ConfigError: there is no session of that key.
        """
        keys = await self._history.streams()
        if session is None:
            return keys
        if session not in keys:
            raise ConfigError(f"no session {session!r}; see: pegboard runs list --json")
        return [session]

    async def verify(self, session: str | None = None) -> dict[str, list[Fault]]:
        """Every fault by session, after the history's file itself was checked."""
        keys = await self.sessions(session)
        await self._history.check()
        return {key: await self._history.verify(key) for key in keys}

    async def lines(self, session: str | None = None) -> AsyncIterator[str]:
        """The records as JSON, unsigned, one at a time."""
        for key in await self.sessions(session):
            for record in await self._history.records(key):
                yield line_of(key, record)

    async def export(self, file: Path, session: str | None = None) -> str:
        """Write a signed export that only its owner can read; the fingerprint of the key.

        Raises:
            ConfigError: the file is there already or cannot be written.
        """
        keys = await self.sessions(session)
        records = {key: await self._history.records(key) for key in keys}
        signing_key = self._paths.signing_key()
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write the export {file}: {error.strerror}; name a new file") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in export(records.items(), signing_key))
        return fingerprint(public_of(signing_key))

    async def check(self, file: Path) -> CheckedExport:
        """Check an export that somebody signed, on any machine.

        Raises:
            ConfigError: the file cannot be read.
        """
        try:
            with file.open("rb") as lines:
                signer, count, faults = check(lines)
        except OSError as error:
            raise ConfigError(f"cannot read the export {file}: {error.strerror}") from None
        # Not made here: who only checks files needs no key.
        own = self._paths.config / "export.key"
        ours = own.exists() and fingerprint(public_of(own.read_bytes())) == signer
        return CheckedExport(signer=signer, records=count, this_machine=ours, faults=tuple(faults))

    async def destinations(self, session: str | None = None) -> AsyncIterator[TriedDestination]:
        """What confined commands tried to reach, oldest first in each session."""
        for key in await self.sessions(session):
            for found in _destinations(key, await self._history.records(key)):
                yield found


def _destinations(session: str, records: list[Record]) -> Iterator[TriedDestination]:
    for record in records:
        if record.type == DestinationTried.type:
            for event in decode_events([record]):
                if isinstance(event, DestinationTried):
                    yield TriedDestination(session=session, run=record.run, at=record.at, event=event)
