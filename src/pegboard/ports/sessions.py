"""Sessions: what the running session may see of the others, and say to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pegboard.ports.subagents import AgentSpec

Visibility: TypeAlias = Literal["self", "tree", "agent", "all"]
"""Which sessions a session sees: itself; those it started, and theirs; those of its agent; all of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """What a list of sessions shows.

    Attributes:
        key: its name.
        label: the name that a person gave it; empty = none.
        agent: which agent works in it.
        task: what its first run was asked.
        messages: of people, of others and of the model, without tool results.
        created, last_active: seconds since the epoch.
        status: `running`, `suspended` (it waits for a person), `interrupted`, or `idle`.
        waiting: messages that no run has read yet.
        parent: the session that started it as a subagent; empty = none.
        branched_from: the session whose beginning it has; empty = none.
    """

    key: str
    label: str = ""
    agent: str = "main"
    task: str = ""
    messages: int = 0
    created: float = 0.0
    last_active: float = 0.0
    status: str = "idle"
    waiting: int = 0
    parent: str = ""
    branched_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """One message of a session's history.

    Attributes:
        session, run: where it stands.
        role: `user`, `assistant` or `tool`.
        text: without secrets; long ones are cut.
        by: who wrote a user's message (`user`, `session`, `schedule` and the like), or the tool's name.
        spill: `spill:ID` of the whole text of a large result; empty = there is none.
    """

    session: str
    role: str
    text: str
    run: str = ""
    by: str = ""
    spill: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHistory:
    """The end of a session's history.

    Attributes:
        entries: oldest first.
        total: how many there are in all.
        labels: taint labels of what the session has read.
        dropped: what its compactions left out of what the model is sent, one sentence each.
    """

    entries: tuple[SessionEntry, ...] = ()
    total: int = 0
    labels: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What became of a message to a session.

    Attributes:
        id: the message's.
        session: its key.
        status: `answered`; `queued` where nobody waits for the answer; `late` where none came in time: it comes as a
            message; else the status of the run that read it, with `error`.
        answer, error: how the run ended.
        labels: taint labels of the answer.
    """

    id: str
    session: str
    status: str
    answer: str = ""
    error: str = ""
    labels: tuple[str, ...] = ()


class SessionAccess(Protocol):
    """The other sessions, for the one that calls. One that it may not see is as one that does not exist."""

    async def list(self, *, active: bool = False, limit: int = 50) -> Sequence[SessionRow]:
        """Sessions, the last used first; `active`: only those that ran in the last day, run, or have messages."""
        ...

    async def find(self, session: str = "", *, label: str = "", agent: str = "") -> SessionRow:
        """A session by its key, a short form of it, its label or `@label`; or the last used one of an agent.

        Args:
            session: key, short form, label or `@label`; empty = the one that calls unless `label` or `agent` is set.
            label: its label.
            agent: the agent that works in it.

        Raises:
            NotFound: there is none.
            InvalidArguments: several are meant, or the key cannot be one.
        """
        ...

    async def history(self, session: str = "", *, limit: int = 50) -> SessionHistory:
        """The last messages of a session; `session` as `find` takes it.

        Raises:
            NotFound: there is no such session.
        """
        ...

    async def search(self, text: str, *, limit: int = 20) -> Sequence[SessionEntry]:
        """Messages in which all words of a text stand, of the sessions last used first."""
        ...

    async def send(self, session: str, message: str, *, timeout_s: float = 0.0) -> Reply:
        """Give a session a message, and wait so long for the answer; 0 = nobody wants one.

        The same call sends it once, also after a crash.

        Raises:
            NotFound: there is no such session.
            InvalidArguments: it is the session that calls.
            BudgetExceeded: the two have answered each other too often, or this one has sent too much in a minute.
        """
        ...

    def agents(self) -> Sequence[AgentSpec]:
        """The agents there are, the one that calls first."""
        ...
