"""What is kept of taint, first uses and budgets: labels of files, what was done before, sums of accounts.

Policy and guards are synchronous, so they read views: `refresh` reads them from the store before a decision, `save`
writes what has changed after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from pegboard.core.policy.budgets import MEASURES, Spent
from pegboard.core.policy.grants import below
from pegboard.core.policy.taint import Labels
from pegboard.ports.store import Put, Store
from pegboard.store.table import Table, after_prefix

_FILES: Final = "provenance"
_REVISIONS: Final = "provenance_revisions"
_DONE: Final = "done_before"
_ACCOUNTS: Final = "budgets"


class StoredProvenance:
    """A Provenance that survives its process. One row a path.

    Args:
        store: gives the store, at the first use.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._rows: dict[str, dict[str, Labels]] = {}
        self._revisions: dict[str, int] = {}
        self._unsaved: list[tuple[str, str, Labels | None]] = []
        """Workspace, path and the labels that it has got; None = it is gone."""

    def labels(self, workspace: str, path: str) -> Labels:
        """See Provenance."""
        out: dict[str, str] = {}
        for kept, labels in self._rows.get(workspace, {}).items():
            if below(path, kept):
                out.update(labels)
        return out

    def add_labels(self, workspace: str, path: str, labels: Labels) -> None:
        """See Provenance."""
        rows = self._rows.setdefault(workspace, {})
        if (merged := {**rows.get(path, {}), **labels}) != rows.get(path):
            rows[path] = merged
            self._unsaved.append((workspace, path, labels))

    def drop(self, workspace: str, path: str) -> None:
        """See Provenance."""
        rows = self._rows.get(workspace, {})
        for kept in [k for k in rows if below(path, k)]:
            del rows[kept]
            self._unsaved.append((workspace, kept, None))

    async def refresh(self, workspace: str) -> None:
        """Read the labels of a workspace, if another process has changed them."""
        store = self._store()
        row = await store.get(_REVISIONS, workspace)
        revision = 0 if row is None else row.version
        if self._revisions.get(workspace) == revision and workspace in self._rows:
            return
        await self.save()
        # The revision was read before the rows: a change between the two is read twice, never missed.
        prefix = _key(workspace, "")
        kept = await store.scan(_FILES, start=prefix, end=after_prefix(prefix))
        self._rows[workspace] = {
            r.key[len(prefix) :]: cast("dict[str, str]", json.loads(r.value)) for r in kept
        }
        self._revisions[workspace] = revision

    async def save(self) -> None:
        """Write what has changed here."""
        unsaved, self._unsaved = self._unsaved, []
        if not unsaved:
            return
        table = Table[Labels](self._store(), _FILES, dict, dict)
        for workspace, path, labels in unsaved:
            if labels is None:
                await table.delete(_key(workspace, path))
            else:
                await table.change(_key(workspace, path), lambda there, new=labels: {**(there or {}), **new})
        for workspace in {one[0] for one in unsaved}:
            (after,) = await self._store().put(Put(_REVISIONS, workspace, b""))
            # If another process was faster, its rows are read before the next decision.
            if self._revisions.get(workspace, 0) == after - 1:
                self._revisions[workspace] = after


class StoredFirstUses:
    """A FirstUses that survives its process; what a workspace knows is read once.

    Args:
        store: gives the store, at the first use.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._known: dict[str, set[str]] = {}
        self._unsaved: list[str] = []

    def unseen(self, workspace: str, things: Iterable[str]) -> tuple[str, ...]:
        """See FirstUses."""
        known = self._known.get(workspace, ())
        return tuple(t for t in things if t not in known)

    def remember(self, workspace: str, things: Iterable[str]) -> None:
        """See FirstUses."""
        new = self.unseen(workspace, things)
        self._known.setdefault(workspace, set()).update(new)
        self._unsaved += [_key(workspace, t) for t in new]

    async def refresh(self, workspace: str) -> None:
        """Read what was done in a workspace, the first time."""
        if workspace not in self._known:
            prefix = _key(workspace, "")
            rows = await self._store().scan(_DONE, start=prefix, end=after_prefix(prefix))
            self._known[workspace] = {r.key[len(prefix) :] for r in rows}

    async def save(self) -> None:
        """Write what was done since the last time."""
        unsaved, self._unsaved = self._unsaved, []
        if unsaved:
            await self._store().put(*(Put(_DONE, key, b"1") for key in unsaved))


class StoredAccounts:
    """Accounts in a store; processes that share it share the sums.

    Args:
        store: gives the store, at the first use.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    async def add(self, account: str, spent: Spent) -> Spent:
        """See Accounts."""
        return await self._table.change(account, lambda kept: (kept or Spent()) + spent) or Spent()

    async def sum(self, account: str) -> Spent:
        """See Accounts."""
        return await self._table.get(account) or Spent()

    async def of_budget(self, name: str) -> Mapping[str, Spent]:
        """What was used on the accounts of one budget, by account."""
        return await self._table.scan(prefix=f"{name}\x1f")

    @property
    def _table(self) -> Table[Spent]:
        return Table(self._store(), _ACCOUNTS, _measures, _spent)


def _measures(spent: Spent) -> dict[str, float]:
    return {measure: getattr(spent, measure) for measure in MEASURES}


def _spent(value: dict[str, Any]) -> Spent:
    return Spent(**value)


def _key(workspace: str, path: str) -> str:
    return f"{workspace}\x1f{path}"
