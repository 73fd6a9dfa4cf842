"""Backups: the whole store copied into a file, back from one, or to another store."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pegboard.config.paths import Paths
from pegboard.config.store import StoreSettings, store_of
from pegboard.core.errors import ConfigError
from pegboard.core.events import Notice
from pegboard.ports.store import StoreError
from pegboard.services.audit import Audit
from pegboard.services.history import History
from pegboard.store.chain import Chain, Fault, Verification
from pegboard.store.history import HistoryStore, StoreSize, copy_store
from pegboard.store.leases import Leases
from pegboard.store.seal import PURGED
from pegboard.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStore:
    """What a check of a store found.

    Attributes:
        size: how much there is.
        problem: what is wrong with the store itself, empty if nothing.
        faults: session and fault of what is not as it was recorded; session "" for the tables.
    """

    size: StoreSize
    problem: str
    faults: tuple[tuple[str, Fault], ...]


class Backups:
    """Copies of the store.

    Args:
        history: what is copied.
        audit: verifies it.
        paths: where keys lie.
    """

    def __init__(self, history: History, audit: Audit, paths: Paths) -> None:
        self._history = history
        self._audit = audit
        self._paths = paths

    async def size(self) -> StoreSize:
        """How much the store holds.

        Raises:
            StoreError: it cannot be read.
        """
        return await self._history.store.size()

    async def check(self) -> CheckedStore:
        """Look through the whole store: the file or the numbering, every chain, every row.

        Raises:
            StoreError: it cannot be read.
        """
        problem = await self._history.check()
        faults = await self._audit.verify()
        found = tuple((session, fault) for session, some in faults.items() for fault in some)
        return CheckedStore(size=await self.size(), problem=problem, faults=found)

    async def backup(self, file: Path) -> StoreSize:
        """Copy the store, as it is now, into a new SQLite file that only its owner can read.

        Raises:
            ConfigError: the file is there already, or cannot be written.
            StoreError: the store cannot be read.
        """
        if file.exists():
            raise ConfigError(f"cannot write the backup {file}: it exists; name a new file")
        part = file.with_name(f".{file.name}.part")
        try:
            os.close(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        except OSError as error:
            raise ConfigError(f"cannot write the backup {file}: {error.strerror}") from None
        target = self._sealed(part)
        try:
            await copy_store(self._history.store, target)
            size = await target.size()
            await target.close()
            # Not over one that another process has put there meanwhile.
            os.link(part, file)
        finally:
            await target.close()
            for left in (part, *part.parent.glob(f"{part.name}-*")):
                left.unlink(missing_ok=True)
        return size

    async def held(self) -> StoreSize | None:
        """What a restore would replace, None if the store is empty."""
        if not self._history.exists:
            return None
        size = await self.size()
        return size if size.streams or size.tables else None

    async def restore(self, file: Path) -> str:
        """Put what a backup holds in the store's place.

        Returns:
            Where the store's content was put aside; empty if there was none.

        Raises:
            ConfigError: the file is no whole backup of this key's, or another process works on a session.
            StoreError: one of both stores cannot be used.
        """
        if not file.is_file():
            raise ConfigError(f"cannot read the backup {file}: there is no such file")
        with TemporaryDirectory(prefix="pegboard-") as folder:
            # A copy: opening brings an older file up to date, and a backup stays as it was written.
            copy = Path(folder) / "history.sqlite"
            shutil.copyfile(file, copy)
            source = self._sealed(copy)
            try:
                try:
                    await self._check_backup(source, file)
                except StoreError as error:
                    raise ConfigError(f"{file} is not a backup: {error.__cause__ or error}") from None
                await self._check_idle()
                store = self._history.store
                aside = await store.set_aside() if await self.held() else ""
                self._history.chain.forget()
                await self._fill(source, store, self._history.chain)
            finally:
                await source.close()
        async with self._history.log("cli") as log:
            log.record(Notice(text=f"the store was restored from {file}"))
        return aside

    async def move(self, where: str, *, password: str = "") -> StoreSize:
        """Copy the store to another, empty one, which the settings can name from then on; the old one stays.

        Args:
            where: `sqlite:PATH` or `postgresql://…`.
            password: where the password lies; see StoreSettings.

        Raises:
            ConfigError: another process works on a session.
            StoreError: one of both stores cannot be used, or the other one is not empty.
        """
        named = store_of(where)
        settings = StoreSettings(url=named.url, password=password)
        await self._check_idle()
        target = settings.store(self._paths)
        try:
            if not await target.streams() and not await target.tables():
                settings.chain(self._paths).forget()
            await self._fill(self._history.store, target, settings.chain(self._paths))
            return await target.size()
        finally:
            await target.close()

    async def _fill(self, source: HistoryStore, target: HistoryStore, chain: Chain) -> None:
        await copy_store(source, target)
        for stream in await target.streams():
            (last,) = await target.read(stream, last=1, bodies=False)
            chain.keep_head(stream, last.seq, last.mac)

    async def _check_backup(self, source: SqliteStore, file: Path) -> None:
        """Raise unless every record and row of a backup is as this machine's key wrote it."""
        if not await source.streams():
            raise ConfigError(f"{file} holds no history")
        problem = await source.check()
        faults = [] if problem else await source.check_rows({})
        for stream in [] if problem else await source.streams():
            before = await source.get(PURGED, stream)
            found = Verification(
                self._paths.key(), stream, ends={}, purged=0 if before is None else int(before.value)
            )
            for record in await source.read(stream):
                found.add(record)
            faults += found.faults()
        if problem or faults:
            what = problem or f"{len(faults)} faults, the first: {faults[0]}"
            raise ConfigError(
                f"{file} is not a whole backup: {what}; if another machine wrote it, copy its audit.key to "
                f"{self._paths.config} first"
            )

    async def _check_idle(self) -> None:
        """Raise if a process works on a session: what it writes meanwhile would be lost."""
        if not self._history.exists:
            return
        for session, owner in (await Leases(self._history.store).holders()).items():
            raise ConfigError(f"{owner} works on {session!r}; end it first")

    def _sealed(self, file: Path) -> SqliteStore:
        """A file whose rows are sealed with this machine's key; its ends are noted nowhere."""
        return SqliteStore(file, chain=lambda: Chain(key=self._paths.key()))
