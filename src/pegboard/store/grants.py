"""StoredGrants: remembered approvals that processes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pegboard.core.errors import PermissionDenied
from pegboard.core.limits import Clock
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.grants import Grant, MemoryGrants
from pegboard.ports.store import Store
from pegboard.store.blocking import wait_for
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
        self._unsaved: dict[str, Grant] = {}

    @property
    def _table(self) -> Table[Grant]:
        return Table(self._store(), "grants", Grant.to_dict, Grant.from_dict)

    async def refresh(self, workspace: str = "") -> None:
        """Read what other processes have given, used and revoked."""
        kept = await self._table.scan()
        mine = {g.id: g for g in self._grants.values() if g.scope == "session"}
        self._grants = {**kept, **self._unsaved, **mine}

    async def save(self) -> None:
        """Write what was given since the last time."""
        table, unsaved = self._table, self._unsaved
        self._unsaved = {}
        for grant in unsaved.values():
            await table.put(grant.id, grant)

    def add(self, request: ApprovalRequest, answer: Approved, *, workspace: str) -> Grant:
        """See GrantStore. It is written by the next `save`."""
        grant = super().add(request, answer, workspace=workspace)
        if grant.scope == "always":
            self._unsaved[grant.id] = grant
        return grant

    def use(self, grant: str) -> None:
        """See GrantStore. A use that is counted waits for the store: the last one must not be used twice."""
        there = self._grants.get(grant)
        if there is not None and there.scope == "always" and there.uses_left is not None:
            wait_for(self.spend(grant))
        else:
            super().use(grant)

    async def spend(self, grant: str) -> None:
        """Count one use of a grant among all processes.

        Raises:
            PermissionDenied: it has ended since it was found.
        """
        await self.save()
        now = self._clock.now()

        def spent(there: Grant | None) -> Grant:
            if there is None or there.uses_left == 0 or there.expires_at <= now:
                raise PermissionDenied(f"approval {grant} has expired", hint="Call again to be asked.")
            left = there.uses_left
            return there if left is None else replace(there, uses_left=left - 1)

        after = await self._table.change(grant, spent)
        if after is not None:
            self._grants[grant] = after

    async def revoke(self, grant: str) -> bool:
        """End a grant in all processes; False if there is none of that id."""
        here = await super().revoke(grant)
        self._unsaved.pop(grant, None)
        return await self._table.delete(grant) or here
