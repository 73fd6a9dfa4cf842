"""The node's side: a connection to a gateway that is kept up, and the gateway's calls carried out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from pegboard.core.errors import (
    ConfigError,
    InternalError,
    PermissionDenied,
    ToolError,
    Unavailable,
    Unsupported,
)
from pegboard.net import node_protocol as protocol
from pegboard.net.destinations import is_loopback
from pegboard.net.node_protocol import Key, key_words, message, read_message, text_field
from pegboard.store.json_table import JsonTable

Action: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Does one thing that a gateway asks for; what it answers is JSON-able. Raises a ToolError where it fails."""

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
_HELLO_S: Final = 20.0
_PAIR_S: Final = 660.0
_MOST_CALLS: Final = 8
_FINAL: Final = frozenset({"permission_denied", "conflict", "invalid_arguments"})
"""Codes of refusals that another attempt does not change."""


class NodeClient:
    """Connects to a gateway as a node.

    Args:
        gateway: its address, `https://…`; `http://` on this machine only.
        name: what the node is called there.
        key: proves the node.
        pins: the gateways' public keys by address; a gateway that is met for the first time is added.
        actions: what the node can do, by capability.
        platform: its system in its own words.
        notify: is given each sentence for the person at the node.
        accept_key: take the gateway's key although another one was seen before.
        wait: waits so many seconds before the next attempt.

    Raises:
        ConfigError: the address or the name cannot be used.
    """

    def __init__(
        self,
        gateway: str,
        *,
        name: str,
        key: Key,
        pins: JsonTable[str],
        actions: Mapping[str, Action],
        platform: str,
        notify: Callable[[str], None],
        accept_key: bool = False,
        wait: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        if not protocol.NAME.fullmatch(name):
            raise ConfigError(f"--name {name!r}: use up to 32 of a-z, 0-9 and -, beginning with a letter")
        self._url = socket_url(gateway)
        self._gateway = gateway.rstrip("/")
        self._name = name
        self._key = key
        self._pins = pins
        self._actions = actions
        self._platform = platform
        self._notify = notify
        self._accept_key = accept_key
        self._wait = wait
        self._welcome = False

    async def run(self) -> None:
        """Stay connected until cancelled.

        Raises:
            ToolError: the gateway refuses this node, or is not the one that was seen before.
        """
        wait_s = FIRST_WAIT_S
        while True:
            why = await self._once()
            if self._welcome:
                wait_s = FIRST_WAIT_S
            self._notify(f"{why}; connecting again in {wait_s:.0f} s")
            # Spread, so that the nodes of a gateway that starts again do not all come at once.
            await self._wait(wait_s * random.uniform(0.8, 1.2))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    async def _once(self) -> str:
        """Connect and serve; why the connection ended, in words."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake

        self._welcome = False
        local = is_loopback(urlsplit(self._url).hostname or "")
        try:
            async with connect(
                self._url, max_size=protocol.MAX_MESSAGE, proxy=None if local else True, open_timeout=_HELLO_S,
                user_agent_header=None,
            ) as socket:  # fmt: skip
                await self._introduce(socket)
                self._welcome = True
                await self._serve(socket)
                return f"the connection to {self._gateway} ended"
        except ConnectionClosed:
            return f"the connection to {self._gateway} was lost"
        except ToolError as error:
            if error.code in _FINAL:
                raise
            return str(error).rstrip(".")
        except (OSError, InvalidHandshake, TimeoutError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return f"{self._gateway} cannot be reached ({why})"

    # -- handshake ------------------------------------------------------------------------------------

    async def _introduce(self, socket: Any) -> None:
        """Prove the key, wait to be approved, and check that the gateway is the one that is known.

        Raises:
            ToolError: either end is refused.
        """
        async with asyncio.timeout(_HELLO_S):
            challenge = await _receive(socket, "challenge")
        gateway_key = text_field(challenge, "key")
        self._check_pin(gateway_key)
        proof = {
            "gateway_key": gateway_key, "gateway_nonce": text_field(challenge, "nonce"),
            "node_key": self._key.public, "node_nonce": protocol.new_nonce(),
        }  # fmt: skip
        await socket.send(
            message(
                "hello", protocol=protocol.PROTOCOL, key=self._key.public, nonce=proof["node_nonce"],
                signature=self._key.sign(protocol.signed_text("node", **proof)), name=self._name,
                kind="machine", platform=self._platform, capabilities=sorted(self._actions),
            )
        )  # fmt: skip
        async with asyncio.timeout(_PAIR_S):
            answer = await _receive(socket, "pair", "welcome")
            if answer["type"] == "pair":
                code = text_field(answer, "code", most=40)
                self._notify(
                    f"to pair {self._name} (key {key_words(self._key.public)}), run at the gateway within "
                    f"{float(answer.get('expires_s') or 0) / 60:.0f} minutes: pegboard pairing approve {code}"
                )
                answer = await _receive(socket, "welcome")
        signature = text_field(answer, "signature")
        if not protocol.verifies(gateway_key, signature, protocol.signed_text("gateway", **proof)):
            raise PermissionDenied(f"{self._gateway} does not hold the key that it showed")
        if self._pins.read().get(self._gateway) != gateway_key:
            self._pins.add(self._gateway, gateway_key)
        self._accept_key = False  # Another change needs another yes.
        granted = [str(c) for c in answer.get("capabilities") or ()]
        self._notify(f"connected to {self._gateway} as {self._name}: {', '.join(granted) or 'nothing'}")
        if missing := sorted(set(self._actions) - set(granted)):
            self._notify(
                f"not approved at the gateway: {', '.join(missing)}; to change that, run there "
                f"pegboard nodes remove {self._name}, and pair again"
            )

    def _check_pin(self, gateway_key: str) -> None:
        pinned = self._pins.read().get(self._gateway)
        if pinned is None or pinned == gateway_key or self._accept_key:
            return
        raise PermissionDenied(
            f"{self._gateway} has the key {key_words(gateway_key)}, not {key_words(pinned)} as before: another "
            "program may stand in its place",
            hint="If its owner confirms the new key, connect once with --accept-key.",
        )

    # -- calls ----------------------------------------------------------------------------------------

    async def _serve(self, socket: Any) -> None:
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            async for text in socket:
                received = read_message(text)
                id = str(received.get("id"))
                if received["type"] == "call" and id not in tasks:
                    task = tasks[id] = asyncio.create_task(self._carry_out(socket, received, len(tasks)))
                    task.add_done_callback(lambda _, id=id: tasks.pop(id, None))
                elif received["type"] == "cancel" and id in tasks:
                    tasks[id].cancel()
        finally:
            # Nobody can be told what they would answer.
            running = list(tasks.values())
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _carry_out(self, socket: Any, call: Mapping[str, Any], others: int) -> None:
        id, name, values = str(call.get("id")), str(call.get("action")), call.get("values")
        try:
            if others >= _MOST_CALLS:
                raise Unavailable(f"{others} calls are going on here", hint="Try again later.")
            if name not in self._actions or not isinstance(values, dict):
                raise Unsupported(f"this node does not do {name[:60]!r}")
            done = await self._actions[name](cast("dict[str, Any]", values))
            answer = message("result", id=id, values=dict(done))
            if len(answer) > protocol.MAX_MESSAGE:
                raise Unavailable(f"the answer has {len(answer):,} bytes, more than {protocol.MAX_MESSAGE:,}")
        except ToolError as error:
            answer = message("error", id=id, code=error.code, message=error.message, hint=error.hint)
        except Exception as error:  # noqa: BLE001  Whatever fails here must be answered.
            failure = InternalError(f"{name} failed: {type(error).__name__}")
            self._notify(f"{failure.message}: {error}")
            answer = message("error", id=id, code=failure.code, message=failure.message, hint="")
        with suppress(OSError):
            await socket.send(answer)


def socket_url(gateway: str) -> str:
    """The address of the WebSocket of a gateway.

    Raises:
        ConfigError: it is no http(s) address, or plain http to another machine.
    """
    parts = urlsplit(gateway)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise ConfigError(f"--gateway {gateway!r} must be an address such as https://pegboard.example.com")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError(
            f"--gateway {gateway!r} is not encrypted; use https, or reach it through an SSH tunnel to 127.0.0.1"
        )
    scheme = "wss" if parts.scheme == "https" else "ws"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{protocol.PATH}"


async def _receive(socket: Any, *types: str) -> dict[str, Any]:
    """The next message, of one of these types.

    Raises:
        ToolError: it is another, or the gateway refuses.
    """
    received = read_message(await socket.recv())
    if received["type"] == "refused":
        raise ToolError(
            text_field(received, "message", most=2000), hint=text_field(received, "hint", most=2000),
            code=text_field(received, "code"),
        )  # fmt: skip
    if received["type"] not in types:
        raise Unavailable(
            f"the gateway sent {received['type']!r:.40} where {' or '.join(types)} was expected"
        )
    return received
