"""Messages: what comes in for a session, and what goes out to people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a message goes.

    Attributes:
        channel: the channel's name, such as `telegram` or `webhook`.
        chat_id: the chat or address there.
        account_id: which of our accounts sends it; empty = the channel's default.
        thread_id: the thread in the chat; empty = none.
    """

    channel: str
    chat_id: str = ""
    account_id: str = ""
    thread_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """A message for a session, kept until a run has read it.

    Attributes:
        session: the session's key.
        content: its text.
        id: names it; a second message of the same id for that session is the same one.
        by: who wrote it: `user` only for a person that types to us; else `subagent`, `schedule`, `session`, `webhook`
            and the like. Addresses in what others wrote are not endorsed.
        channel, chat_id, sender_id: where it came from.
        at: seconds since the epoch.
        labels: taint labels of its content.
        wake: start a run for it; False = it waits until something else does.
        reply: where the answer of a run that it starts goes; None = it stays in the session.
        media: paths or `artifact:` references of what came with it.
        workspace: the folder that a run on it works in; empty = the worker's own.
        metadata: what the sender wants back, JSON values.
        wants_answer: it is kept until the run that reads it has ended, and its answer was handed on.
    """

    session: str
    content: str
    id: str
    by: str = "user"
    channel: str = ""
    chat_id: str = ""
    sender_id: str = ""
    at: float = 0.0
    labels: tuple[str, ...] = ()
    wake: bool = True
    reply: Destination | None = None
    media: tuple[str, ...] = ()
    workspace: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wants_answer: bool = False


def sender_of(origin: Mapping[str, str]) -> dict[str, str]:
    """Channel and sender of a call's origin: whom a job or a subagent that it starts works for."""
    return {key: origin[key] for key in ("channel", "sender") if key in origin}


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A button under a message. `value`: what pressing it sends back; empty = its text."""

    text: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that goes with a message.

    Attributes:
        name: its file name.
        media_type: such as `image/png`.
        data: its bytes; empty where only its size is known.
        size: bytes.
        path: where it was read, a path in the workspace or `artifact:ID`; empty = nowhere.
    """

    name: str
    media_type: str
    data: bytes = field(default=b"", repr=False)
    size: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    """A message to people.

    Attributes:
        to: where it goes.
        id: names it; sent twice under one id, it arrives once.
        action: `send`, `edit`, `delete`, `react` or `poll`.
        content: its text; for `react` the emoji, for `poll` the question.
        media: at most 10 files, 20 MB in all.
        caption: the text under the media.
        reply_to: id of the message in the chat that it answers.
        target_id: id of the message in the chat that is edited, deleted or reacted to; of a `send`, of the one that it
            replaces.
        silent: without a notification.
        buttons: at most 8.
        options: of a poll, 2 to 10.
        labels: taint labels of the session that sends it.
        workspace: the folder that the session works in; empty = none.
    """

    to: Destination
    id: str
    action: str = "send"
    content: str = ""
    media: tuple[Attachment, ...] = ()
    caption: str = ""
    reply_to: str = ""
    target_id: str = ""
    silent: bool = False
    buttons: tuple[Button, ...] = ()
    options: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    workspace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of a message that was handed over.

    Attributes:
        id: the message's.
        status: `waiting`, `sending`, `sent`, or `dead` after the last attempt.
        to: where it goes.
        parts: into how many parts it was split.
        sent: ids of the parts that arrived, as the channel names them.
        error: why the last attempt failed; empty = it did not.
    """

    id: str
    status: str
    to: Destination
    parts: int = 1
    sent: tuple[str, ...] = ()
    error: str = ""


class Messages(Protocol):
    """Takes messages to people; each is kept before it is sent."""

    async def send(self, message: OutboundMessage) -> Delivery:
        """Keep a message and deliver it soon, once. What it holds of secrets is taken out.

        Raises:
            NotFound: there is no channel of that name; the hint names those there are.
            InvalidArguments: the channel cannot do what the message asks for.
        """
        ...

    def default(self) -> Destination | None:
        """Where the message came from that started this run; None if it did not come from a channel."""
        ...

    def channels(self) -> Sequence[str]:
        """The names of the channels; none = any name is taken."""
        ...
