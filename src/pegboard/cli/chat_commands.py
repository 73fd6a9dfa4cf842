"""Slash commands of `pegboard chat`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pegboard.app.app import App
from pegboard.cli.show import escape_controls, print_line, table
from pegboard.cli.undo import print_undone
from pegboard.core.errors import BuildError
from pegboard.core.policy.policy import MODES
from pegboard.core.transcript import Usage
from pegboard.runtime.tokens import toolkit_tokens
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import Conversation


@dataclass(slots=True, kw_only=True)
class ChatState:
    """What the commands of a chat act on.

    Attributes:
        app: settings and services.
        talk: the conversation.
        interaction: who answers.
        usage: spent in this chat.
    """

    app: App
    talk: Conversation
    interaction: Interaction
    usage: Usage = field(default_factory=Usage)


Act: TypeAlias = Callable[[str, ChatState], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command: what it does, its line of help, values that complete it, and whether it needs a run's end."""

    act: Act
    help: str
    values: tuple[str, ...] = ()
    alone: bool = False


async def run_command(text: str, state: ChatState) -> str:
    """Carry out `/name rest`; `exit` and `model` tell the chat what to do next, else it is empty.

    Raises:
        BuildError: there is no such command, or its value is wrong.
    """
    name, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise BuildError(f"unknown command {name}; type /help for the list")
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
        if rest not in MODES:
            raise BuildError(f"unknown mode {rest!r}; use {', '.join(MODES)}")
        state.app.policy = replace(state.app.policy, mode=rest)
        state.talk.executor.set_mode(rest)
    print_line(f"mode {state.talk.executor.policy.mode}")
    return ""


async def _undo(rest: str, state: ChatState) -> str:
    print_undone(await state.app.undo.undo(rest or None))
    return ""


async def _runs(rest: str, state: ChatState) -> str:
    shown = [
        (
            r.id,
            r.status,
            time.strftime("%H:%M", time.localtime(r.started)),
            escape_controls(r.task.replace("\n", " "))[:60],
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


async def _usage(rest: str, state: ChatState) -> str:
    usage = state.usage
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    print_line(
        f"{usage.requests} model turns, {usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
    )
    return ""


async def _exit(rest: str, state: ChatState) -> str:
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
