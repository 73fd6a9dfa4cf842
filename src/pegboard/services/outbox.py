"""Outbox: messages to people, kept, delivered and looked at; the Messages port and `pegboard outbox` are this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol

from pegboard.bus.media_lines import take_media_lines
from pegboard.bus.split import split
from pegboard.core.context import current_context
from pegboard.core.errors import Conflict, InvalidArguments, NotFound, NotUnique, TooLarge, ToolError
from pegboard.core.events import RunFinished
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.channel import Channel, NotDelivered
from pegboard.ports.messages import Attachment, Delivery, Destination, InboundMessage, OutboundMessage
from pegboard.ports.store import Store, StoreError
from pegboard.services.principals import check_recipient
from pegboard.store.leases import Lease, Leases, SessionBusy
from pegboard.store.outbox import Outbox, OutboxItem, StoredItem, chat_of

RETRY_S: Final = (5.0, 15.0, 60.0, 240.0, 600.0, 900.0, 1700.0)
"""Seconds before the second attempt, the third and so on: eight within an hour."""
_SEND_S: Final = 60.0
"""Seconds that a channel may take for a part."""
_WAIT_S: Final = 10.0
"""Seconds that a caller waits for a delivery; it goes on after them."""
_TICK_S: Final = 1.0
_AT_ONCE: Final = 8
"""Chats that one process delivers to at once."""
_CLEAN_S: Final = 600.0
_MOST: Final = 1000
"""Parts that are delivered to a chat before others have their turn."""
MEDIA: Final = 10
MEDIA_BYTES: Final = 20 << 20
_BUTTONS: Final = 8


class AnswerFiles(Protocol):
    """Reads the files that an answer names, as far as its session may send them."""

    async def __call__(
        self, message: InboundMessage, labels: Sequence[str], paths: Sequence[str]
    ) -> tuple[Sequence[Attachment], Sequence[str]]:
        """The files, and why others are not sent, a sentence each.

        Args:
            message: what was answered; its `reply` says where the answer goes.
            labels: taint labels of what the session has read.
            paths: in the workspace, or `artifact:ID`.
        """
        ...


class StoredMessages:
    """The outbox of a store, and what delivers from it.

    A message is kept first and delivered then, by whoever holds the lease of its chat: the process that keeps it, or a
    worker. If a process is killed while it hands a part over, nobody knows whether that arrived: it is sent again where
    the channel knows it by its key, else it is given up for a person to see.

    Args:
        store: opens it.
        channels: the channels by name.
        redact: takes secrets out of a text; the text, and whether there were any.
        workspace: the folder that the sending sessions work in; empty = none.
        notify: is given each sentence that a person should know.
        answer_files: reads the files that answers name; None = they are named only.
        clock: tells the time.
    """

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        *,
        channels: Mapping[str, Channel],
        redact: Callable[[str], tuple[str, bool]],
        workspace: str = "",
        notify: Callable[[str], None] = lambda text: None,
        answer_files: AnswerFiles | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._channels = channels
        self._redact = redact
        self._workspace = workspace
        self._notify = notify
        self._answer_files = answer_files
        self._clock = clock or SystemClock()
        self._delivering: dict[str, asyncio.Task[None]] = {}
        self._cleaned = float("-inf")

    # -- the Messages port ----------------------------------------------------------------------

    async def send(self, message: OutboundMessage) -> Delivery:
        """See the port."""
        store = await self._store()
        channel = self._channel(message.to.channel)
        session, run, labels = _caller()
        await check_recipient(session, message.to, store)
        message = self._clean(replace(message, labels=labels, workspace=self._workspace))
        check(channel, message)
        outbox = Outbox(store, clock=self._clock)
        # A model that was not told that its message is on its way sends it again.
        same = (
            [i for i in await outbox.of_run(run) if i.status != "sent" and _same(i.message, message)]
            if run
            else []
        )
        item = (
            same[0]
            if same
            else await outbox.add(message, self._parts(channel, message), session=session, run=run)
        )
        await self._deliver_soon(chat_of(item.message.to), item.id)
        with suppress(NotFound):
            item = (await outbox.get(item.id)).item
        return Delivery(
            id=item.id, status=item.status, to=item.message.to, parts=item.count, sent=item.sent, error=item.error
        )  # fmt: skip

    def default(self) -> Destination | None:
        """See the port."""
        try:
            origin = current_context().origin
        except LookupError:
            return None
        found = {k: origin.get(k, "") for k in ("channel", "chat_id", "account_id", "thread_id")}
        # A client of the gateway or of our MCP server has no chat.
        return Destination(**found) if found["channel"] and found["chat_id"] else None

    def channels(self) -> Sequence[str]:
        """See the port."""
        return sorted(self._channels)

    @property
    def by_name(self) -> Mapping[str, Channel]:
        """The channels by name."""
        return self._channels

    # -- answers of runs ------------------------------------------------------------------------

    async def reply(
        self,
        message: InboundMessage,
        finished: RunFinished,
        *,
        draft: str = "",
    ) -> bool:
        """Send the answer of a run where its message wants it; see OnAnswer. True if it replaces the draft.

        Nothing is sent if the run has sent that very text there itself. A line `MEDIA:PATH` becomes a file that goes
        with it. An answer to another session starts no run there, and carries the labels of what this session has read.

        Args:
            message, finished: see OnAnswer.
            draft: id of the message in the chat that the answer replaces, unless files go with it; empty = none.
        """
        to, text = message.reply, finished.answer.strip()
        if not text and finished.status != "done":
            text = (
                f"The run failed: {finished.error}"
                if finished.error
                else f"The run ended: {finished.status}."
            )
        if to is None or not text:
            return False
        store = await self._store()
        channel = self._channels.get(to.channel)
        text, paths = take_media_lines(text)
        labels, inside = message.labels, to.channel == "session"
        if inside or paths:
            # Not at the top: a single call that sends a message loads no part of an agent.
            from pegboard.runtime.fold import fold
            from pegboard.store.log import history

            labels = tuple(sorted({*labels, *fold(await history(store, message.session)).labels}))
        media: Sequence[Attachment] = ()
        if paths and channel is not None and channel.capabilities.media and self._answer_files is not None:
            media, refused = await self._answer_files(message, labels, paths)
            text = "\n".join((text, *refused)).strip()
        elif paths:
            text = f"{text}\n(files: {', '.join(paths)})".strip()
        answer = self._clean(
            OutboundMessage(
                to=to, id=f"reply:{message.session}:{message.id}", content=text, media=tuple(media), labels=labels,
                silent=inside, workspace=message.workspace,
                reply_to="" if draft else str(message.metadata.get("reply_to", "")),
            )
        )  # fmt: skip
        sent = await Outbox(store, clock=self._clock).of_run(finished.run)
        if any(i.status != "dead" and _same(i.message, answer) for i in sent):
            return False
        # A message cannot become one with files.
        replaced = "" if media else draft
        await self.queue(replace(answer, target_id=replaced), session=message.session, run=finished.run)
        return bool(replaced)

    async def queue(self, message: OutboundMessage, *, session: str = "", run: str = "") -> None:
        """Keep a message, without its secrets, for whoever delivers next; one of its id that was kept is the same.

        Args:
            message: a `send` with a `target_id` replaces that message of ours by its first part.
            session, run: who sends it.
        """
        message = self._clean(message)
        channel = self._channels.get(message.to.channel)
        # Where the settings have lost the channel, it is kept all the same, for a person to see.
        parts = (message.content,) if channel is None else self._parts(channel, message)
        await (await self._outbox()).add(message, parts, session=session, run=run)

    # -- what people do -------------------------------------------------------------------------

    async def list(self, *, status: str = "", limit: int | None = None) -> Sequence[OutboxItem]:
        """The messages, newest first."""
        return await (await self._outbox()).list(status=status, limit=limit)

    async def shown_in(self, session: str) -> Sequence[OutboxItem]:
        """The messages that the console shows in a session, oldest first; see ConsoleChannel."""
        to = Destination(channel="console", chat_id=session)
        items = await (await self._outbox()).list(status="sent")
        return [item for item in reversed(items) if item.message.to == to]

    async def get(self, id: str) -> OutboxItem:
        """A message by its id, or by the beginning of one that no other has.

        Raises:
            NotFound: there is none.
            NotUnique: several begin so.
        """
        return (await self._find(id)).item

    async def retry(self, id: str) -> OutboxItem:
        """Try a message again now, with its attempts counted anew.

        Raises:
            NotFound, NotUnique: see `get`.
            InvalidArguments: it was sent, or is being sent.
        """
        outbox = await self._outbox()
        found = await self._find(id)
        id = found.item.id
        if found.item.status not in ("waiting", "dead"):
            raise InvalidArguments(
                f"the message {id} is {found.item.status}: only one that waits or is dead is retried"
            )
        now = self._clock.now()
        changed = await outbox.change(found, status="waiting", attempts=0, next_at=now, ended_at=0.0)
        await self._deliver_soon(chat_of(changed.item.message.to), id)
        return (await outbox.get(id)).item

    async def drop(self, id: str) -> OutboxItem:
        """Forget a message, whatever its status; what it was.

        Raises:
            NotFound, NotUnique: see `get`.
        """
        return await (await self._outbox()).drop((await self._find(id)).item.id)

    async def _find(self, id: str) -> StoredItem:
        outbox = await self._outbox()
        with suppress(NotFound):
            return await outbox.get(id)
        begin: Sequence[str] = await outbox.beginning(id) if id else ()
        if len(begin) > 1:
            raise NotUnique(
                f"several messages have an id that begins with {id!r:.80}", hint="Give more of it."
            )
        return await outbox.get(begin[0] if begin else id)

    # -- delivering -----------------------------------------------------------------------------

    async def deliver(self, chat: str) -> None:
        """Deliver what is due in a chat, in order, unless another process does.

        Raises:
            StoreError: the store cannot be written.
        """
        store = await self._store()
        outbox = Outbox(store, clock=self._clock)
        try:
            lease = await Leases(store, clock=self._clock).acquire(f"outbox:{chat}")
        except SessionBusy:
            return
        try:
            with suppress(Conflict):  # A person has dropped or retried it meanwhile.
                for _ in range(_MOST):
                    found = await outbox.first(chat)
                    if found is None or not await self._attempt(outbox, found, lease):
                        return
        finally:
            await lease.release(last=True)

    async def deliver_due(self) -> None:
        """Begin with what is due, and see to what has ended; takes at most a second.

        Raises:
            StoreError: the store cannot be read.
        """
        outbox = await self._outbox()
        for chat in await outbox.due():
            if len(self._delivering) >= _AT_ONCE:
                break
            self._begin(chat)
        if self._delivering:
            await asyncio.wait(self._delivering.values(), timeout=_TICK_S)
        self._see_to_ended()
        if self._clock.monotonic() - self._cleaned >= _CLEAN_S:
            self._cleaned = self._clock.monotonic()
            await outbox.drop_old()

    async def aclose(self) -> None:
        """Wait a little for what is being delivered, then give it up."""
        if self._delivering:
            await asyncio.wait(self._delivering.values(), timeout=_WAIT_S)
        tasks = [*self._delivering.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._delivering.clear()

    def _begin(self, chat: str) -> asyncio.Task[None]:
        task = self._delivering.get(chat)
        if task is None or task.done():
            task = self._delivering[chat] = asyncio.create_task(self.deliver(chat))
        return task

    async def _deliver_soon(self, chat: str, id: str) -> None:
        """Deliver to a chat until a message of it was tried; at most for a while."""
        outbox = await self._outbox()
        end = self._clock.monotonic() + _WAIT_S
        # A delivery that was under way may have ended without having seen it.
        for _ in range(2):
            await asyncio.wait({self._begin(chat)}, timeout=max(0.0, end - self._clock.monotonic()))
            with suppress(NotFound):
                if (await outbox.get(id)).item.attempts:
                    break
        self._see_to_ended()

    def _see_to_ended(self) -> None:
        for chat in [chat for chat, task in self._delivering.items() if task.done()]:
            try:
                self._delivering.pop(chat).result()
            except (StoreError, asyncio.CancelledError) as error:
                self._notify(f"messages wait: {error}")

    async def _attempt(self, outbox: Outbox, found: StoredItem, lease: Lease) -> bool:
        """Try the next part of the first message of a chat; whether the chat goes on."""
        item, now = found.item, self._clock.now()
        channel = self._channels.get(item.message.to.channel)
        if channel is not None and not getattr(channel, "delivers_here", True):
            return False  # Another process has the people of this channel.
        # Whoever changes or deletes a message twice does it once.
        knows_keys = channel is not None and (
            channel.capabilities.idempotent or _replaces(item) or item.message.action in ("edit", "delete")
        )
        if item.status == "sending" and not knows_keys:
            # Whoever sent it held the lease that we hold now.
            await self._give_up(
                outbox,
                found,
                f"{_part(item)}it is unknown whether it arrived: the process that sent it ended",
            )
            return True
        if item.status == "waiting" and item.attempts and item.next_at > now:
            await outbox.postpone(chat_of(item.message.to), item.next_at)
            return False
        sending = await outbox.change(found, status="sending", attempts=item.attempts + 1)
        if lease.lost:
            return False
        replaces = _replaces(item)
        try:
            if channel is None:
                raise NotDelivered(f"no channel {item.message.to.channel!r} in these settings")
            message, key = _next_part(await outbox.whole(item), item)
            async with asyncio.timeout(_SEND_S):
                id = await channel.send(message, key)
        except NotDelivered as error:
            if replaces and not error.retryable:
                # The draft is gone: the answer stands on its own.
                bare = replace(item.message, target_id="")
                await outbox.change(sending, status="waiting", attempts=0, message=bare, next_at=item.next_at)
                return True
            return await self._failed(
                outbox, sending, str(error), again=error.retryable, after_s=_asked_wait(error)
            )
        except (ToolError, OSError) as error:
            said = str(error) or type(error).__name__
            if not knows_keys:
                said = f"it is unknown whether it arrived: {said}"
            return await self._failed(outbox, sending, said, again=knows_keys, after_s=0.0)
        sent = (*item.sent, id)
        over = len(sent) == item.count
        await outbox.change(
            sending, status="sent" if over else "waiting", sent=sent, attempts=1 if over else 0, error="",
            next_at=self._clock.now(),
        )  # fmt: skip
        return True

    async def _failed(
        self, outbox: Outbox, sending: StoredItem, error: str, *, again: bool, after_s: float
    ) -> bool:
        item = sending.item
        error = f"{_part(item)}{self._redact(error)[0]}"
        if not again or item.attempts > len(RETRY_S):
            tried = f" (attempt {item.attempts})" if item.attempts > 1 else ""
            await self._give_up(outbox, sending, f"{error}{tried}")
            return True
        next_at = self._clock.now() + max(RETRY_S[item.attempts - 1], min(after_s, RETRY_S[-1]))
        await outbox.change(sending, status="waiting", next_at=next_at, error=error)
        await outbox.postpone(chat_of(item.message.to), next_at)
        return False

    async def _give_up(self, outbox: Outbox, found: StoredItem, error: str) -> None:
        await outbox.change(found, status="dead", error=error)
        where = destination_text(found.item.message.to)
        self._notify(
            f"the message {found.item.id} to {where} was not delivered: {error}; see: pegboard outbox"
        )

    # -- parts ----------------------------------------------------------------------------------

    async def _outbox(self) -> Outbox:
        return Outbox(await self._store(), clock=self._clock)

    def _channel(self, name: str) -> Channel:
        found = self._channels.get(name)
        if found is None:
            raise NotFound(
                f"no channel {name!r:.80}",
                hint=f"The channels are: {', '.join(sorted(self._channels))}.",
            )
        return found

    def _clean(self, message: OutboundMessage) -> OutboundMessage:
        """The message without secrets."""
        content, caption = self._redact(message.content)[0], self._redact(message.caption)[0]
        buttons = tuple(
            replace(b, text=self._redact(b.text)[0], value=self._redact(b.value)[0]) for b in message.buttons
        )
        options = tuple(self._redact(o)[0] for o in message.options)
        return replace(message, content=content, caption=caption, buttons=buttons, options=options)

    def _parts(self, channel: Channel, message: OutboundMessage) -> tuple[str, ...]:
        can = channel.capabilities
        if message.action != "send":
            return (message.content,) if message.content else ()
        parts = tuple(split(message.content, can.max_chars, length=can.length))
        long = can.max_caption and can.length(message.content) > can.max_caption
        # Text that does not go under the files follows them; so do buttons, which an album cannot have.
        apart = long or (message.caption and parts) or (message.buttons and len(message.media) > 1)
        return ("", *parts) if message.media and can.max_caption and apart else parts


class OutboxDuty:
    """What a worker does for messages: each tick delivers what is due.

    Args:
        messages: the outbox.
        notify: is given each sentence that a person should know.
    """

    def __init__(self, messages: StoredMessages, *, notify: Callable[[str], None]) -> None:
        self._messages = messages
        self._notify = notify

    async def tick(self) -> None:
        """See Duty."""
        try:
            await self._messages.deliver_due()
        except StoreError as error:
            self._notify(f"messages wait: {error}")

    async def close(self) -> None:
        """See Duty."""
        await self._messages.aclose()


def check(channel: Channel, message: OutboundMessage) -> None:
    """Look whether a channel can do what a message asks for.

    Raises:
        InvalidArguments: it cannot, or the message says nothing.
        TooLarge: it has too many media, or they are too large.
    """
    can, action = channel.capabilities, message.action
    lacks = [
        what
        for what, asked, able in (
            (action, action != "send", getattr(can, action, False)),
            ("media", bool(message.media), can.media),
            ("buttons", bool(message.buttons), can.buttons),
        )
        if asked and not able
    ]
    if lacks:
        raise InvalidArguments(
            f"the channel {channel.name} has no {' and no '.join(lacks)}", hint="Send plain text instead."
        )
    if action in ("edit", "delete", "react") and not message.target_id:
        raise InvalidArguments(
            f"{action} needs the id of the message that it is about", hint="Give message_id."
        )
    if action == "poll" and not 2 <= len(message.options) <= 10:
        raise InvalidArguments(f"a poll needs 2 to 10 options, not {len(message.options)}")
    if action != "delete" and not message.content.strip() and not (action == "send" and message.media):
        raise InvalidArguments("the message is empty", hint="Give content, or media.")
    long = [b for b in message.buttons if can.max_value and len((b.value or b.text).encode()) > can.max_value]
    if long:
        raise InvalidArguments(
            f"the button {long[0].text[:40]!r} has a value of over the {can.max_value} bytes of {channel.name}",
            hint="Give it a shorter value.",
        )
    if len(message.buttons) > _BUTTONS:
        raise InvalidArguments(f"a message has at most {_BUTTONS} buttons, not {len(message.buttons)}")
    one_part = message.content if action != "send" else message.caption
    most = can.max_chars if action != "send" else can.max_caption or can.max_chars
    if most and can.length(one_part) > most:
        raise TooLarge(
            f"{'caption' if action == 'send' else 'content'} is over the {most} characters of a message in {channel.name}"
        )
    size = sum(len(file.data) for file in message.media)
    if len(message.media) > MEDIA or size > MEDIA_BYTES:
        raise TooLarge(
            f"a message takes {MEDIA} files and {MEDIA_BYTES >> 20} MB, not {len(message.media)} and {size} bytes"
        )
    channel.check(message)


def destination_text(to: Destination) -> str:
    """`CHANNEL:CHAT`, or the channel alone."""
    return f"{to.channel}:{to.chat_id}" if to.chat_id else to.channel


def describe(item: OutboxItem) -> dict[str, Any]:
    """A message as JSON values."""
    message = item.message
    return {
        "id": item.id, "status": item.status, "to": destination_text(message.to), "action": message.action,
        "content": message.content, "media": [file.name for file in message.media], "parts": item.count,
        "sent": list(item.sent), "attempts": item.attempts, "next_at": item.next_at if not item.ended_at else None,
        "created_at": item.created_at, "ended_at": item.ended_at or None, "error": item.error,
        "session": item.session, "run": item.run,
    }  # fmt: skip


def _caller() -> tuple[str, str, tuple[str, ...]]:
    """Session, run and labels of the running call; empty outside one."""
    try:
        context = current_context()
    except LookupError:
        return "", "", ()
    return context.session, context.run, tuple(sorted(context.labels))


def _same(one: OutboundMessage, other: OutboundMessage) -> bool:
    """Whether a reader could not tell them apart."""

    def shown(message: OutboundMessage) -> tuple[object, ...]:
        files = [(f.name, f.size or len(f.data)) for f in message.media]
        return (
            message.to, message.action, message.content.strip(), files, message.caption, message.target_id,
            message.buttons, message.options,
        )  # fmt: skip

    return shown(one) == shown(other)


def _part(item: OutboxItem) -> str:
    """Which part is meant, empty for a message of one."""
    return f"part {len(item.sent) + 1} of {item.count}: " if item.count > 1 else ""


def _next_part(message: OutboundMessage, item: OutboxItem) -> tuple[OutboundMessage, str]:
    """The next part of a message, and its key. Media stand with the first one, buttons with the last."""
    number, last = len(item.sent), len(item.sent) + 1 == item.count
    text = item.parts[number] if item.parts else ""
    part = replace(message, content=text, buttons=message.buttons if last else ())
    if number:
        part = replace(part, media=(), caption="", reply_to="", target_id="")
    elif _replaces(item):
        part = replace(part, action="edit")
    return part, item.id if item.count == 1 else f"{item.id}:{number + 1}"


def _replaces(item: OutboxItem) -> bool:
    """Whether the next part replaces a message that stands in the chat."""
    return item.message.action == "send" and bool(item.message.target_id) and not item.sent


def _asked_wait(error: ToolError) -> float:
    """Seconds that the other side asks to wait."""
    asked = error.details.get("retry_after_s", 0)
    return float(asked) if isinstance(asked, int | float) else 0.0
