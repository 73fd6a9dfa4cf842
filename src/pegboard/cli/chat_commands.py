"""Slash commands of `pegboard chat`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pegboard.app.agent import Agent
from pegboard.app.executor import Executor
from pegboard.app.home import App
from pegboard.cli.show import counted, print_changes, safe, say, table
from pegboard.core.errors import BuildError
from pegboard.core.policy import MODES
from pegboard.core.sanitise import visible
from pegboard.core.transcript import Usage
from pegboard.files.journal import Journal
from pegboard.files.selection import Last, OfId
from pegboard.files.workspace import Workspace
from pegboard.runtime.compaction import compact
from pegboard.runtime.tokens import message_tokens, toolkit_tokens
from pegboard.runtime.transcripts import fold
from pegboard.store.logs import SessionLog


@dataclass(slots=True)
class Room:
    """What the commands of a chat act on.

    Attributes:
        app, session: where it is.
        model: the model's name, None = the first found.
        agent: who answers, None before it is made.
        usage: spent in this chat.
    """

    app: App
    session: str
    model: str | None = None
    agent: Agent | None = None
    usage: Usage = field(default_factory=Usage)

    def need_agent(self) -> Agent:
        """The agent.

        Raises:
            BuildError: there is none.
        """
        if self.agent is None:
            raise BuildError("no model is open; name one: /model openai:NAME")
        return self.agent


Act: TypeAlias = Callable[[str, Room, Executor, SessionLog], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it does, its line of help, values that complete it, and whether it needs a run's end."""

    act: Act
    help: str
    values: tuple[str, ...] = ()
    alone: bool = False


async def carry_out(text: str, room: Room, door: Executor, log: SessionLog) -> str:
    """Carry out `/name rest`; `exit` and `model` tell the chat what to do next, else it is empty.

    Raises:
        BuildError: there is no such command, or its value is wrong.
    """
    name, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise BuildError(f"unknown command {name}; type /help for the list")
    return await command.act(rest.strip(), room, door, log)


async def _help(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    table([(name, c.help) for name, c in COMMANDS.items()], head=("command", "what it does"))
    return ""


async def _tools(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    sizes = toolkit_tokens(door.toolkit)
    rows = [(t.name, str(sizes[t.name]), safe(t.description.splitlines()[0])[:70]) for t in door.toolkit]
    table(rows, head=("tool", "tokens", "what it does"))
    return ""


async def _mode(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    if rest:
        if rest not in MODES:
            raise BuildError(f"unknown mode {rest!r}; use {', '.join(MODES)}")
        room.app.policy = replace(room.app.policy, mode=rest)
        door.pipeline.policy = replace(door.pipeline.policy, mode=rest)
    say(f"mode {door.policy.mode}")
    return ""


async def _undo(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    app = room.app
    files = Workspace(
        app.workspace, journal=Journal(app.paths.state / "journal"), home=app.paths.home,
        allowed_dirs=app.config.allowed_dirs,
    )  # fmt: skip
    try:
        report = await files.undo(OfId(id=rest) if rest else Last())
    finally:
        files.close()
    print_changes(report.changes.changes)
    for conflict in report.conflicts:
        say(f"{visible(conflict.path)}: not changed: {safe(conflict.reason)}")
    done = counted(len(report.changes.changes), "file change")
    say(f"undone: {done}" if report.applied else "nothing to undo")
    return ""


async def _runs(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    await log.flush()
    rows = room.app.at_work.told(room.app.store.runs(stream=room.session, limit=20))
    shown = [
        (
            r.id,
            r.status,
            time.strftime("%H:%M", time.localtime(r.started)),
            safe(r.task.replace("\n", " "))[:60],
        )
        for r in rows
    ]
    table(shown, head=("run", "status", "at", "task"))
    return ""


async def _model(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    if not rest:
        say(room.need_agent().model().name)
        return ""
    await log.flush()
    room.model = rest
    return "model"


async def _compact(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    """Shorten what the model is sent from here on, to a share of what it is now."""
    from pegboard.core.events import ContextCompacted

    events = room.need_agent().session(room.session)
    messages = fold(events).messages
    before = sum(map(message_tokens, messages))
    if not messages:
        say("nothing to compact")
        return ""
    done = compact(messages, before)
    event = ContextCompacted(
        budget_tokens=before, before_tokens=before, after_tokens=done.after, dropped=done.dropped
    )
    room.need_agent().remember(room.session, [*events, event])
    log.record(event)
    say(f"about {before} tokens, now {done.after}: {'; '.join(done.dropped) or 'nothing was left out'}")
    return ""


async def _usage(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    usage = room.usage
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    say(f"{usage.requests} model turns, {usage.input_tokens} tokens in, {usage.output_tokens} out{cost}")
    return ""


async def _exit(rest: str, room: Room, door: Executor, log: SessionLog) -> str:
    return "exit"


COMMANDS: Final = {
    "/help": Command(_help, "list the commands"),
    "/tools": Command(_tools, "list the tools and the tokens their descriptions use"),
    "/mode": Command(_mode, "show or set the mode", tuple(MODES)),
    "/undo": Command(_undo, "undo the last file changes, or those of a run or call", alone=True),
    "/runs": Command(_runs, "list the runs of this session"),
    "/model": Command(
        _model,
        "show or change the model",
        ("openai:", "anthropic:", "gemini:", "gguf:smollm2", "local"),
        alone=True,
    ),
    "/compact": Command(_compact, "shorten the conversation sent to the model", alone=True),
    "/usage": Command(_usage, "show tokens and cost of this chat"),
    "/exit": Command(_exit, "quit; the conversation is saved"),
}
