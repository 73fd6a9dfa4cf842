"""Listening: who is told about changes, in both eras, each on a stream of its own (corpus mcp-110)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pegboard.mcp.exchange import Exchange, Json, Peer
from pegboard.mcp.tasks import EXTENSION, Tasks
from pegboard.mcp.wire import HANDSHAKE, INVALID_PARAMS, META_SUBSCRIPTION, RpcError

_FLAGS: Final = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")


class Listening:
    """The clients that are there, and what each of their listening requests wants to hear.

    Args:
        tasks: whose progress can be listened to.
        prompts, resources: whether any are offered, so that their changes can be promised.
    """

    def __init__(self, tasks: Tasks, *, prompts: bool, resources: bool) -> None:
        self._tasks = tasks
        self._offered = {
            "toolsListChanged": True,
            "promptsListChanged": prompts,
            "resourcesListChanged": resources,
        }
        self._peers: list[Peer] = []

    def join(self, peer: Peer) -> None:
        """A client is there."""
        if peer not in self._peers:
            self._peers.append(peer)

    def leave(self, peer: Peer) -> None:
        """A client is gone."""
        if peer in self._peers:
            self._peers.remove(peer)

    def tell(self, method: str, flag: str) -> None:
        """Tell everybody who wants to know that a list has changed."""
        for peer in self._peers:
            for wanted, exchange in peer.listeners.values():
                if wanted.get(flag):
                    _say(peer, exchange, method, {})
            if peer.version in HANDSHAKE:
                peer.notify(method)

    def updated(self, uri: str) -> None:
        """Tell those who watch a resource that it has changed."""
        method = "notifications/resources/updated"
        for peer in self._peers:
            if uri in peer.subscriptions:
                peer.notify(method, {"uri": uri})
            for wanted, exchange in peer.listeners.values():
                if uri in cast("Sequence[str]", wanted.get("resourceSubscriptions") or ()):
                    _say(peer, exchange, method, {"uri": uri})

    async def listen(self, peer: Peer, exchange: Exchange, params: Mapping[str, Any]) -> Json:
        """`subscriptions/listen`: hold the request open and tell about changes until the client ends it.

        Raises:
            RpcError: it does not say what it wants to hear.
        """
        wanted: Any = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen needs notifications")
        honoured = self._honoured(cast("Mapping[str, Any]", wanted), exchange)
        meta = {"_meta": {META_SUBSCRIPTION: exchange.id}}
        peer.notify("notifications/subscriptions/acknowledged", {"notifications": honoured, **meta}, exchange)
        peer.listeners[exchange.id] = (honoured, exchange)
        self.join(peer)
        try:
            self._tasks.watch(peer, exchange, honoured.get("taskIds") or ())
            await asyncio.Event().wait()
        finally:
            peer.listeners.pop(exchange.id, None)
            self._tasks.unwatch(exchange)
        return meta

    def _honoured(self, asked: Mapping[str, Any], exchange: Exchange) -> Json:
        out: Json = {k: True for k in _FLAGS if asked.get(k) is True and self._offered[k]}
        if self._offered["resourcesListChanged"] and isinstance(asked.get("resourceSubscriptions"), list):
            out["resourceSubscriptions"] = asked["resourceSubscriptions"]
        if EXTENSION in exchange.capabilities.get("extensions", {}) and isinstance(
            asked.get("taskIds"), list
        ):
            out["taskIds"] = self._tasks.known(exchange.peer, cast("list[Any]", asked["taskIds"]))
        return out


def _say(peer: Peer, exchange: Exchange, method: str, params: Json) -> None:
    peer.notify(method, {**params, "_meta": {META_SUBSCRIPTION: exchange.id}}, exchange)
