"""Channel: a way to people, such as a webhook, a file or a messenger; ChatChannel: one on which people write back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from pegboard.core.errors import ToolError
from pegboard.ports.messages import OutboundMessage


class NotDelivered(ToolError):
    """The channel did not take the message; `retryable` says whether it may later.

    `details["retry_after_s"]` are the seconds that the other side asks to wait.
    """

    default_code = "not_delivered"
    default_retryable = True


class Disconnected(ToolError):
    """A chat channel receives nothing any more; `retryable` says whether connecting again may help.

    `details["retry_after_s"]` are the seconds that the other side asks to wait.
    """

    default_code = "disconnected"
    default_retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a channel can do.

    Attributes:
        max_chars: length of the longest text, as `length` counts; 0 = no limit.
        length: length of a text as the channel counts it, such as in UTF-16 units or with what is escaped. The length
            of two texts is that of both together.
        media, buttons, silent: whether messages may have them; `silent` is left out where not.
        edit, delete, react, poll: which actions it has beside `send`.
        idempotent: a message that it is given twice under one key arrives once.
        max_caption: length of the longest text that goes with media, as `length` counts; a longer one follows the
            media as a message of its own. 0 = no limit.
        max_value: bytes of the longest value of a button; 0 = no limit.
        edit_every_s: seconds between two edits of one message, where an answer is shown while it is written; 0 = it is
            sent whole.
    """

    max_chars: int = 0
    length: Callable[[str], int] = len
    media: bool = False
    buttons: bool = False
    silent: bool = False
    edit: bool = False
    delete: bool = False
    react: bool = False
    poll: bool = False
    idempotent: bool = False
    max_caption: int = 0
    max_value: int = 0
    edit_every_s: float = 0.0


class Channel(Protocol):
    """One configured channel."""

    @property
    def name(self) -> str:
        """Its name, as messages and settings have it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def check(self, message: OutboundMessage) -> None:
        """Look at a message before it is kept.

        Raises:
            InvalidArguments: its destination is none of this channel.
        """
        ...

    async def send(self, message: OutboundMessage, key: str) -> str:
        """Hand over a message that fits `capabilities`; its id there.

        Args:
            message: with the bytes of its media.
            key: names this delivery; a retry has the same.

        Raises:
            NotDelivered: it was certainly not taken.
            ToolError, OSError: anything else; then nobody knows whether it was.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFile:
    """A file that came with a message; `ChatChannel.download` gives its bytes.

    Attributes:
        id: what the channel finds it by.
        name: its file name as the sender has it; empty = it has none.
        media_type: such as `image/png`; empty = unknown.
        size: bytes; 0 = unknown.
    """

    id: str
    name: str = ""
    media_type: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """What somebody wrote, sent or pressed in a chat.

    Attributes:
        id: names it on the channel; one that is handed over again has the same.
        chat_id: where it was written; an answer goes there.
        sender_id: who wrote it, as the platform tells and nobody else can claim.
        content: its text, without the mention of us.
        kind: `user` for a chat with one person, else `group`.
        thread_id: the thread in the chat; empty = none.
        message_id: what an answer or a reaction names it by; empty = it cannot be named.
        sender_name: what the platform shows for the sender, for people to read; anybody can choose it.
        files: what came with it.
        pressed: value of the button that was pressed; empty = none was.
        mentioned: whether a message in a group is meant for us: it names us, or answers a message of ours.
        at: when it was written, seconds since the epoch; 0 = unknown.
        role: what the sender may do where the channel proves that: `owner`, `operator` or `user`; empty = the settings
            and pairings say it.
    """

    id: str
    chat_id: str
    sender_id: str
    content: str = ""
    kind: Literal["user", "group"] = "user"
    thread_id: str = ""
    message_id: str = ""
    sender_name: str = ""
    files: tuple[ChatFile, ...] = ()
    pressed: str = ""
    mentioned: bool = False
    at: float = 0.0
    role: str = ""


class Receiver(Protocol):
    """Takes what a chat channel receives."""

    @property
    def cursor(self) -> str:
        """Where the channel goes on after it was connected before; empty at first."""
        ...

    def on_connect(self) -> None:
        """The channel is connected, and hands over what comes."""
        ...

    async def deliver(self, message: ChatMessage, *, cursor: str = "") -> None:
        """Keep a message; when this returns, it is stored. One that is delivered again is dropped.

        Args:
            message: what came.
            cursor: where the channel goes on after it; empty = where it would without it.

        Raises:
            StoreError: it cannot be kept. The channel must not acknowledge it then.
        """
        ...

    async def save(self, cursor: str) -> None:
        """Keep where the channel goes on, where that changed without a message.

        Raises:
            StoreError: it cannot be kept.
        """
        ...


class ChatChannel(Channel, Protocol):
    """A channel on which people write back. It connects when it receives, and one process does.

    One with `at_gateway = True` is reached through the gateway: each process that serves one receives. One with a
    property `delivers_here` sends in those processes only in which that is true.
    """

    async def receive(self, receiver: Receiver) -> None:
        """Connect, and hand over what comes, until cancelled or the connection ends; then it is called again, later
        and later.

        Raises:
            Disconnected, OSError: the connection ended, or there was none.
        """
        ...

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        """The bytes of a file that came with a message.

        Raises:
            TooLarge: it is over `max_bytes`.
            ToolError, OSError: it cannot be had.
        """
        ...

    async def identity(self) -> str:
        """Who we are there, such as `@pegboard_bot`; asks the platform, so that a wrong token shows.

        Raises:
            Disconnected, OSError: it cannot be asked, or refuses the token.
        """
        ...


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text) + sum(1 for c in text if c > "\uffff")
