"""What is kept of taint, budgets and novelty in a Store: labels of files, sums of accounts, what was done before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Final, cast

from pegboard.core.policy.budgets import Spent
from pegboard.core.policy.taint import Labels, below
from pegboard.store.blocking import BlockingStore

_FILES: Final = "provenance"
_REVISIONS: Final = "provenance_revisions"
_DONE: Final = "done_before"
_ACCOUNTS: Final = "budgets"


class StoredProvenance:
    """A Provenance that survives its process. One row a path.

    Args:
        store: opens the store at the first use; most calls need none of it.
    """

    def __init__(self, store: Callable[[], BlockingStore]) -> None:
        self._open = store
        self._rows: dict[str, dict[str, Labels]] = {}
        self._revisions: dict[str, int] = {}

    def labels(self, workspace: str, path: str) -> Labels:
        """See Provenance."""
        out: dict[str, str] = {}
        for kept, labels in self._of(workspace).items():
            if below(path, kept):
                out.update(labels)
        return out

    def add_labels(self, workspace: str, path: str, labels: Labels) -> None:
        """See Provenance."""
        rows = self._of(workspace)
        if (merged := {**rows.get(path, {}), **labels}) == rows.get(path):
            return
        rows[path] = merged
        self._open().put(_FILES, _key(workspace, path), json.dumps(merged).encode("utf-8"))
        self._changed(workspace)

    def drop(self, workspace: str, path: str) -> None:
        """See Provenance."""
        rows = self._of(workspace)
        gone = [k for k in rows if below(path, k)]
        for kept in gone:
            del rows[kept]
            self._open().delete(_FILES, _key(workspace, kept))
        if gone:
            self._changed(workspace)

    def _of(self, workspace: str) -> dict[str, Labels]:
        """The rows of a workspace, read again where another process has changed them."""
        rows = self._rows.get(workspace)
        now = int(self._open().get(_REVISIONS, workspace) or 0)
        if rows is None or now != self._revisions.get(workspace):
            # The revision was read before the rows: a change between the two is read twice, never missed.
            self._revisions[workspace] = now
            prefix = _key(workspace, "")
            found = self._open().list(_FILES, prefix=prefix)
            rows = self._rows[workspace] = {
                k[len(prefix) :]: cast("dict[str, str]", json.loads(v)) for k, v in found
            }
        return rows

    def _changed(self, workspace: str) -> None:
        """Tell the other processes; where one of them was faster, our own rows are read again too."""
        after = int(self._open().change(_REVISIONS, workspace, lambda b: str(int(b or 0) + 1).encode()))
        if self._revisions.get(workspace) == after - 1:
            self._revisions[workspace] = after


class StoredFirstUses:
    """A Novelty that survives its process; what is known is asked for once.

    Args:
        store: opens the store at the first use.
    """

    def __init__(self, store: Callable[[], BlockingStore]) -> None:
        self._open = store
        self._known: set[str] = set()

    def unseen(self, workspace: str, things: Iterable[str]) -> tuple[str, ...]:
        """See Novelty."""
        return tuple(t for t in things if not self._knows(_key(workspace, t)))

    def remember(self, workspace: str, things: Iterable[str]) -> None:
        """See Novelty."""
        for key in (_key(workspace, t) for t in things):
            if not self._knows(key):
                self._open().put(_DONE, key, b"1")
                self._known.add(key)

    def _knows(self, key: str) -> bool:
        if key not in self._known and self._open().get(_DONE, key) is not None:
            self._known.add(key)
        return key in self._known


class StoredAccounts:
    """Accounts in a Store; processes that share it share the sums.

    Args:
        store: opens the store at the first use.
    """

    def __init__(self, store: Callable[[], BlockingStore]) -> None:
        self._open = store

    def add(self, account: str, spent: Spent) -> Spent:
        """See Accounts."""

        def booked(before: bytes | None) -> bytes:
            return json.dumps(asdict(_read(before) + spent)).encode("ascii")

        return _read(self._open().change(_ACCOUNTS, account, booked))

    def sum(self, account: str) -> Spent:
        """See Accounts."""
        return _read(self._open().get(_ACCOUNTS, account))


def _key(workspace: str, path: str) -> str:
    return f"{workspace}\x1f{path}"


def _read(value: bytes | None) -> Spent:
    return Spent() if value is None else Spent(**cast("dict[str, Any]", json.loads(value)))
