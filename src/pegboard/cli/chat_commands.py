"""Slash commands of `pegboard chat`."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pegboard.app.app import App
from pegboard.cli.show import escape_controls, is_terminal, pluralise, print_changes, print_line, table
from pegboard.cli.undo import print_undone
from pegboard.core.errors import BuildError
from pegboard.core.policy.policy import MODES
from pegboard.core.policy.taint import ATTACHED
from pegboard.core.schema.problems import did_you_mean
from pegboard.core.secrets.clip import clip
from pegboard.core.transcript import Usage
from pegboard.ports.todos import Todo
from pegboard.runtime.tokens import toolkit_tokens
from pegboard.services.redaction import shown_changes
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import ContextUse, Conversation, ConversationRow, model_line
from pegboard.tools.todo import render_todos


@dataclass(slots=True, kw_only=True)
class ChatState:
    """What the commands of a chat act on.

    Attributes:
        app: settings and services.
        talk: the conversation.
        interaction: who answers.
        usage: spent in this chat.
        draft: what the next prompt begins with.
    """

    app: App
    talk: Conversation
    interaction: Interaction
    usage: Usage = field(default_factory=Usage)
    draft: str = ""


Act: TypeAlias = Callable[[str, ChatState], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command: what it does, its line of help, values that complete it, and whether it needs a run's end."""

    act: Act
    help: str
    values: tuple[str, ...] = ()
    alone: bool = False


async def run_command(text: str, state: ChatState) -> str:
    """Carry out `/name rest`; what the chat does next: `exit`, `new`, `model`, `resume KEY` or nothing.

    Raises:
        BuildError: there is no such command, or its value is wrong.
    """
    name, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        known = [*COMMANDS, *(f"/{c.name}" for c in await state.app.slash_commands.list())]
        meant = did_you_mean(name, known, otherwise="; type /help for the list")
        raise BuildError(f"unknown command {name}{meant}")
    return await command.act(rest.strip(), state)


async def _help(rest: str, state: ChatState) -> str:
    rows = [(name, c.help) for name, c in COMMANDS.items()]
    rows += [(f"/{c.name}", escape_controls(c.description)) for c in await state.app.slash_commands.list()]
    table(rows, head=("command", "what it does"))
    return ""


async def _tools(rest: str, state: ChatState) -> str:
    toolkit = state.talk.executor.toolkit
    sizes = toolkit_tokens(toolkit)
    rows = [
        (t.name, str(sizes[t.name]), escape_controls(t.description.splitlines()[0])[:70]) for t in toolkit
    ]
    table(rows, head=("tool", "tokens", "what it does"))
    return ""


async def _mode(rest: str, state: ChatState) -> str:
    if rest:
        state.talk.set_mode(rest)
    print_line(f"mode {state.talk.executor.policy.mode}")
    return ""


async def _undo(rest: str, state: ChatState) -> str:
    print_undone(await state.app.undo.undo(rest or None))
    return ""


async def _redo(rest: str, state: ChatState) -> str:
    print_undone(await state.app.undo.undo(rest or None, redo=True), redo=True)
    return ""


async def _diff(rest: str, state: ChatState) -> str:
    changes = await state.app.undo.session_changes(state.talk.session)
    print_changes(shown_changes(changes, state.app.redactor.redact))
    print_line(f"{pluralise(len(changes), 'file')} changed in this conversation")
    return ""


async def _rewind(rest: str, state: ChatState) -> str:
    messages = await state.talk.messages()
    if not rest:
        rows = [(str(n), _line(m.text)) for n, m in enumerate(messages, 1)]
        table(rows, head=("", "message"))
        print_line("go back to before one: /rewind NUMBER" if rows else "nothing was said yet")
        return ""
    number = int(rest) if rest.isdecimal() and rest.isascii() else 0
    if not 1 <= number <= len(messages):
        if not messages:
            raise BuildError(f"/rewind {rest}: nothing was said yet")
        raise BuildError(f"/rewind {rest}: give the number of a message, 1 to {len(messages)}; see: /rewind")
    report = await state.talk.rewind(messages[number - 1].run)
    if report is not None:
        print_undone(report)
    state.draft = messages[number - 1].text
    print_line(f"back to before message {number}; its text is in the prompt")
    return ""


async def _status(rest: str, state: ChatState) -> str:
    talk = state.talk
    executor = talk.executor
    rows = [
        ("session", talk.session),
        ("workspace", str(state.app.workspace)),
        ("mode", executor.policy.mode),
        ("model", model_line(talk.model).removeprefix("model: ")),
        ("context", context_line(talk.context_use())),
        *([("todo", todo_line(talk.todos()))] if talk.todos() else []),
        ("sandbox", "yes" if executor.policy.sandboxed else "no: every command needs approval"),
        ("cost", _spent(state.usage)),
    ]
    table([(name, escape_controls(value)) for name, value in rows])
    return ""


async def _todo(rest: str, state: ChatState) -> str:
    print_line(escape_controls(render_todos(state.talk.todos())) or "the agent keeps no list")
    return ""


def todo_line(todos: Sequence[Todo]) -> str:
    """`2 of 5 steps done`."""
    return f"{sum(one.status == 'done' for one in todos)} of {pluralise(len(todos), 'step')} done"


def context_line(use: ContextUse) -> str:
    """`12,300 of 200,000 tokens (6%)`, or what is known of it."""
    if use.share is None:
        return f"about {use.tokens:,} tokens"
    return f"about {use.tokens:,} of {use.window:,} tokens ({use.share:.0%})"


async def _new(rest: str, state: ChatState) -> str:
    return "new"


async def _clear(rest: str, state: ChatState) -> str:
    if is_terminal():
        # The screen and what has scrolled off it (ECMA-48 ED, and xterm's 3).
        sys.stdout.write("\x1b[H\x1b[2J\x1b[3J")
        sys.stdout.flush()
    return "new"


async def _resume(rest: str, state: ChatState) -> str:
    if rest:
        return f"resume {await find_conversation(state.app, rest)}"
    rows = await state.app.sessions.conversations()
    print_conversations(rows)
    if rows:
        print_line("continue one: /resume ID")
    return ""


async def find_conversation(app: App, prefix: str) -> str:
    """The key of a conversation, or of any session, by itself or the unique start of it.

    Raises:
        BuildError: there is none, or several start so.
    """
    known = await app.sessions.list()
    if prefix in known:
        return prefix
    found = [key for key in known if key.startswith(prefix) or key.startswith(f"chat_{prefix}")]
    if len(found) != 1:
        what = f"{len(found)} conversations start with" if found else "no conversation"
        raise BuildError(f"{what} {prefix!r}; see: pegboard chat --resume")
    return found[0]


def print_conversations(rows: Sequence[ConversationRow]) -> None:
    """The earlier conversations of this workspace, newest first."""
    shown = [
        (r.session, time.strftime("%Y-%m-%d %H:%M", time.localtime(r.last)), str(r.runs), _line(r.task))
        for r in rows
    ]
    if shown:
        table(shown, head=("conversation", "last used", "runs", "began with"))
    else:
        print_line("no earlier conversations in this workspace")


def _line(text: str) -> str:
    room = shutil.get_terminal_size().columns - 52
    return clip(escape_controls(" ".join(text.split())), 0, max(24, min(room, 60)))


async def _runs(rest: str, state: ChatState) -> str:
    shown = [
        (
            r.id,
            r.status,
            time.strftime("%H:%M", time.localtime(r.started)),
            _line(r.task.partition(ATTACHED)[0]),
        )
        for r in await state.talk.runs()
    ]
    table(shown, head=("run", "status", "at", "task"))
    return ""


async def _model(rest: str, state: ChatState) -> str:
    if not rest:
        print_line(state.talk.model.name)
        return ""
    await state.talk.change_model(rest, state.interaction)
    return "model"


async def _compact(rest: str, state: ChatState) -> str:
    """Shorten what the model is sent from here on, to a share of what it is now."""
    done = await state.talk.compact()
    if done is None:
        print_line("nothing to compact")
        return ""
    print_line(
        f"about {done.before_tokens} tokens, now {done.after_tokens}: "
        f"{'; '.join(done.dropped) or 'nothing was left out'}"
    )
    return ""


async def _cost(rest: str, state: ChatState) -> str:
    print_line(_spent(state.usage))
    return ""


def _spent(usage: Usage) -> str:
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    return f"{usage.requests} model turns, {usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"


async def _exit(rest: str, state: ChatState) -> str:
    return "exit"


COMMANDS: Final = {
    "/help": SlashCommand(_help, "list the commands"),
    "/status": SlashCommand(_status, "show session, mode, model, context and cost"),
    "/mode": SlashCommand(_mode, "show or set the mode (Shift+Tab changes it)", tuple(MODES)),
    "/model": SlashCommand(
        _model,
        "show or change the model",
        ("openai:", "anthropic:", "gemini:", "gguf:smollm2", "local"),
        alone=True,
    ),
    "/tools": SlashCommand(_tools, "list the tools and the tokens their descriptions use"),
    "/diff": SlashCommand(_diff, "show what this conversation changed in files"),
    "/undo": SlashCommand(_undo, "undo the last file changes, or those of a run or call", alone=True),
    "/redo": SlashCommand(_redo, "restore what was undone", alone=True),
    "/rewind": SlashCommand(
        _rewind, "list your messages, or go back to before one: conversation and files", alone=True
    ),
    "/todo": SlashCommand(_todo, "show the agent's list of steps"),
    "/runs": SlashCommand(_runs, "list the runs of this conversation"),
    "/cost": SlashCommand(_cost, "show tokens and cost of this chat"),
    "/compact": SlashCommand(_compact, "shorten the conversation sent to the model", alone=True),
    "/new": SlashCommand(_new, "start a new conversation", alone=True),
    "/clear": SlashCommand(_clear, "clear the screen and start a new conversation", alone=True),
    "/resume": SlashCommand(_resume, "list earlier conversations, or continue one", alone=True),
    "/exit": SlashCommand(_exit, "quit; the conversation is saved"),
}
