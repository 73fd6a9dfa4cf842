"""StoredGrants: remembered approvals that processes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pegboard.core.errors import PermissionDenied
from pegboard.core.limits import Clock
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.grants import Grant, MemoryGrants
from pegboard.ports.store import Store
from pegboard.store.table import Table


class StoredGrants(MemoryGrants):
    """The grants of a store, as they were at the last `refresh`; those of one session stay in this process.

    Args:
        store: gives the store, at the first use.
        clock: decides what has expired.
    """

    def __init__(self, store: Callable[[], Store], *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._store = store

    @property
    def _table(self) -> Table[Grant]:
        return Table(self._store(), "grants", Grant.to_dict, Grant.from_dict)

    async def refresh(self, workspace: str = "") -> None:
        """Read what other processes have given, used and revoked."""
        kept = await self._table.scan()
        mine = {g.id: g for g in self._grants.values() if g.scope == "session"}
        self._grants = {**kept, **mine}

    async def save(self) -> None:
        """Nothing: a grant is written when it is given or used."""

    async def add(self, request: ApprovalRequest, answer: Approved, *, workspace: str) -> Grant:
        """See GrantStore."""
        grant = await super().add(request, answer, workspace=workspace)
        if grant.scope == "always":
            await self._table.put(grant.id, grant)
        return grant

    async def give(self, grant: Grant) -> None:
        """Keep a grant that an owner gives without having been asked."""
        self._grants[grant.id] = grant
        await self._table.put(grant.id, grant)

    async def use(self, grant: str) -> None:
        """See GrantStore. Uses are counted among all processes: the last one must not be used twice."""
        known = self._grants.get(grant)
        if known is None or known.scope == "session" or known.uses_left is None:
            await super().use(grant)
            return
        now = self._clock.now()

        def one_less(kept: Grant | None) -> Grant:
            if kept is None or kept.uses_left == 0 or kept.expires_at <= now:
                raise PermissionDenied(f"approval {grant} has expired", hint="Call again to be asked.")
            left = kept.uses_left
            return kept if left is None else replace(kept, uses_left=left - 1)

        after = await self._table.change(grant, one_less)
        if after is not None:
            self._grants[grant] = after

    async def revoke(self, grant: str) -> bool:
        """End a grant in all processes; False if there is none of that id."""
        here = await super().revoke(grant)
        return await self._table.delete(grant) or here
