"""Who is told about changes, in both eras, and how changes are noticed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, cast

from pegboard.core.call.pipeline import Pipeline
from pegboard.core.errors import ToolError
from pegboard.mcp.prompts import Prompts, Resources
from pegboard.mcp.request_context import Json, Peer, RequestContext, enter
from pegboard.mcp.tasks import EXTENSION, Tasks
from pegboard.mcp.wire import HANDSHAKE, INVALID_PARAMS, META_SUBSCRIPTION, RESOURCE_NOT_FOUND, RpcError

TOOLS: Final = ("notifications/tools/list_changed", "")
PROMPTS: Final = ("notifications/prompts/list_changed", "")
RESOURCES: Final = ("notifications/resources/list_changed", "")
UPDATED: Final = "notifications/resources/updated"

MAX_WATCHED: Final = 256
"""Resources that one client may watch at a time."""
MAX_LISTENING: Final = 64
"""Listening requests that one client may hold open."""
EVERY_S: Final = 1.0
"""Seconds between two looks at what somebody listens to."""

_SHARE: Final = 50
"""A look that takes long is followed by a pause so many times as long: 2 % of a processor at most."""

Topic: TypeAlias = tuple[str, str]
"""A notification's method, and the address of the resource where it is about one."""


class ToolSources(Protocol):
    """Where tools come from that may change while they are served; an Executor is one."""

    @property
    def tools_changed(self) -> bool:
        """Whether there is another list of tools than the one that is offered."""
        ...

    async def refresh_tools(self, name: str | None = None) -> None:
        """Offer the tools that there are now."""
        ...


@dataclass(eq=False, slots=True, kw_only=True)
class Subscription:
    """One stream on which a client is told about changes.

    Attributes:
        ctx: its listening request; where it is `standing`, one that only says whose it is.
        standing: the handshake era's stream, which belongs to no request.
        topics: what it is told about, with the etag it was last told; None = not checked yet.
    """

    ctx: RequestContext
    standing: bool = False
    topics: dict[Topic, Hashable] = field(default_factory=dict[Topic, Hashable])

    @property
    def is_open(self) -> bool:
        """Whether the client would be told now."""
        peer = self.ctx.peer
        return not self.standing or (peer.listening and peer.version in HANDSHAKE)

    def notify(self, topic: Topic) -> None:
        """Tell the client."""
        peer, (method, uri) = self.ctx.peer, topic
        params: Json = {"uri": uri} if uri else {}
        if not self.standing:
            peer.notify(method, {**params, "_meta": {META_SUBSCRIPTION: self.ctx.id}}, self.ctx)
        elif peer.version in HANDSHAKE:
            peer.notify(method, params or None)


class Etags:
    """How things are now, as values that differ where the things do."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        sources: ToolSources | None,
        resources: Resources | None,
        prompts: Prompts | None,
    ) -> None:
        self._pipeline = pipeline
        self._sources = sources
        self._resources = resources
        self._prompts = prompts

    async def of(self, topic: Topic) -> Hashable:
        """The mark of one thing for the client of the current ctx.

        Raises:
            ToolError: there is no such resource, or this client may not read it.
        """
        if topic == TOOLS:
            if self._sources is not None and self._sources.tools_changed:
                await self._sources.refresh_tools()
            return self._pipeline.toolkit
        if topic == PROMPTS:
            return None if self._prompts is None else await self._prompts.etag()
        if self._resources is None:
            return None
        if topic == RESOURCES:
            return addresses(await self._resources.list())
        return await self._resources.etag(topic[1])


class ChangeMonitor:
    """Looks again and again, while somebody listens and no longer.

    Args:
        subscriptions: who listens; a list that others change.
        etags: how things are.
        every_s: see EVERY_S.
        clock: seconds, for how long a look takes.
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        etags: Etags,
        *,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subscriptions = subscriptions
        self._etags = etags
        self._every_s = every_s
        self._clock = clock
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def poll_now(self) -> None:
        """Look now: something may have changed, or somebody new listens."""
        self._soon.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mcp-watch")

    def stop_if_idle(self) -> None:
        """End looking where nobody is left to listen."""
        if self._task is not None and not self._subscriptions:
            self._task.cancel()

    async def _run(self) -> None:
        while any(subscription.is_open for subscription in self._subscriptions):
            self._soon.clear()
            began = self._clock()
            await self.poll()
            await asyncio.sleep(min(_SHARE * (self._clock() - began), 30 * self._every_s))
            try:
                async with asyncio.timeout(self._every_s):
                    await self._soon.wait()
            except TimeoutError:
                continue

    async def poll(self) -> None:
        """Compare everything that is listened to with how it was, once, and tell what differs."""
        found: dict[tuple[str, Topic], Hashable] = {}
        for subscription in [e for e in self._subscriptions if e.is_open]:
            enter(subscription.ctx)
            for topic, before in list(subscription.topics.items()):
                key = (subscription.ctx.peer.session, topic)
                if key not in found:
                    found[key] = await self._mark(topic)
                # Meanwhile the client may have been shown a newer one, or have stopped listening.
                if subscription.topics.get(topic, found[key]) is not before or found[key] == before:
                    continue
                subscription.topics[topic] = found[key]
                if before is not None:
                    subscription.notify(topic)

    async def _mark(self, topic: Topic) -> Hashable:
        try:
            return await self._etags.of(topic)
        except ToolError:
            return "gone"
        except Exception as error:  # noqa: BLE001  One thing that cannot be looked at must not end the look at the others.
            return f"broken: {type(error).__name__}"


def addresses(rows: Sequence[Any]) -> Hashable:
    """The mark of a list of resources."""
    return tuple([str(row.get("uri")) for row in rows])


_FLAGS: Final = {
    "toolsListChanged": TOOLS,
    "promptsListChanged": PROMPTS,
    "resourcesListChanged": RESOURCES,
}


class Subscriptions:
    """The clients that are there, and what each wants to hear of.

    Args:
        tasks: whose progress can be listened to.
        etags: how things are, to tell a change by.
        resources: what can be watched; None = nothing.
        prompts: whether any are offered, so that their changes can be promised.
        every_s: seconds between two looks.
    """

    def __init__(
        self, tasks: Tasks, etags: Etags, *, prompts: bool, resources: Resources | None, every_s: float
    ) -> None:
        self._tasks = tasks
        self._etags = etags
        self._resources = resources
        self._offered: set[Topic] = {TOOLS}
        self._offered |= {PROMPTS} if prompts else set()
        self._offered |= {RESOURCES} if resources is not None else set()
        self._subscriptions: list[Subscription] = []
        self._ended = asyncio.Event()
        self.watch = ChangeMonitor(self._subscriptions, etags, every_s=every_s)

    def join(self, ctx: RequestContext) -> None:
        """A client of the handshake era is there, or can be told things again."""
        if self._standing(ctx.peer) is None:
            self._subscriptions.append(
                Subscription(ctx=ctx, standing=True, topics={topic: None for topic in self._offered})
            )
        self.watch.poll_now()

    def leave(self, peer: Peer) -> None:
        """A client is gone."""
        self._subscriptions[:] = [e for e in self._subscriptions if e.ctx.peer is not peer]
        self.watch.stop_if_idle()

    def end(self) -> None:
        """Answer every listening request."""
        self._ended.set()

    def changed(self) -> None:
        """A call may have changed something: look now and not in a while."""
        if any(subscription.is_open for subscription in self._subscriptions):
            self.watch.poll_now()

    def acknowledge(self, peer: Peer, topic: Topic, mark: Hashable) -> None:
        """A client has been shown a list: only what differs from that one is news to it."""
        subscription = self._standing(peer)
        if subscription is not None:
            subscription.topics[topic] = mark

    def publish(self, topic: Topic) -> None:
        """Tell everybody who wants to know that something has changed."""
        for subscription in self._subscriptions:
            if topic in subscription.topics:
                subscription.notify(topic)

    # -- the handshake era --------------------------------------------------------------------

    async def subscribe(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        """`resources/subscribe`.

        Raises:
            RpcError: no address, one that this client cannot read, or too many.
        """
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "resources/subscribe needs a uri")
        subscription = self._standing(peer)
        if subscription is None or (UPDATED, uri) in subscription.topics:
            return {}
        self._bound(peer, 1)
        mark = await self._readable(uri)
        if mark is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no resource {uri[:200]!r}", {"uri": uri})
        self._bound(peer, 1)
        subscription.topics[UPDATED, uri] = mark
        self.watch.poll_now()
        return {}

    async def unsubscribe(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        """`resources/unsubscribe`; one that is not watched is no error."""
        subscription = self._standing(peer)
        if subscription is not None:
            subscription.topics.pop((UPDATED, str(params.get("uri"))), None)
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
        subscription = Subscription(ctx=ctx)
        honoured = await self._honoured(asked, subscription)
        self._bound(peer, sum(method == UPDATED for method, _ in subscription.topics))
        if sum(not e.standing for e in self._of(peer)) >= MAX_LISTENING:
            raise RpcError(
                INVALID_PARAMS, f"a client may hold {MAX_LISTENING} listening requests open; end one first"
            )
        meta = {"_meta": {META_SUBSCRIPTION: ctx.id}}
        peer.notify("notifications/subscriptions/acknowledged", {"notifications": honoured, **meta}, ctx)
        self._subscriptions.append(subscription)
        self.watch.poll_now()
        try:
            self._tasks.watch(peer, ctx, honoured.get("taskIds") or ())
            await self._ended.wait()
        finally:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
            self.watch.stop_if_idle()
            self._tasks.unwatch(ctx)
        return meta

    async def _honoured(self, asked: Mapping[str, Any], subscription: Subscription) -> Json:
        """What is acknowledged; the subscription has it from now on."""
        flags = [k for k, topic in _FLAGS.items() if asked.get(k) is True and topic in self._offered]
        out: Json = dict.fromkeys(flags, True)
        for flag in flags:
            subscription.topics[_FLAGS[flag]] = await self._etags.of(_FLAGS[flag])
        ctx = subscription.ctx
        uris: Any = asked.get("resourceSubscriptions")
        if self._resources is not None and isinstance(uris, list):
            wanted = [u for u in dict.fromkeys(cast("list[Any]", uris)) if isinstance(u, str)]
            self._bound(ctx.peer, len(wanted))
            for uri in wanted:
                mark = await self._readable(uri)
                if mark is not None:
                    subscription.topics[UPDATED, uri] = mark
            out["resourceSubscriptions"] = [uri for method, uri in subscription.topics if method == UPDATED]
        ids: Any = asked.get("taskIds")
        if EXTENSION in ctx.capabilities.get("extensions", {}) and isinstance(ids, list):
            out["taskIds"] = self._tasks.known(ctx.peer, cast("list[Any]", ids))
        return out

    # -- both ---------------------------------------------------------------------------------

    async def _readable(self, uri: str) -> Hashable:
        """The mark of a resource that the current client can read; None for any other, whatever the reason."""
        try:
            await cast("Resources", self._resources).read(uri)
            return await self._etags.of((UPDATED, uri))
        except ToolError:
            return None

    def _standing(self, peer: Peer) -> Subscription | None:
        return next((e for e in self._subscriptions if e.standing and e.ctx.peer is peer), None)

    def _of(self, peer: Peer) -> list[Subscription]:
        """All streams of a client; in the stateless era each request is a peer of its own."""
        return [e for e in self._subscriptions if e.ctx.peer is peer or e.ctx.peer.session == peer.session]

    def _bound(self, peer: Peer, more: int) -> None:
        watched = sum(
            method == UPDATED for subscription in self._of(peer) for method, _ in subscription.topics
        )
        if watched + more > MAX_WATCHED:
            raise RpcError(
                INVALID_PARAMS,
                f"a client may watch {MAX_WATCHED} resources at a time, and this would be {watched + more}; "
                "stop watching some first",
                {"limit": MAX_WATCHED},
            )
