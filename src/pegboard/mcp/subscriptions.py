"""Listening: who is told about changes, in both eras, each on a stream of its own (corpus mcp-110)."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from typing import Any, Final, cast

from pegboard.core.errors import ToolError
from pegboard.mcp.change_monitor import (
    PROMPTS,
    RESOURCES,
    TOOLS,
    UPDATED,
    ChangeMonitor,
    Etags,
    Subscription,
    Topic,
)
from pegboard.mcp.prompts import Resources
from pegboard.mcp.request_context import Json, Peer, RequestContext
from pegboard.mcp.tasks import EXTENSION, Tasks
from pegboard.mcp.wire import INVALID_PARAMS, META_SUBSCRIPTION, RESOURCE_NOT_FOUND, RpcError

MAX_WATCHED: Final = 256
"""Resources that one client may watch at a time."""

MAX_LISTENING: Final = 64
"""Listening requests that one client may hold open."""

_FLAGS: Final = {
    "toolsListChanged": TOOLS,
    "promptsListChanged": PROMPTS,
    "resourcesListChanged": RESOURCES,
}


class Subscriptions:
    """The clients that are there, and what each wants to hear of.

    Args:
        tasks: whose progress can be listened to.
        marks: how things are, to tell a change by.
        resources: what can be watched; None = nothing.
        prompts: whether any are offered, so that their changes can be promised.
        every_s: seconds between two looks.
    """

    def __init__(
        self, tasks: Tasks, marks: Etags, *, prompts: bool, resources: Resources | None, every_s: float
    ) -> None:
        self._tasks = tasks
        self._marks = marks
        self._resources = resources
        self._offered: set[Topic] = {TOOLS}
        self._offered |= {PROMPTS} if prompts else set()
        self._offered |= {RESOURCES} if resources is not None else set()
        self._ears: list[Subscription] = []
        self._ended = asyncio.Event()
        self.watch = ChangeMonitor(self._ears, marks, every_s=every_s)

    def join(self, ctx: RequestContext) -> None:
        """A client of the handshake era is there, or can be told things again."""
        if self._standing(ctx.peer) is None:
            self._ears.append(
                Subscription(exchange=ctx, standing=True, hears={heard: None for heard in self._offered})
            )
        self.watch.poll_now()

    def leave(self, peer: Peer) -> None:
        """A client is gone."""
        self._ears[:] = [e for e in self._ears if e.exchange.peer is not peer]
        self.watch.stop_if_idle()

    def end(self) -> None:
        """Answer every listening request."""
        self._ended.set()

    def changed(self) -> None:
        """A call may have changed something: look now and not in a while."""
        if any(ear.is_open for ear in self._ears):
            self.watch.poll_now()

    def acknowledge(self, peer: Peer, topic: Topic, mark: Hashable) -> None:
        """A client has been shown a list: only what differs from that one is news to it."""
        ear = self._standing(peer)
        if ear is not None:
            ear.hears[topic] = mark

    def publish(self, topic: Topic) -> None:
        """Tell everybody who wants to know that something has changed."""
        for ear in self._ears:
            if topic in ear.hears:
                ear.notify(topic)

    # -- the handshake era --------------------------------------------------------------------

    async def subscribe(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        """`resources/subscribe`.

        Raises:
            RpcError: no address, one that this client cannot read, or too many.
        """
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "resources/subscribe needs a uri")
        ear = self._standing(peer)
        if ear is None or (UPDATED, uri) in ear.hears:
            return {}
        self._bound(peer, 1)
        mark = await self._readable(uri)
        if mark is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no resource {uri[:200]!r}", {"uri": uri})
        self._bound(peer, 1)
        ear.hears[UPDATED, uri] = mark
        self.watch.poll_now()
        return {}

    async def unsubscribe(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        """`resources/unsubscribe`; one that is not watched is no error."""
        ear = self._standing(peer)
        if ear is not None:
            ear.hears.pop((UPDATED, str(params.get("uri"))), None)
        return {}

    # -- the stateless era --------------------------------------------------------------------

    async def listen(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        """`subscriptions/listen`: hold the request open and tell about changes until the client ends it.

        Resources that this client cannot read are left out of what is acknowledged.

        Raises:
            RpcError: it does not say what it wants to hear, or wants to hear of too much.
        """
        wanted: Any = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen needs notifications")
        asked = cast("Mapping[str, Any]", wanted)
        ear = Subscription(exchange=ctx)
        honoured = await self._honoured(asked, ear)
        self._bound(peer, sum(method == UPDATED for method, _ in ear.hears))
        if sum(not e.standing for e in self._of(peer)) >= MAX_LISTENING:
            raise RpcError(
                INVALID_PARAMS, f"a client may hold {MAX_LISTENING} listening requests open; end one first"
            )
        meta = {"_meta": {META_SUBSCRIPTION: ctx.id}}
        peer.notify("notifications/subscriptions/acknowledged", {"notifications": honoured, **meta}, ctx)
        self._ears.append(ear)
        self.watch.poll_now()
        try:
            self._tasks.watch(peer, ctx, honoured.get("taskIds") or ())
            await self._ended.wait()
        finally:
            if ear in self._ears:
                self._ears.remove(ear)
            self.watch.stop_if_idle()
            self._tasks.unwatch(ctx)
        return meta

    async def _honoured(self, asked: Mapping[str, Any], ear: Subscription) -> Json:
        """What is acknowledged; the ear hears of it from now on."""
        flags = [k for k, heard in _FLAGS.items() if asked.get(k) is True and heard in self._offered]
        out: Json = dict.fromkeys(flags, True)
        for flag in flags:
            ear.hears[_FLAGS[flag]] = await self._marks.of(_FLAGS[flag])
        exchange = ear.exchange
        uris: Any = asked.get("resourceSubscriptions")
        if self._resources is not None and isinstance(uris, list):
            wanted = [u for u in dict.fromkeys(cast("list[Any]", uris)) if isinstance(u, str)]
            self._bound(exchange.peer, len(wanted))
            for uri in wanted:
                mark = await self._readable(uri)
                if mark is not None:
                    ear.hears[UPDATED, uri] = mark
            out["resourceSubscriptions"] = [uri for method, uri in ear.hears if method == UPDATED]
        ids: Any = asked.get("taskIds")
        if EXTENSION in exchange.capabilities.get("extensions", {}) and isinstance(ids, list):
            out["taskIds"] = self._tasks.known(exchange.peer, cast("list[Any]", ids))
        return out

    # -- both ---------------------------------------------------------------------------------

    async def _readable(self, uri: str) -> Hashable:
        """The mark of a resource that the current client can read; None for any other, whatever the reason."""
        try:
            await cast("Resources", self._resources).read(uri)
            return await self._marks.of((UPDATED, uri))
        except ToolError:
            return None

    def _standing(self, peer: Peer) -> Subscription | None:
        return next((e for e in self._ears if e.standing and e.exchange.peer is peer), None)

    def _of(self, peer: Peer) -> list[Subscription]:
        """All streams of a client; in the stateless era each request is a peer of its own."""
        return [e for e in self._ears if e.exchange.peer is peer or e.exchange.peer.session == peer.session]

    def _bound(self, peer: Peer, more: int) -> None:
        watched = sum(method == UPDATED for ear in self._of(peer) for method, _ in ear.hears)
        if watched + more > MAX_WATCHED:
            raise RpcError(
                INVALID_PARAMS,
                f"a client may watch {MAX_WATCHED} resources at a time, and this would be {watched + more}; "
                "stop watching some first",
                {"limit": MAX_WATCHED},
            )
