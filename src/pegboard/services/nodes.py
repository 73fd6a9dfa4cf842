"""Nodes: paired machines and phones, those connected here, and calls to those connected to another process.

A gateway holds the connections of its nodes. Another process over the same store (`pegboard run`, a second gateway)
leaves a call in the store, which that gateway takes, carries out and answers there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pegboard.core.call.call import new_id
from pegboard.core.errors import (
    Conflict,
    NotFound,
    NotUnique,
    PermissionDenied,
    ToolError,
    Unavailable,
    Unsupported,
)
from pegboard.core.limits import Clock, SystemClock
from pegboard.net.node_protocol import key_words
from pegboard.ports.nodes import CONSOLE, Node
from pegboard.ports.store import Store, StoreError
from pegboard.services.node_link import NodeLink, interrupted, not_connected
from pegboard.services.pairing import Pairings
from pegboard.store.table import Table

PAIRING: Final = "node"
"""The kind of a pairing, as `Pairings` keeps it."""
LEASE_S: Final = 15.0
"""Seconds after which a connection whose gateway has not renewed it counts as gone."""
_RENEW_S: Final = 5.0
_LOOK_S: Final = 0.25
_GRACE_S: Final = 60.0
"""Seconds that an answer nobody fetched is kept."""

CONSOLE_NODE: Final = Node(
    name=CONSOLE, kind="browser", key="", capabilities=("canvas",), platform="web console", offers=("canvas",)
)
"""The console that the owner has open; it is known by the owner's token, not by a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """Where a node is connected: the gateway's id, what the node offers, and until when that holds."""

    gateway: str
    offers: tuple[str, ...]
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call that another process left: asked, taken or answered; `error` is that of a failed one."""

    node: str
    action: str
    values: Mapping[str, Any]
    timeout_s: float
    until: float
    state: str = "asked"
    answer: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None


class PairedNodes:
    """The Nodes port over a store, and the gateway's side of it.

    Args:
        store: opens the store.
        clock: wall time of leases.
    """

    def __init__(self, store: Callable[[], Awaitable[Store]], *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._now = self._clock.now
        self._gateway = new_id("gateway")
        self._links: dict[str, NodeLink] = {}
        self._linked = asyncio.Event()

    # -- the port -----------------------------------------------------------------------------------

    async def list_nodes(self) -> Sequence[Node]:
        """See Nodes."""
        nodes = await (await self._nodes()).scan()
        links = await (await self._link_rows()).scan()
        if self._offers(links.get(CONSOLE)) is not None:
            nodes[CONSOLE] = CONSOLE_NODE
        return [replace(node, offers=self._offers(links.get(name))) for name, node in sorted(nodes.items())]

    async def find_node(self, name: str, capability: str) -> Node:
        """See Nodes."""
        nodes = await self.list_nodes()
        if not nodes:
            raise NotFound(
                "no node is paired",
                hint="Ask the user to run pegboard node --gateway URL on a machine, or to open /node in a phone's browser."
                + (
                    " The console of pegboard serve has a canvas too, while it is open."
                    if capability == "canvas"
                    else ""
                ),
            )
        listed = ", ".join(n.name for n in nodes)
        if name:
            found = next((n for n in nodes if n.name == name.strip().lower()), None)
            if found is None:
                raise NotFound(f"no node is called {name[:80]!r}", hint=f"The nodes are: {listed}.")
        else:
            able = [n for n in nodes if capability in (n.offers or ())]
            if len(able) > 1:
                names = ", ".join(n.name for n in able)
                raise NotUnique(f"{len(able)} connected nodes have {capability}", hint=f"Give node: {names}.")
            if not able and len(nodes) > 1:
                raise Unavailable(f"no connected node has {capability}", hint=f"The nodes are: {listed}.")
            found = able[0] if able else nodes[0]
        if found.offers is None:
            raise not_connected(found.name)
        if capability not in found.offers:
            raise Unsupported(
                f"{found.name} does not have {capability}",
                hint=f"It has: {', '.join(found.offers) or 'nothing'}.",
            )
        return found

    async def call_node(
        self, name: str, action: str, values: Mapping[str, Any], *, timeout_s: float
    ) -> Mapping[str, Any]:
        """See Nodes."""
        link = self._links.get(name)
        if link is not None:
            return await link.call(action, values, timeout_s)
        there = await (await self._link_rows()).get(name)
        if there is None or there.until < self._now() or there.gateway == self._gateway:
            raise not_connected(name)
        calls, key = await self._calls(), f"{there.gateway}\x1f{new_id('nodecall')}"
        await calls.put(
            key,
            _Call(
                node=name, action=action, values=values, timeout_s=timeout_s,
                until=self._now() + timeout_s + LEASE_S,
            ),
        )  # fmt: skip
        try:
            return await self._answer(calls, key, name, there.gateway)
        finally:
            # A call whose row is gone is cancelled there.
            await asyncio.shield(calls.delete(key))

    async def _answer(self, calls: Table[_Call], key: str, name: str, gateway: str) -> Mapping[str, Any]:
        """What the gateway of a node answers to a call that was left for it."""
        links = await self._link_rows()
        while True:
            call = await calls.get(key)
            if call is None:
                raise interrupted(name)
            if call.error is not None:
                raise ToolError(
                    str(call.error["message"]), hint=str(call.error["hint"]), code=str(call.error["code"]),
                    details=call.error.get("details"),
                )  # fmt: skip
            if call.answer is not None:
                return call.answer
            link = await links.get(name)
            if (
                call.until < self._now()
                or link is None
                or link.gateway != gateway
                or link.until < self._now()
            ):
                raise not_connected(name) if call.state == "asked" else interrupted(name)
            await asyncio.sleep(_LOOK_S)

    # -- pairing ------------------------------------------------------------------------------------

    async def admit(self, declared: Node) -> Node | None:
        """The paired node of one that has proved its key, with what it may offer; None while it is not approved.

        Args:
            declared: what it says of itself.

        Raises:
            PermissionDenied: its name belongs to a node with another key, or to the console.
            Conflict: its key belongs to a node with another name.
        """
        if declared.name == CONSOLE:
            raise PermissionDenied(
                f"{CONSOLE} is the name of the web console", hint="Give the node another name with --name."
            )
        nodes = await self._nodes()
        known = await nodes.get(declared.name)
        if known is not None and not await (await self._pairings()).allowed(PAIRING, who(known)):
            await self._forget(known)
            known = None
        if known is not None and known.key != declared.key:
            raise PermissionDenied(
                f"{declared.name} is paired with another key ({key_words(known.key)}), this one is "
                f"{key_words(declared.key)}",
                hint=f"If you have set it up anew, run pegboard nodes remove {declared.name} at the gateway; "
                "else give it another name.",
            )
        if known is None:
            same = next((n for n in (await nodes.scan()).values() if n.key == declared.key), None)
            if same is not None:
                raise Conflict(
                    f"this node is paired as {same.name}",
                    hint=f"Connect as --name {same.name}, or run pegboard nodes remove {same.name} at the gateway.",
                )
            if not await (await self._pairings()).allowed(PAIRING, who(declared)):
                return None
            known = replace(declared, paired_at=self._now())
        seen = replace(known, platform=declared.platform, seen_at=self._now())
        await nodes.put(seen.name, seen)
        return replace(seen, offers=tuple(c for c in declared.capabilities if c in known.capabilities))

    async def request_pairing(self, declared: Node) -> str:
        """The code by which a person approves a node: its name, kind, key and capabilities as it declared them."""
        can = ", ".join(declared.capabilities) or "nothing"
        return await (await self._pairings()).request(
            PAIRING, who(declared), f"{declared.name} ({declared.kind}, key {key_words(declared.key)}): {can}"
        )

    async def remove(self, name: str) -> Node:
        """Forget a node; a connection of it is ended within seconds.

        Raises:
            NotFound: no node has that name.
        """
        node = await (await self._nodes()).get(name)
        if node is None:
            listed = ", ".join(n.name for n in await self.list_nodes())
            raise NotFound(f"no node is called {name[:80]!r}", hint=f"The nodes are: {listed or 'none'}.")
        await (await self._pairings()).revoke(PAIRING, who(node))
        await self._forget(node)
        if (link := self._links.get(name)) is not None:
            link.close()
        return node

    async def _forget(self, node: Node) -> None:
        await (await self._nodes()).delete(node.name)
        await (await self._link_rows()).delete(node.name)

    # -- connections of this process ------------------------------------------------------------------

    @property
    def links(self) -> Sequence[NodeLink]:
        """The nodes that are connected here."""
        return list(self._links.values())

    async def connect(self, link: NodeLink) -> None:
        """A node is here; an older connection of it ends."""
        name = link.node.name
        if (older := self._links.get(name)) is not None:
            older.close()
            older.lose()
        self._links[name] = link
        self._linked.set()
        await self._renew(link)

    async def disconnect(self, link: NodeLink) -> None:
        """A node is gone; its calls end as unknown."""
        link.lose()
        name = link.node.name
        if self._links.get(name) is not link:
            return
        del self._links[name]
        if not self._links:
            self._linked.clear()
        rows = await self._link_rows()
        await rows.change(name, lambda row: None if row is None or row.gateway == self._gateway else row)

    async def serve(self) -> None:
        """Until cancelled: carry out the calls that other processes leave for nodes that are connected here, and end
        connections of nodes that were removed."""
        tasks: dict[str, asyncio.Task[None]] = {}
        renewed = self._now()
        try:
            while True:
                if not tasks:
                    await self._linked.wait()
                try:
                    await self._take_calls(tasks)
                    if not renewed <= self._now() < renewed + _RENEW_S:
                        renewed = self._now()
                        await self._renew_all()
                except StoreError:
                    await asyncio.sleep(_RENEW_S)  # The worker says what is wrong with the store.
                await asyncio.sleep(_LOOK_S)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _take_calls(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        """Start the calls that were left, and cancel those whose caller has gone."""
        calls = await self._calls()
        waiting = await calls.scan(prefix=f"{self._gateway}\x1f")
        for key in [k for k in tasks if k not in waiting]:
            tasks.pop(key).cancel()
        for key, call in waiting.items():
            if call.state == "asked":
                tasks[key] = asyncio.create_task(self._carry_out(calls, key))
            elif call.until + _GRACE_S < self._now():
                await calls.delete(key)

    async def _carry_out(self, calls: Table[_Call], key: str) -> None:
        call = await calls.change(key, lambda c: c and replace(c, state="taken"))
        if call is None:
            return
        error: Mapping[str, Any] | None = None
        answer: Mapping[str, Any] | None = None
        try:
            link = self._links.get(call.node)
            if link is None:
                raise not_connected(call.node)
            answer = await link.call(call.action, call.values, call.timeout_s)
        except ToolError as failure:
            error = failure.to_dict()
        await calls.change(key, lambda c: c and replace(c, state="answered", answer=answer, error=error))

    async def _renew_all(self) -> None:
        nodes = await (await self._nodes()).scan()
        for link in self.links:
            node = nodes.get(link.node.name)
            if link.node is CONSOLE_NODE:
                await self._renew(link)
            elif node is None or not await (await self._pairings()).allowed(PAIRING, who(node)):
                link.close()
            else:
                await self._renew(link)

    async def _renew(self, link: NodeLink) -> None:
        row = _Link(gateway=self._gateway, offers=link.node.offers or (), until=self._now() + LEASE_S)
        await (await self._link_rows()).put(link.node.name, row)

    def _offers(self, link: _Link | None) -> tuple[str, ...] | None:
        return None if link is None or link.until < self._now() else link.offers

    async def _pairings(self) -> Pairings:
        store = await self._store()
        return Pairings(lambda: store, clock=self._clock)

    # -- tables ---------------------------------------------------------------------------------------

    async def _nodes(self) -> Table[Node]:
        return Table(await self._store(), "nodes", _node_to_json, _node_from_json)

    async def _link_rows(self) -> Table[_Link]:
        return Table(
            await self._store(), "node_links", asdict,
            lambda v: _Link(gateway=v["gateway"], offers=tuple(v["offers"]), until=v["until"]),
        )  # fmt: skip

    async def _calls(self) -> Table[_Call]:
        return Table(await self._store(), "node_calls", asdict, lambda value: _Call(**value))


def who(node: Node) -> str:
    """What a pairing is bound to: the node's name, with 160 bits of SHA-256 over it, its kind, key and capabilities."""
    said = [node.name, node.kind, node.key, list(node.capabilities)]
    return f"{node.name}:{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:40]}"


def describe(node: Node) -> dict[str, Any]:
    """JSON-able, for programs and models."""
    return {
        "name": node.name, "kind": node.kind, "platform": node.platform, "connected": node.offers is not None,
        "capabilities": list(node.capabilities if node.offers is None else node.offers),
        "key": key_words(node.key), "paired_at": node.paired_at, "seen_at": node.seen_at,
    }  # fmt: skip


def _node_to_json(node: Node) -> Any:
    row = asdict(node)
    del row["offers"]
    return row


def _node_from_json(value: dict[str, Any]) -> Node:
    read: dict[str, Any] = {**value, "capabilities": tuple(value["capabilities"])}
    return Node(**read)


__all__ = ["LEASE_S", "PairedNodes", "describe", "who"]
