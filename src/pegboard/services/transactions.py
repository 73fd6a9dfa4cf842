"""Transactions: runs in a copy of the workspace, whose changes to files land all together or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pegboard.config.trust import Trust
from pegboard.core.effects import Effect
from pegboard.core.errors import ConfigError, Conflict
from pegboard.core.policy.rules import Situation
from pegboard.files.commit import commit, recover
from pegboard.files.jail import Jail
from pegboard.files.journal import (
    ChangeOrigin,
    Checkpoint,
    Journal,
    JournalEntry,
    no_checkpoint,
)
from pegboard.files.roots import Access, shown
from pegboard.files.staged import Baseline, Content, StagedDiff, copy_tree, difference
from pegboard.services.runtime import Runtime
from pegboard.services.worktrees import TRANSACTIONS, name_of, take_lock
from pegboard.store.private_file import replace_private

_INDEX: Final = ".git/index"
_GIT_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """A transaction as it is kept.

    Attributes:
        id: its name, and that of the copy's folder.
        workspace: what was copied.
        session: the session that works in the copy.
        run: its last run there; empty before the first has ended.
        started: seconds since the epoch.
        index: SHA-256 of the entries of git's index at the beginning; empty without one.
    """

    id: str
    workspace: str
    session: str
    run: str = ""
    started: float = 0.0
    index: str = ""


class Transaction:
    """A copy of a workspace that is being worked in; no other process can use it until `release`.

    Attributes:
        record: see TransactionRecord.
        workspace: the original.
        copy: the folder to work in.
        is_new: it was made now.
    """

    def __init__(
        self, service: Transactions, record: TransactionRecord, lock: int, *, is_new: bool = False
    ) -> None:
        self.record = record
        self.workspace = Path(record.workspace)
        self.copy = service.folder / record.id
        self.is_new = is_new
        self._service = service
        self._lock: int | None = lock

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def note_run(self, run: str) -> None:
        """Keep which run works in the copy: its changes are undone under this id."""
        self.record = replace(self.record, run=run)
        self._service.write(self.record)

    async def diff(self) -> StagedDiff:
        """What would land in the workspace, and what stands against it; changes nothing.

        Raises:
            TooLarge: more was changed than can be applied at once.
        """
        base = self._service.baseline(self.record.id)
        skip, as_before = (), ()
        if _INDEX in base.files and self.record.index:
            # Git writes new times into its index at every look; only the entries count.
            ours, theirs = await asyncio.gather(
                self._service.index_of(self.copy), self._service.index_of(self.workspace)
            )
            skip = (_INDEX,) if ours in (self.record.index, theirs) else ()
            as_before = (_INDEX,) if theirs == self.record.index else ()

        def look() -> StagedDiff:
            self._service.recover()
            verified = self._service.verified(self.record.id)
            return difference(
                self.workspace, self.copy, base, skip=skip, as_before=as_before, verified=verified
            )

        return await asyncio.to_thread(look)

    async def apply(self, *, checkpoint: Checkpoint = no_checkpoint) -> JournalEntry | None:
        """Let all of it land as one change that undo takes back, and remove the copy; None if nothing was changed.

        Args:
            checkpoint: see `commit`.

        Raises:
            Conflict: a file was changed in the workspace too; nothing has landed, and the copy stays.
            PermissionDenied: a rule denies one of the changes; nothing has landed.
            ToolError: see `commit`.
        """
        diff = await self.diff()
        if diff.conflicts:
            names = ", ".join(shown(path) for path in diff.conflicts[:5])
            more = f" and {len(diff.conflicts) - 5} more" if diff.conflicts[5:] else ""
            verb = "was" if len(diff.conflicts) == 1 else "were"
            raise Conflict(
                f"{names}{more} {verb} changed in {self.workspace} since the transaction began; nothing was changed",
                hint=f"What the run made is in {self.copy}: take it over by hand, or start again.",
                details={"conflicts": list(diff.conflicts), "copy": str(self.copy)},
            )
        origin = ChangeOrigin(
            call_id=self.record.id, run=self.record.run, session=self.record.session, tool="transaction"
        )
        # Should this process be killed and the change taken back, the next one knows the files again.
        self._service.verify(self.record.id, diff.verified(self.workspace))
        entry = await asyncio.to_thread(self._service.land, diff, origin, checkpoint)
        await self.discard()
        return entry

    async def discard(self) -> None:
        """Remove the copy with all that was changed in it."""
        await asyncio.to_thread(self._service.remove, self.record.id)
        self.release()

    def release(self) -> None:
        """Let other processes use the copy."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Transactions:
    """The transactions of one workspace.

    Args:
        runtime: the workspace and its settings.
        environment: what git is run with.

    Attributes:
        folder: where the copies lie.
    """

    def __init__(self, runtime: Runtime, environment: Mapping[str, str]) -> None:
        self._runtime = runtime
        self._workspace = runtime.workspace.resolve()
        self.folder = runtime.paths.data.with_name(TRANSACTIONS).resolve()
        self._records = runtime.paths.state / "transactions"
        self._environment = {k: environment[k] for k in ("PATH", "HOME") if k in environment} | {
            "LC_ALL": "C"
        }

    async def open(self, session: str) -> Transaction:
        """The transaction of a session; the workspace is copied if there is none yet.

        Files that are trusted in the workspace are trusted in the copy as long as they are the same.

        Raises:
            ConfigError: this workspace cannot be copied, or another process works in the copy.
            ToolError: a file could not be copied.
        """
        self._check()
        id = name_of(session, self._workspace)
        lock = self._take(id)
        try:
            if (record := self._read(id)) is not None:
                return Transaction(self, record, lock)
            record = await self._begin(id, session)
            return Transaction(self, record, lock, is_new=True)
        except BaseException:
            os.close(lock)
            raise

    async def find(self, id: str) -> Transaction:
        """One by its id, or the unique start of it.

        Raises:
            ConfigError: there is none, or several, or another process works in it.
        """
        found = [r for r in self.list() if r.id == id or (len(id) >= 4 and r.id.startswith(id))]
        if len(found) != 1:
            known = ", ".join(r.id for r in found or self.list()) or "none"
            what = f"{id!r} is the start of several transactions" if found else f"no transaction {id!r}"
            raise ConfigError(f"{what} in {self._workspace}; there are: {known}")
        return Transaction(self, found[0], self._take(found[0].id))

    def list(self) -> list[TransactionRecord]:
        """Those whose changes have neither landed nor been discarded, oldest first."""
        names = [p.stem for p in self._records.glob("*.json") if not p.name.endswith(".files.json")]
        found = [record for name in names if (record := self._read(name)) is not None]
        mine = [r for r in found if r.workspace == str(self._workspace)]
        return sorted(mine, key=lambda r: (r.started, r.id))

    # -- for a Transaction ----------------------------------------------------------------------

    def write(self, record: TransactionRecord) -> None:
        """Keep a record."""
        fields = {name: getattr(record, name) for name in TransactionRecord.__slots__}
        replace_private(self._records / f"{record.id}.json", json.dumps(fields), sync=True)

    def baseline(self, id: str) -> Baseline:
        """What a copy began with."""
        return Baseline.from_dict(json.loads((self._records / f"{id}.files.json").read_bytes()))

    def verified(self, id: str) -> dict[str, Content]:
        """What `verify` has kept."""
        with suppress(FileNotFoundError):
            rows = json.loads((self._records / f"{id}.verified").read_bytes())
            return {path: (digest, mode) for path, (digest, mode) in rows.items()}
        return {}

    def verify(self, id: str, contents: Mapping[str, Content]) -> None:
        """Keep what files of the workspace hold that are as at the beginning."""
        replace_private(
            self._records / f"{id}.verified", json.dumps(self.verified(id) | dict(contents)), sync=True
        )

    def recover(self) -> None:
        """Complete or take back what a process that was killed while it applied has left."""
        jail, journal = self._jail(), self._journal()
        try:
            with journal.lock():
                recover(jail, journal)
        finally:
            jail.close()

    def land(self, diff: StagedDiff, origin: ChangeOrigin, checkpoint: Checkpoint) -> JournalEntry | None:
        """Carry a difference out, whole or not at all."""
        jail = self._jail()
        try:
            return commit(
                jail, diff.changes, journal=self._journal(), origin=origin, type="transaction",
                remove_dirs=diff.removed_dirs, make_dirs=diff.made_dirs, checkpoint=checkpoint,
            )  # fmt: skip
        finally:
            jail.close()

    def remove(self, id: str) -> None:
        """Remove a copy and what is known of it."""
        # The record first: a copy without one is no transaction, and is removed when its name is used again.
        for name in (f"{id}.json", f"{id}.files.json", f"{id}.verified"):
            (self._records / name).unlink(missing_ok=True)
        _remove_tree(self.folder / id)
        Trust(self._runtime.paths).forget(self.folder / id)
        (self._records / f"{id}.lock").unlink(missing_ok=True)

    async def index_of(self, workspace: Path) -> str:
        """SHA-256 of the entries of git's index; empty if there is none."""
        from pegboard.process.child import run_small

        # The repository is the original's: nobody but a person has written its settings.
        command = ["git", "--git-dir", str(self._workspace / ".git"), "ls-files", "--stage", "-v", "-z"]
        environment = self._environment | {"GIT_INDEX_FILE": str(workspace / _INDEX)}
        with suppress(OSError):
            status, output = await run_small(command, environment, timeout_s=_GIT_TIMEOUT_S)
            return "" if status else hashlib.sha256(output).hexdigest()
        return ""

    # -- inside ---------------------------------------------------------------------------------

    def _check(self) -> None:
        workspace = self._workspace
        if self._runtime.policy.mode == "full":
            raise ConfigError(
                "in mode full a run can write anywhere at once, so its changes cannot be held back; use mode workspace"
            )
        if self.folder.is_relative_to(workspace) or workspace.is_relative_to(self.folder):
            raise ConfigError(
                f"the workspace {workspace} holds the folder of copies {self.folder}, or lies in it; choose another "
                "workspace, or set XDG_DATA_HOME"
            )
        if (workspace / ".git").is_file():
            raise ConfigError(
                f"{workspace} is a linked git worktree or a submodule, whose repository lies elsewhere and cannot be "
                "held back; use the repository's main folder, or leave --transaction out"
            )

    async def _begin(self, id: str, session: str) -> TransactionRecord:
        copy = self.folder / id
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            await asyncio.to_thread(_remove_tree, copy)  # Of a process that was killed while it copied.
            base = await asyncio.to_thread(copy_tree, self._workspace, copy)
            index = await self.index_of(copy) if _INDEX in base.files else ""
            Trust(self._runtime.paths).copy(self._workspace, copy)
            replace_private(self._records / f"{id}.files.json", json.dumps(base.to_dict()), sync=True)
            record = TransactionRecord(
                id=id, workspace=str(self._workspace), session=session, started=time.time(), index=index
            )
            self.write(record)
        except BaseException:
            await asyncio.to_thread(self.remove, id)
            raise
        return record

    def _take(self, id: str) -> int:
        lock = take_lock(self._records / f"{id}.lock")
        if lock is None:
            raise ConfigError(
                f"another process works in the transaction {id}; wait until it has ended, or use another --session"
            )
        return lock

    def _read(self, id: str) -> TransactionRecord | None:
        """What is kept of one; None if there is none, or if somebody has removed its copy."""
        if not (self.folder / id).is_dir():
            return None
        with suppress(FileNotFoundError):
            return TransactionRecord(**json.loads((self._records / f"{id}.json").read_bytes()))
        return None

    def _journal(self) -> Journal:
        return Journal(self._runtime.paths.state / "journal")

    def _jail(self) -> Jail:
        """The workspace with what its rules deny; protected files were asked about in the copy."""
        policy = self._runtime.policy
        situation = Situation(workspace=str(self._workspace), home=str(self._runtime.paths.home.resolve()))
        denying = [r for r in policy.rules if r.verdict == "deny" and not r.observe]

        def denied(access: Access, target: str) -> str | None:
            if access == "read":
                return None
            for rule in denying:
                effect = Effect(access, target)
                if rule.covers(effect, situation) and rule.applies(situation):
                    return rule.reason or str(rule)
            return None

        return Jail(self._workspace, protected=(), deny=denied, home=self._runtime.paths.home)


def _remove_tree(folder: Path) -> None:
    """Remove a folder, also where a folder in it may not be written."""
    if not folder.is_dir():
        return
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o700)
    shutil.rmtree(folder)
