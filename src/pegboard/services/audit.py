"""Audit: proof that the history is whole, signed exports, and what confined commands tried to reach."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pegboard.config.models import AcceptedServers
from pegboard.config.paths import Paths
from pegboard.config.trust import Trust, plugins_table
from pegboard.core.errors import ConfigError
from pegboard.core.events import DestinationTried
from pegboard.core.limits import Clock, SystemClock
from pegboard.mcp.pins import pins_table
from pegboard.ports.store import Put
from pegboard.services.history import History
from pegboard.store.chain import ROWS, Fault
from pegboard.store.json_table import JsonTable
from pegboard.store.log import decode_events
from pegboard.store.signing import SignedLines, check, fingerprint, line_of, public_of
from pegboard.store.table import UNREADABLE

ANCHOR: Final = "pegboard audit anchor 1"
_ACCEPTED: Final = "accepted"
"""The table of what was accepted."""


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
    """A connection that a confined command, or a page of the browser, tried: in which session and run, when (seconds since the epoch), where to."""

    session: str
    run: str
    at: float
    event: DestinationTried


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Faults that a person accepted: the machine lost power, or an older backup was restored.

    Attributes:
        at: seconds since the epoch.
        reason: what the person said.
        faults: by session, as `Audit.verify` gave them.
    """

    at: float
    reason: str
    faults: Mapping[str, Sequence[Fault]]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        rows = [
            {"session": key, "seq": f.seq, "problem": f.problem, "found": f.found}
            for key, faults in self.faults.items()
            for f in faults
        ]
        return {"at": self.at, "reason": self.reason, "faults": rows}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Acceptance:
        """The acceptance that `to_dict` wrote."""
        faults: dict[str, list[Fault]] = {}
        for row in value["faults"]:
            fault = Fault(seq=int(row["seq"]), problem=str(row["problem"]), found=str(row["found"]))
            faults.setdefault(str(row["session"]), []).append(fault)
        return cls(at=float(value["at"]), reason=str(value["reason"]), faults=faults)


class Audit:
    """The chained record of what was done.

    Args:
        history: what is audited.
        paths: where the signing key and the sealed lists lie.
        clock: gives acceptances their time.
    """

    def __init__(self, history: History, paths: Paths, clock: Clock | None = None) -> None:
        self._history = history
        self._paths = paths
        self._now = (clock or SystemClock()).now

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

    async def verify(
        self, session: str | None = None, *, anchor: Path | None = None
    ) -> dict[str, list[Fault]]:
        """Every fault by session, after the history's file itself was checked; those that were accepted say why.

        Under "" stand those of the tables and of the sealed lists (trusted files and the like), if there are any.

        Args:
            session: only this one; None = all, and the tables beside them.
            anchor: a file with what `anchor` gave earlier.

        Raises:
            ConfigError: there is no session of that key, or the file is no anchor.
        """
        ends = {} if anchor is None else _read_anchor(anchor)
        keys = await self.sessions(session)
        await self._history.check()
        if session is None:
            keys = list(dict.fromkeys([*keys, *(key for key in ends if key != ROWS)]))
        # First: what an older Pegboard wrote is sealed by this, and what it had purged is written down.
        rows = await self._history.verify_rows(anchor=ends.get(ROWS))
        faults = {key: await self._history.verify(key, anchor=ends.get(key)) for key in keys}
        if session is None:
            rows = [*rows, *(Fault(seq=0, problem=p) for table in self._lists() for p in table.faults())]
            faults |= {ROWS: rows} if rows else {}
        known: dict[tuple[str, int, str, str], str] = {}
        for one in await self.acceptances():
            known |= {(key, *_identity(f)): one.reason for key, found in one.faults.items() for f in found}
        return {
            key: [replace(f, accepted=known.get((key, *_identity(f)), "")) for f in found]
            for key, found in faults.items()
        }

    async def acceptances(self) -> list[Acceptance]:
        """What was accepted so far, oldest first."""
        out: list[Acceptance] = []
        for row in await self._history.store.scan(_ACCEPTED):
            # One that somebody else wrote accepts nothing; as a row without a mac it is a fault itself.
            with suppress(*UNREADABLE):
                out.append(Acceptance.from_dict(json.loads(row.value)))
        return out

    async def accept(self, reason: str) -> Acceptance:
        """Accept every fault there is now: it is written down, and from here on only another one is a fault.

        The heads, the rows and the sealed lists are sealed as they are; damaged records stay, and are known.

        Raises:
            ConfigError: no reason, or a list that cannot be read at all.
        """
        if not reason.strip():
            raise ConfigError("an acceptance needs a reason; say what happened: --reason 'restored a backup'")
        found = await self.verify()
        faults = {key: new for key, all_ in found.items() if (new := [f for f in all_ if not f.accepted])}
        for key in faults:
            if key != ROWS:
                await self._history.accept(key)
        if ROWS in faults:
            for table in self._lists():
                if table.faults():
                    table.accept()
            await self._history.store.seal_rows()
        accepted = Acceptance(at=self._now(), reason=reason.strip(), faults=faults)
        if faults:
            # Sealed like every row.
            text = json.dumps(accepted.to_dict())
            await self._history.store.put(Put(_ACCEPTED, f"{accepted.at:017.6f}", text.encode()))
        return accepted

    def _lists(self) -> list[JsonTable[Any]]:
        pins = pins_table(self._paths.state, self._paths.chain)
        return [
            Trust(self._paths).table,
            AcceptedServers(self._paths).table,
            pins,
            plugins_table(self._paths),
        ]

    async def anchor(self) -> str:
        """The ends of all sessions and the state of the tables, as one line of JSON to keep elsewhere.

        Whoever changes history, key and heads on this machine cannot change it there: see `verify`.
        """
        ends = await self._history.ends()
        return json.dumps({"format": ANCHOR, "ends": ends}, ensure_ascii=True)

    async def lines(self, session: str | None = None) -> AsyncIterator[str]:
        """The records as JSON, unsigned, one at a time."""
        for key in await self.sessions(session):
            async for record in self._history.records(key):
                yield line_of(key, record)

    async def export(self, file: Path, session: str | None = None) -> str:
        """Write a signed export that only its owner can read; the fingerprint of the key.

        Raises:
            ConfigError: the file is there already or cannot be written.
        """
        keys = await self.sessions(session)
        signing_key = self._paths.signing_key()
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write the export {file}: {error.strerror}; name a new file") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            signed = SignedLines(signing_key)
            for key in keys:
                async for record in self._history.records(key):
                    out.write(f"{signed.line(key, record)}\n")
            out.write(f"{signed.signature()}\n")
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
            async for record in self._history.records(key, types=(DestinationTried.type,)):
                for event in decode_events([record]):
                    if isinstance(event, DestinationTried):
                        yield TriedDestination(session=key, run=record.run, at=record.at, event=event)


def _identity(fault: Fault) -> tuple[int, str, str]:
    return fault.seq, fault.problem, fault.found


def _read_anchor(file: Path) -> dict[str, tuple[int, str]]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
        if value["format"] != ANCHOR:
            raise ValueError(f"its format is {value['format']!r}")
        return {str(key): (int(seq), str(mac)) for key, (seq, mac) in value["ends"].items()}
    except OSError as error:
        raise ConfigError(f"cannot read the anchor {file}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{file} is not an anchor ({error}); one is written by: pegboard audit anchor > FILE"
        ) from None
