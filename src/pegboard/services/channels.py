"""Channels: connects the chat channels of the settings, and tells how they do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pegboard.config.channels import ChatAccess
from pegboard.core.call.call import new_id
from pegboard.core.errors import InvalidArguments, NotFound, ToolError
from pegboard.core.events import RunFinished
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.channel import Channel, ChatChannel, ChatMessage, Disconnected
from pegboard.ports.messages import Delivery, Destination, InboundMessage, OutboundMessage
from pegboard.ports.store import StoreError
from pegboard.services.chat_approvals import ChatApprovals
from pegboard.services.chat_drafts import ChatDrafts, Pause, pause
from pegboard.services.chat_files import ChatFiles
from pegboard.services.chats import Chats
from pegboard.services.history import History
from pegboard.services.outbox import StoredMessages
from pegboard.services.runtime import Runtime
from pegboard.store.channels import ChannelRows, ChannelState
from pegboard.store.leases import Leases, SessionBusy

RECONNECT_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds before the first new connection, the second and so on; each up to a half less, so that not all come at once."""
_STEADY_S: Final = 60.0
"""Seconds after which a connection counts as one that held."""
_BUSY_S: Final = 5.0
_CLEAN_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """A channel of this workspace.

    Attributes:
        name, kind: as the settings have them.
        chat: whether people write back on it.
        state: how a chat channel does; None = it never was connected.
        process: the process that receives on it now; empty = none does.
        paired: how many senders were let in.
    """

    name: str
    kind: str
    chat: bool
    state: ChannelState | None = None
    process: str = ""
    paired: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        state = self.state
        return {
            "name": self.name, "kind": self.kind, "chat": self.chat, "process": self.process, "paired": self.paired,
            "state": "" if state is None else state.state, "since": None if state is None else state.since,
            "error": "" if state is None else state.error, "last_message": None if state is None else state.last or None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatParts:
    """What stands behind Channels.

    Attributes:
        channels: the channels by name, and who may write on them.
        kinds: what each is, by name.
        messages: the outbox over the same channels.
        chats, approvals, drafts, files: what handles messages, questions, answers that are being written, and files.
    """

    channels: Mapping[str, tuple[Channel, ChatAccess]]
    kinds: Mapping[str, str]
    messages: StoredMessages
    chats: Chats
    approvals: ChatApprovals
    drafts: ChatDrafts
    files: ChatFiles


class Channels:
    """The channels of a workspace; a Duty of a worker, which receives on those that nobody else receives on.

    Attributes:
        on_received: is called after a message was handled and what it leads to was stored.

    Args:
        runtime: the workspace.
        history: its store keeps how far each has come.
        parts: what handles what comes.
        notify: is given each sentence that a person should know.
        gateway: whether this process serves a gateway, through which people reach some channels.
        clock: tells the time.
        pause: waits before a new connection.
        jitter: a number from 0 to 1, another each time.
    """

    def __init__(
        self,
        runtime: Runtime,
        history: History,
        parts: ChatParts,
        *,
        notify: Callable[[str], None],
        gateway: bool = False,
        clock: Clock | None = None,
        pause: Pause = pause,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._runtime = runtime
        self._history = history
        self.parts = parts
        self._notify = notify
        self.on_received: Callable[[], None] = lambda: None
        self._gateway = gateway
        self._clock = clock or SystemClock()
        self._pause = pause
        self._jitter = jitter
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closing = asyncio.Event()
        self._cleaned = float("-inf")
        self._told = ""

    @property
    def _rows(self) -> ChannelRows:
        return ChannelRows(self._history.store, clock=self._clock)

    @property
    def chat_channels(self) -> dict[str, ChatChannel]:
        """Those on which people write back, by name."""
        return {
            name: cast(ChatChannel, channel)
            for name, (channel, _) in self.parts.channels.items()
            if hasattr(channel, "receive") and getattr(channel, "receives", True)
        }

    # -- looking ------------------------------------------------------------------------------------

    async def list(self) -> Sequence[ChannelRow]:
        """The channels of the settings, and those that are always there."""
        from pegboard.services.pairing import Pairings

        states, chats = await self._rows.states(), self.chat_channels
        holders = await Leases(self._history.store).holders()
        pairings = await Pairings(lambda: self._history.store).list()
        rows: list[ChannelRow] = []
        for name, kind in self.parts.kinds.items():
            place = _lease(name)
            owner = next(
                (o for key, o in holders.items() if key == place or key.startswith(f"{place}:")), None
            )
            state = states.get(name)
            if state is not None and owner is None and state.state in ("connected", "waiting"):
                state = replace(state, state="stopped")
            rows.append(
                ChannelRow(
                    name=name, kind=kind, chat=name in chats, state=state, process="" if owner is None else str(owner),
                    paired=sum(p.kind == name for p in pairings),
                )
            )  # fmt: skip
        return rows

    async def get(self, name: str) -> ChannelRow:
        """A channel by its name.

        Raises:
            NotFound: there is none; the hint names those there are.
        """
        for row in await self.list():
            if row.name == name:
                return row
        raise NotFound(f"no channel {name!r:.80}", hint=f"The channels are: {', '.join(self.parts.kinds)}.")

    async def test(self, name: str, *, chat: str = "", text: str = "") -> tuple[str, Delivery | None]:
        """Ask the platform who we are there, and send a message to a chat if one is named.

        Args:
            name: the channel's.
            chat: where a message is sent to; empty = none is sent.
            text: what.

        Raises:
            NotFound: there is no such channel.
            InvalidArguments: nothing can be asked there, so name a chat.
            Disconnected, ToolError, OSError: the platform refuses us, or cannot be reached.
        """
        await self.get(name)
        found = self.chat_channels.get(name)
        if found is None and not chat:
            raise InvalidArguments(
                f"the channel {name} has nobody to ask", hint="Name a chat to send a message to."
            )
        who = "" if found is None else await found.identity()
        if not chat:
            return who, None
        to = Destination(channel=name, chat_id=chat)
        return who, await self.parts.messages.send(OutboundMessage(to=to, id=new_id("test"), content=text))

    # -- Duty and OnAnswer --------------------------------------------------------------------------

    async def tick(self) -> None:
        """See Duty."""
        for name, channel in self.chat_channels.items():
            here = self._gateway or not getattr(channel, "at_gateway", False)
            if here and name not in self._tasks and not self._closing.is_set():
                self._tasks[name] = asyncio.create_task(self._keep_receiving(name, channel))
        try:
            await self.parts.approvals.ask(str(self._runtime.workspace))
            if self._clock.monotonic() - self._cleaned >= _CLEAN_S:
                self._cleaned = self._clock.monotonic()
                await self._rows.drop_old()
        except StoreError as error:
            self._tell(f"the channels wait: {error}")

    async def close(self) -> None:
        """See Duty."""
        self._closing.set()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.parts.drafts.close()

    async def answer(self, message: InboundMessage, finished: RunFinished) -> None:
        """Send the answer of a run where its message came from, with the files that it names; see OnAnswer."""
        to = message.reply
        if to is None:
            return
        draft = await self.parts.drafts.end(message.session)
        if finished.status == "cancelled":
            # Whoever stopped it knows.
            if draft:
                await self.parts.drafts.delete(to, draft)
            return
        replaced = await self.parts.messages.reply(message, finished, draft=draft)
        if draft and not replaced:
            await self.parts.drafts.delete(to, draft)

    # -- receiving ----------------------------------------------------------------------------------

    async def _keep_receiving(self, name: str, channel: ChatChannel) -> None:
        """Receive until cancelled, while no other process does; connect again when a connection ends."""
        failures, ever = 0, False
        while True:
            try:
                # Each gateway has the people who connect to it.
                each = f":{new_id('gateway')}" if getattr(channel, "at_gateway", False) else ""
                lease = await Leases(self._history.store).acquire(f"{_lease(name)}{each}")
            except SessionBusy:
                await self._pause(self._closing, _BUSY_S)
                continue
            began = self._clock.monotonic()
            receiver = _Receiver(self, name, channel, await self._rows.cursor(name))
            error: Exception | None = None
            try:
                await channel.receive(receiver)
            except (ToolError, OSError, StoreError) as caught:
                error = caught
            except Exception as caught:  # noqa: BLE001  A channel's boundary: one must not end the others.
                error = Disconnected(f"{type(caught).__name__}: {caught}")
            finally:
                if error is None:
                    with suppress(StoreError):
                        await self._rows.note(name, "stopped")
                await lease.release(last=True)
            held = receiver.connected and self._clock.monotonic() - began >= _STEADY_S
            failures, ever = 0 if held else failures + 1, ever or receiver.connected
            if not await self._again(name, error, failures, tell=failures == (3 if ever else 1)):
                return

    async def _again(self, name: str, error: Exception | None, failures: int, *, tell: bool) -> bool:
        """Note why a connection ended and wait; False where it would end again."""
        said = self._runtime.redactor.redact(str(error or "the connection ended"))[0]
        final = isinstance(error, Disconnected) and not error.retryable
        with suppress(StoreError):
            await self._rows.note(name, "failed" if final else "waiting", said)
        if final:
            self._tell(f"channel {name} receives nothing until it is restarted: {said}")
            return False
        if tell:
            self._tell(f"channel {name} cannot connect: {said}")
        wait_s = RECONNECT_S[min(max(failures, 1), len(RECONNECT_S)) - 1] * (1 - self._jitter() / 2)
        asked = error.details.get("retry_after_s", 0) if isinstance(error, ToolError) else 0
        await self._pause(self._closing, max(wait_s, float(asked or 0)))
        return not self._closing.is_set()

    async def received(self, name: str, channel: ChatChannel, message: ChatMessage, cursor: str) -> None:
        """Handle a message, unless it was handled before."""
        rows = self._rows
        if await rows.seen(name, message.id) is not None:
            if cursor:
                await rows.save_cursor(name, cursor)
            return
        await rows.note_message(name)
        puts = await self.parts.chats.take(channel, self.parts.channels[name][1], message)
        await rows.take(name, message.id, message.sender_id, cursor, puts)
        self.on_received()

    async def save_cursor(self, name: str, cursor: str) -> None:
        """Keep where a channel goes on."""
        await self._rows.save_cursor(name, cursor)

    async def connected(self, name: str) -> None:
        """Note that a channel receives."""
        with suppress(StoreError):
            await self._rows.note(name, "connected")

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._notify(text)


class _Receiver:
    """See Receiver."""

    def __init__(self, channels: Channels, name: str, channel: ChatChannel, cursor: str) -> None:
        self._channels = channels
        self._name = name
        self._channel = channel
        self.cursor = cursor
        self.connected = False
        self._noting: asyncio.Task[None] | None = None

    def on_connect(self) -> None:
        self.connected = True
        self._noting = asyncio.ensure_future(self._channels.connected(self._name))

    async def deliver(self, message: ChatMessage, *, cursor: str = "") -> None:
        await self._channels.received(self._name, self._channel, message, cursor)
        self.cursor = cursor or self.cursor

    async def save(self, cursor: str) -> None:
        await self._channels.save_cursor(self._name, cursor)
        self.cursor = cursor


def _lease(name: str) -> str:
    return f"channel:{name}"
