"""Retention: what is kept of past work, and deleting it where that breaks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pegboard.config.paths import Paths
from pegboard.core.limits import Clock, SystemClock
from pegboard.files.journal import Journal
from pegboard.services.history import GONE, ONE_CALLS, History
from pegboard.store.opening import backups
from pegboard.store.runs import RunRow
from pegboard.store.session_messages import SessionMessages
from pegboard.store.session_rows import SessionRows
from pegboard.store.spills import SpillFolder

Kind: TypeAlias = Literal["history", "images", "spills"]
KINDS: Final[tuple[Kind, ...]] = ("history", "images", "spills")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedData:
    """How much of one kind there is.

    Attributes:
        kind: history (what was said and done, its chain stays), images (contents of files before they were
            changed, which undo needs) or spills (whole texts of long results).
        count: payloads, changes or spills.
        size_bytes: of them all; None where a part of what shares its contents is counted.
        oldest: seconds since the epoch; None where there is nothing.
        place: the file or folder, or a server's URL.
        kept: what cannot be dropped, one sentence each.
    """

    kind: Kind
    count: int
    size_bytes: int | None
    oldest: float | None
    place: Path | str
    kept: tuple[str, ...] = ()


class Retention:
    """The past work that this machine keeps.

    Args:
        history: the recorded runs.
        paths: where the rest lies.
        clock: decides what is how old.
    """

    def __init__(self, history: History, paths: Paths, *, clock: Clock | None = None) -> None:
        self._history = history
        self._paths = paths
        self._clock = clock or SystemClock()
        self._spills = SpillFolder(paths.state / "spills", clock=self._clock)

    async def held(self, kinds: Sequence[Kind] = KINDS, *, older_s: float = 0.0) -> list[RetainedData]:
        """What there is that is older than some seconds: what `purge` would delete."""
        out: list[RetainedData] = []
        for kind in kinds:
            match kind:
                case "history":
                    out.append(await self._held_history(older_s))
                case "images":
                    out.append(self._held_images(older_s))
                case "spills":
                    out.append(self._held_spills(older_s))
        return out

    async def purge(self, kinds: Sequence[Kind] = KINDS, *, older_s: float = 0.0) -> None:
        """Delete what is older than some seconds.

        Runs go as a whole, and sessions with a run that can still be resumed stay. The history's chain stays
        whole and can be verified; a change whose contents went cannot be undone any more.

        Raises:
            StoreError: the history cannot be written.
            Unavailable: another process holds the journal for too long.
        """
        if "history" in kinds:
            await self._purge_history(older_s)
        if "images" in kinds:
            journal = self._journal(older_s)
            with journal.lock():
                # Everything: what snapshots know of the workspace holds contents too.
                if older_s > 0:
                    journal.prune()
                else:
                    journal.purge()
        if "spills" in kinds:
            self._spills.prune(older_s)

    # -- history ------------------------------------------------------------------------------

    async def _held_history(self, older_s: float) -> RetainedData:
        place = self._history.place
        if not self._history.exists:
            return RetainedData(kind="history", count=0, size_bytes=0, oldest=None, place=place)
        count, size, oldest = 0, 0, list[float]()
        limits, unfinished = await self._limits(older_s)
        for stream, before in limits.items():
            number, more, first = await self._history.bodies(stream, before=before)
            count, size = count + number, size + more
            oldest += [] if first is None else [first]
        for copy in self._damaged(older_s):
            size += copy.stat().st_size
        kept = tuple(f"session {session}: {why}" for session, why in unfinished.items())
        return RetainedData(
            kind="history",
            count=count,
            size_bytes=size,
            oldest=min(oldest, default=None),
            place=place,
            kept=kept,
        )

    async def _purge_history(self, older_s: float) -> None:
        if not self._history.exists:
            return
        limits, _ = await self._limits(older_s)
        for stream, before in limits.items():
            await self._history.delete_bodies(stream, before=before)
            for row in await self._history.runs(session=stream):
                if row.started < before and row.task != GONE:
                    await self._history.save_run(replace(row, task=GONE))
            await SessionRows(self._history.store).purge(stream, before=before, instead=GONE)
        # What one session told another stands in neither's own stream alone.
        await SessionMessages(self._history.store).purge(before=self._clock.now() - older_s)
        for copy in self._damaged(older_s):
            copy.unlink(missing_ok=True)
            copy.with_name(f"{copy.name}-wal").unlink(missing_ok=True)

    async def _limits(self, older_s: float) -> tuple[dict[str, float], dict[str, str]]:
        """For each session the time before which its payloads may go, and why none of the others may."""
        end = self._clock.now() - older_s
        runs: dict[str, list[RunRow]] = {}
        for row in await self._history.runs():
            runs.setdefault(row.stream, []).append(row)
        limits: dict[str, float] = {}
        unfinished: dict[str, str] = {}
        for stream, rows in runs.items():
            # A single call whose process was killed stands as running for ever, and nothing takes it up.
            if any(
                r.status == "suspended" or (r.status == "running" and r.agent not in ONE_CALLS) for r in rows
            ):
                # What a resumed run is told of before must be what it was told.
                unfinished[stream] = "one of its runs can be resumed (pegboard runs)"
                continue
            if owner := await self._history.holder(stream):
                unfinished[stream] = f"{owner} is using it"
                continue
            # A run that has begun before the time and ended after it stays whole.
            limits[stream] = min([end, *(row.started for row in rows if row.ended > end)])
        return limits, unfinished

    def _damaged(self, older_s: float) -> list[Path]:
        end = self._clock.now() - older_s
        file = self._history.file
        copies = [] if file is None else [*self._history.damaged(), *backups(file)]
        return [copy for copy in copies if copy.stat().st_mtime <= end]

    # -- files --------------------------------------------------------------------------------

    def _journal(self, older_s: float) -> Journal:
        return Journal(self._paths.state / "journal", clock=self._clock, max_age_s=older_s)

    def _held_images(self, older_s: float) -> RetainedData:
        journal = self._journal(older_s)
        end = self._clock.now() - older_s
        entries = [e for e in journal.entries() if e.time <= end]
        size = journal.blobs.size() if len(entries) == len(journal.entries()) else None
        return RetainedData(
            kind="images", count=len(entries), size_bytes=size, place=journal.folder,
            oldest=min((e.time for e in entries), default=None),
        )  # fmt: skip

    def _held_spills(self, older_s: float) -> RetainedData:
        end = self._clock.now() - older_s
        old = [(at, size) for at, size in self._spills.held() if at < end]
        return RetainedData(
            kind="spills", count=len(old), size_bytes=sum(size for _, size in old),
            oldest=min((at for at, _ in old), default=None), place=self._paths.state / "spills",
        )  # fmt: skip
