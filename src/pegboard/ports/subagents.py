"""Subagents: agents that a run starts for a part of its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from pegboard.core.transcript import Usage

Status: TypeAlias = Literal["running", "suspended", "done", "failed", "limit", "stopped"]

Isolation: TypeAlias = Literal["", "worktree"]

ACTIVE: Final = frozenset({"running", "suspended"})
"""The status of a subagent that has not reported yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An agent that can be started by its name.

    Attributes:
        name: what it is started by.
        description: when to use it, one sentence for the model.
        instructions: its system prompt, behind what every subagent is told.
        tools: names or patterns of the tools that it gets, of those that its parent has; None = reading, writing and
            searching files, commands, and the web.
        model: as `--model` takes it; empty = its parent's.
        turns: the most model turns.
        isolation: `worktree` = it works in a git worktree and branch of its own; empty = in its parent's folder.
    """

    name: str
    description: str = ""
    instructions: str = ""
    tools: tuple[str, ...] | None = None
    model: str = ""
    turns: int = 15
    isolation: Isolation = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """What a subagent is started with.

    Attributes:
        task: what to do; the subagent sees nothing else unless `fork` is set.
        label: a short name for people.
        agent: the name of an AgentSpec; empty = the general one.
        fork: it is shown the conversation so far.
        follow: id of a subagent that has ended; its conversation goes on. Empty = a new one.
        inline: the caller waits for the answer; else it comes as a message.
    """

    task: str
    label: str = ""
    agent: str = ""
    fork: bool = False
    follow: str = ""
    inline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A subagent that was started.

    Attributes:
        id, session: its names.
        parent, parent_run: the session and run that started it.
        agent, label, task: see ChildRequest; `task` is what its conversation begins with.
        inline: the caller waits for the answer.
        depth: 1 for a child of the main agent.
        status: running until it has reported.
        started, ended: seconds since the epoch; `ended` 0 while it is active.
        origin: channel and sender of the run that started it, to which rules and grants apply.
        labels: taint labels that it was started with; once it has ended, those of what it has read too.
        answer, error, usage: how it ended.
    """

    id: str
    session: str
    parent: str
    parent_run: str = ""
    agent: str = ""
    label: str = ""
    task: str = ""
    inline: bool = False
    depth: int = 1
    status: Status = "running"
    started: float = 0.0
    ended: float = 0.0
    origin: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: tuple[str, ...] = ()
    answer: str = ""
    error: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentLimits:
    """How many subagents there may be.

    Attributes:
        depth: levels below the main agent, 1 to 5.
        children: active ones of one session.
        running: that run at once in this process; the others wait for their turn.
    """

    depth: int = 1
    children: int = 5
    running: int = 8


class Subagents(Protocol):
    """Starts, steers and stops subagents of the session that calls."""

    def agents(self) -> Sequence[AgentSpec]:
        """The agents that can be started by name; the general one is not among them."""
        ...

    async def start(self, request: ChildRequest) -> Child:
        """Start a subagent, and return at once. The same call gives the same subagent, also after a crash.

        Raises:
            InvalidArguments: there is no agent of that name.
            NotFound: there is no subagent to follow.
            BudgetExceeded: too many subagents, or too deep.
        """
        ...

    async def wait(self, id: str) -> Child:
        """The subagent once it has ended, or waits for a person."""
        ...

    async def list(self) -> list[Child]:
        """The subagents of this session, oldest first."""
        ...

    async def steer(self, id: str, text: str) -> Child:
        """Give a running subagent a message, read before its next request.

        Raises:
            NotFound: this session has no such subagent.
            Conflict: it has ended.
        """
        ...

    async def stop(self, id: str) -> Child:
        """Stop a subagent and all that it has started.

        Raises:
            NotFound: this session has no such subagent.
        """
        ...

    async def log(self, id: str, *, limit: int = 20) -> list[str]:
        """What a subagent has said and called, one line each, the last `limit` of them.

        Raises:
            NotFound: this session has no such subagent.
        """
        ...
