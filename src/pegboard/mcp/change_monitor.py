"""Watching: what clients listen to is looked at, and whoever it concerns is told where it is another (ledger K-79)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from pegboard.core.call.pipeline import Pipeline
from pegboard.core.errors import ToolError
from pegboard.mcp.prompts import Prompts, Resources
from pegboard.mcp.request_context import Json, RequestContext, enter
from pegboard.mcp.wire import HANDSHAKE, META_SUBSCRIPTION

TOOLS: Final = ("notifications/tools/list_changed", "")
PROMPTS: Final = ("notifications/prompts/list_changed", "")
RESOURCES: Final = ("notifications/resources/list_changed", "")
UPDATED: Final = "notifications/resources/updated"

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
    """One stream on which a client hears of changes.

    Attributes:
        exchange: its listening request; where it is `standing`, one that only says whose it is.
        standing: the handshake era's stream, which belongs to no request.
        hears: what it hears of, with how that was when the client was last told; None = not looked at yet.
    """

    exchange: RequestContext
    standing: bool = False
    hears: dict[Topic, Hashable] = field(default_factory=dict[Topic, Hashable])

    @property
    def is_open(self) -> bool:
        """Whether the client would be told now."""
        peer = self.exchange.peer
        return not self.standing or (peer.listening and peer.version in HANDSHAKE)

    def notify(self, topic: Topic) -> None:
        """Tell the client."""
        peer, (method, uri) = self.exchange.peer, topic
        params: Json = {"uri": uri} if uri else {}
        if not self.standing:
            peer.notify(method, {**params, "_meta": {META_SUBSCRIPTION: self.exchange.id}}, self.exchange)
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
        """The mark of one thing for the client of the current exchange.

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
        ears: who listens; a list that others change.
        marks: how things are.
        every_s: see EVERY_S.
        clock: seconds, for how long a look takes.
    """

    def __init__(
        self,
        ears: Sequence[Subscription],
        marks: Etags,
        *,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ears = ears
        self._marks = marks
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
        if self._task is not None and not self._ears:
            self._task.cancel()

    async def _run(self) -> None:
        while any(ear.is_open for ear in self._ears):
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
        for ear in [e for e in self._ears if e.is_open]:
            enter(ear.exchange)
            for heard, before in list(ear.hears.items()):
                key = (ear.exchange.peer.session, heard)
                if key not in found:
                    found[key] = await self._mark(heard)
                # Meanwhile the client may have been shown a newer one, or have stopped listening.
                if ear.hears.get(heard, found[key]) is not before or found[key] == before:
                    continue
                ear.hears[heard] = found[key]
                if before is not None:
                    ear.notify(heard)

    async def _mark(self, topic: Topic) -> Hashable:
        try:
            return await self._marks.of(topic)
        except ToolError:
            return "gone"
        except Exception as error:  # noqa: BLE001  One thing that cannot be looked at must not end the look at the others.
            return f"broken: {type(error).__name__}"


def addresses(rows: Sequence[Any]) -> Hashable:
    """The mark of a list of resources."""
    return tuple([str(row.get("uri")) for row in rows])
