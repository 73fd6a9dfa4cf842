"""NodeLink: a node that is connected to this process, and the calls that it has not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

from pegboard.core.call.call import new_id
from pegboard.core.errors import Interrupted, TimedOut, ToolError, Unavailable
from pegboard.net.node_protocol import message
from pegboard.ports.nodes import Node

_MOST_TEXT: Final = 500

Send: TypeAlias = Callable[[str], Awaitable[None]]


class NodeLink:
    """A connected node: what is sent to it, and which calls it has not answered.

    Args:
        node: the paired node, with what it offers.
        send: sends it a message.
        close: ends the connection.
    """

    def __init__(self, node: Node, send: Send, close: Callable[[], None] = lambda: None) -> None:
        self.node = node
        self.send = send
        self.close = close
        self._open: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._lost = False

    async def call(self, action: str, values: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """See Nodes.call_node."""
        name, id = self.node.name, new_id("nodecall")
        if self._lost:
            raise not_connected(name)
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[id] = answer
        try:
            async with asyncio.timeout(timeout_s):
                await self.send(
                    message("call", id=id, action=action, values=dict(values), timeout_s=timeout_s)
                )
                return await answer
        except TimeoutError:
            raise TimedOut(
                f"{name} did not answer {action} within {timeout_s:g} s and was asked to stop; it may have done it",
                hint="Check before you try again.",
            ) from None
        finally:
            del self._open[id]
            if not answer.done() or answer.cancelled():
                # Nobody waits for it any more; the call's own error goes on.
                with suppress(Exception):
                    await self.send(message("cancel", id=id))

    def on_answer(self, answer: Mapping[str, Any]) -> None:
        """A `result` or `error` has come; one that nobody waits for is dropped."""
        waiting = self._open.get(str(answer.get("id")))
        if waiting is None or waiting.done():
            return
        values = answer.get("values")
        if answer["type"] == "result" and isinstance(values, dict):
            waiting.set_result(cast("dict[str, Any]", values))
        else:
            waiting.set_exception(_node_error(self.node.name, answer))

    def lose(self) -> None:
        """The connection is gone: whoever waits is told that nobody knows what became of the call."""
        self._lost = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(interrupted(self.node.name))


def not_connected(name: str) -> Unavailable:
    """The error of a call to a node that is not there: it was asked for nothing."""
    return Unavailable(
        f"{name} is not connected", hint="Ask the user to start it, or try again later.", retryable=True
    )


def interrupted(name: str) -> Interrupted:
    """The error of a call whose connection was lost: nobody knows whether it was done."""
    return Interrupted(
        f"the connection to {name} was lost before it answered: nobody knows whether it did what was asked",
        hint="Check what it did before you ask again.",
    )


def _node_error(name: str, answer: Mapping[str, Any]) -> ToolError:
    """What a node says went wrong. Its words are as untrusted as its results, so they keep no code of ours."""
    text, hint = (str(answer.get(key) or "")[:_MOST_TEXT] for key in ("message", "hint"))
    return ToolError(
        f"{name}: {text or 'it failed and does not say why'}", hint=hint, code="node_error",
        details={"node": name, "code": str(answer.get("code") or "")[:60]},
    )  # fmt: skip
