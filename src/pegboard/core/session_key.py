"""SessionKey: what a session is called: `[agent:ID:]CHANNEL:KIND:ID[:thread:THREAD]`, or a plain name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import InvalidArguments, format_value

MAIN: Final = "main"
"""The agent of a key that names none."""
GATEWAY: Final = "gateway"
"""The channel of the sessions of a gateway's principals, and of the messages that come in over HTTP."""
_LONGEST: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """The parts of a session's key; `str` gives the key.

    Attributes:
        id: the chat, user or task; the whole of a plain name such as `release`.
        channel: where it comes from, such as `telegram`; empty for a plain name.
        kind: `user`, `group` and the like; empty in the short form `CHANNEL:ID`.
        agent: the agent that works in it; empty = the main one.
        thread: the thread in the chat; empty = none.
    """

    id: str
    channel: str = ""
    kind: str = ""
    agent: str = ""
    thread: str = ""

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        """Read a key. Any text without control characters is one: what has no colons is a plain name.

        Raises:
            InvalidArguments: it is empty, too long, or has characters that cannot be printed.
        """
        rest, agent, thread = check_session_key(text), "", ""
        if rest.startswith("agent:") and rest.count(":") >= 2:
            _, agent, rest = rest.split(":", 2)
        before, mark, after = rest.rpartition(":thread:")
        if mark and ":" in before and after:
            rest, thread = before, after
        match rest.split(":", 2):
            case [channel, kind, id]:
                return cls(agent=agent, channel=channel, kind=kind, id=id, thread=thread)
            case [channel, id]:
                return cls(agent=agent, channel=channel, id=id, thread=thread)
            case _:
                return cls(agent=agent, id=rest, thread=thread)

    def __str__(self) -> str:
        parts = ["agent", self.agent] if self.agent else []
        parts += [part for part in (self.channel, self.kind) if part]
        parts += [self.id, *(("thread", self.thread) if self.thread else ())]
        return ":".join(parts)

    def matches(self, other: SessionKey) -> bool:
        """Whether this may be short for another key: what it leaves out may be anything."""
        return (self.id, self.channel) == (other.id, other.channel) and all(
            not mine or mine == theirs
            for mine, theirs in (
                (self.kind, other.kind), (self.agent, other.agent or MAIN), (self.thread, other.thread),
            )
        )  # fmt: skip


def principal_of(session: str) -> str:
    """The name of the gateway's principal that a session belongs to by its key; empty = the owner."""
    channel, _, rest = session.partition(":")
    name, colon, _ = rest.partition(":")
    return name if channel == GATEWAY and colon else ""


def check_session_key(text: str) -> str:
    """A key, unchanged.

    Raises:
        InvalidArguments: it is empty, longer than 256 characters, or has characters that cannot be printed.
    """
    if not text.strip():
        raise InvalidArguments(
            "the session key is empty", hint="Name a session, such as telegram:user:123456."
        )
    if len(text) > _LONGEST:
        raise InvalidArguments(f"the session key has {len(text)} characters, and {_LONGEST} are the most")
    if not text.isprintable():
        raise InvalidArguments(
            f"the session key {format_value(text)} has control characters or others that cannot be printed"
        )
    return text
