"""set_context and start_turn: 000's per-message state, kept in a context variable.

In the document this state lives on tools that all chats share, so two concurrent chats mix. Here each task has
its own.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from pegboard.core.context import current_context


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the message came from that is being answered.

    Attributes:
        channel, chat_id, message_id: as the channel names them; may be empty.
        sent_in_turn: whether a message went out in this turn already.
    """

    channel: str = ""
    chat_id: str = ""
    message_id: str = ""
    sent_in_turn: bool = False


@dataclass(slots=True)
class _Turn:
    """What the tasks of one turn share: a tool runs in a task of its own and must be able to say `sent`."""

    origin: Origin = field(default_factory=Origin)


_NOBODY = Origin()
_turn: ContextVar[_Turn | None] = ContextVar("pegboard_nanobot_turn", default=None)


def set_context(channel: str, chat_id: str, message_id: str | None = None) -> None:
    """The default target from here on in this task and the tasks that it starts."""
    _turn.set(_Turn(Origin(channel=channel, chat_id=chat_id, message_id=message_id or "")))


def start_turn() -> None:
    """A new turn: nothing was sent in it yet."""
    turn = _turn.get()
    _turn.set(_Turn(replace(turn.origin if turn else _NOBODY, sent_in_turn=False)))


def mark_sent() -> None:
    """A message went out in this turn."""
    turn = _turn.get()
    if turn is not None:
        turn.origin = replace(turn.origin, sent_in_turn=True)


def current_origin() -> Origin:
    """The default target: what `set_context` said, else the origin of the running call."""
    turn = _turn.get()
    if turn is not None and (turn.origin.channel or turn.origin.chat_id):
        return turn.origin
    try:
        found = current_context().origin
    except LookupError:
        return turn.origin if turn is not None else _NOBODY
    return Origin(
        channel=found.get("channel", ""),
        chat_id=found.get("chat_id", ""),
        message_id=found.get("message_id", ""),
    )


def current_target() -> tuple[str, str]:
    """Channel and chat that `set_context` named in this task; both empty where it was not called."""
    turn = _turn.get()
    return ("", "") if turn is None else (turn.origin.channel, turn.origin.chat_id)


class ContextAware:
    """Mixed into a tool: the methods of 000's MessageTool, CronTool and SpawnTool, without shared state."""

    def set_context(self, channel: str, chat_id: str, message_id: str | None = None) -> None:
        """See `set_context`."""
        set_context(channel, chat_id, message_id)

    def start_turn(self) -> None:
        """See `start_turn`."""
        start_turn()

    @property
    def origin(self) -> Origin:
        """See `current_origin`."""
        return current_origin()

    @property
    def _sent_in_turn(self) -> bool:
        return current_origin().sent_in_turn
