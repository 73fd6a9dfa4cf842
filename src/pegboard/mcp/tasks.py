"""Tasks: long calls that a client of the stateless era looks after instead of waiting (SEP-2663 extension)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from pegboard.mcp.exchange import Exchange, Json, Peer

EXTENSION: Final = "io.modelcontextprotocol/tasks"


class Tasks:
    """The running and finished tasks of one server."""

    def __init__(self, *, after_s: float | None) -> None:
        self.enabled = False
        self._after_s = after_s

    def methods(self) -> dict[str, Callable[[Peer, Exchange, Mapping[str, Any]], Awaitable[Json]]]:
        """The protocol's methods."""
        return {}

    def wanted(self, exchange: Exchange) -> bool:
        """Whether a call of this client may become a task."""
        return False

    def known(self, peer: Peer, ids: Sequence[Any]) -> list[str]:
        """Those ids that are tasks."""
        return []

    async def watch(self, peer: Peer, exchange: Exchange, ids: Sequence[str]) -> None:
        """Tell a listener about tasks."""

    async def run(self, peer: Peer, exchange: Exchange, call: Callable[[], Awaitable[Json]]) -> Json:
        """Run a call as a task where it takes long."""
        return await call()
