"""Slash commands of `pegboard chat`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pegboard.app.agent import Agent
from pegboard.app.executor import Executor
from pegboard.app.home import App
from pegboard.cli.show import escape_controls, pluralise, print_changes, print_line, table
from pegboard.core.errors import BuildError
from pegboard.core.policy.policy import MODES
from pegboard.core.text import escape_invisible
from pegboard.core.transcript import Usage
from pegboard.files.journal import Journal
from pegboard.files.undo import ById, Last
from pegboard.files.workspace import Workspace
from pegboard.runtime.compaction import compact
from pegboard.runtime.tokens import message_tokens, toolkit_tokens
from pegboard.runtime.transcripts import fold
from pegboard.store.logs import SessionLog


@dataclass(slots=True)
class ChatState:
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


Act: TypeAlias = Callable[[str, ChatState, Executor, SessionLog], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command: what it does, its line of help, values that complete it, and whether it needs a run's end."""

    act: Act
    help: str
    values: tuple[str, ...] = ()
    alone: bool = False


async def run_command(text: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    """Carry out `/name rest`; `exit` and `model` tell the chat what to do next, else it is empty.

    Raises:
        BuildError: there is no such command, or its value is wrong.
    """
    name, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise BuildError(f"unknown command {name}; type /help for the list")
    return await command.act(rest.strip(), state, executor, log)


async def _help(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    table([(name, c.help) for name, c in COMMANDS.items()], head=("command", "what it does"))
    return ""


async def _tools(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    sizes = toolkit_tokens(executor.toolkit)
    rows = [
        (t.name, str(sizes[t.name]), escape_controls(t.description.splitlines()[0])[:70])
        for t in executor.toolkit
    ]
    table(rows, head=("tool", "tokens", "what it does"))
    return ""


async def _mode(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    if rest:
        if rest not in MODES:
            raise BuildError(f"unknown mode {rest!r}; use {', '.join(MODES)}")
        state.app.policy = replace(state.app.policy, mode=rest)
        executor.set_mode(rest)
    print_line(f"mode {executor.policy.mode}")
    return ""


async def _undo(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    app = state.app
    files = Workspace(
        app.workspace, journal=Journal(app.paths.state / "journal"), home=app.paths.home,
        allowed_dirs=app.config.allowed_dirs,
    )  # fmt: skip
    try:
        report = await files.undo(ById(id=rest) if rest else Last())
    finally:
        files.close()
    print_changes(report.changes.changes)
    for conflict in report.conflicts:
        print_line(f"{escape_invisible(conflict.path)}: not changed: {escape_controls(conflict.reason)}")
    done = pluralise(len(report.changes.changes), "file change")
    print_line(f"undone: {done}" if report.applied else "nothing to undo")
    return ""


async def _runs(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    await log.flush()
    rows = state.app.at_work.mark_interrupted(state.app.store.runs(stream=state.session, limit=20))
    shown = [
        (
            r.id,
            r.status,
            time.strftime("%H:%M", time.localtime(r.started)),
            escape_controls(r.task.replace("\n", " "))[:60],
        )
        for r in rows
    ]
    table(shown, head=("run", "status", "at", "task"))
    return ""


async def _model(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    if not rest:
        print_line(state.need_agent().model().name)
        return ""
    await log.flush()
    state.model = rest
    return "model"


async def _compact(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    """Shorten what the model is sent from here on, to a share of what it is now."""
    from pegboard.core.events import ContextCompacted

    events = state.need_agent().session(state.session)
    messages = fold(events).messages
    before = sum(map(message_tokens, messages))
    if not messages:
        print_line("nothing to compact")
        return ""
    done = compact(messages, before)
    event = ContextCompacted(
        budget_tokens=before, before_tokens=before, after_tokens=done.after, dropped=done.dropped
    )
    state.need_agent().remember(state.session, [*events, event])
    log.record(event)
    print_line(
        f"about {before} tokens, now {done.after}: {'; '.join(done.dropped) or 'nothing was left out'}"
    )
    return ""


async def _usage(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    usage = state.usage
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    print_line(
        f"{usage.requests} model turns, {usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
    )
    return ""


async def _exit(rest: str, state: ChatState, executor: Executor, log: SessionLog) -> str:
    return "exit"


COMMANDS: Final = {
    "/help": SlashCommand(_help, "list the commands"),
    "/tools": SlashCommand(_tools, "list the tools and the tokens their descriptions use"),
    "/mode": SlashCommand(_mode, "show or set the mode", tuple(MODES)),
    "/undo": SlashCommand(_undo, "undo the last file changes, or those of a run or call", alone=True),
    "/runs": SlashCommand(_runs, "list the runs of this session"),
    "/model": SlashCommand(
        _model,
        "show or change the model",
        ("openai:", "anthropic:", "gemini:", "gguf:smollm2", "local"),
        alone=True,
    ),
    "/compact": SlashCommand(_compact, "shorten the conversation sent to the model", alone=True),
    "/usage": SlashCommand(_usage, "show tokens and cost of this chat"),
    "/exit": SlashCommand(_exit, "quit; the conversation is saved"),
}
