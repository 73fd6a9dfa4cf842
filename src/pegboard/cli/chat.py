"""`pegboard chat`: a conversation at the terminal, with its tools, approvals and history in view."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from pegboard.app.app import App
from pegboard.cli.chat_commands import COMMANDS, ChatState, run_command
from pegboard.cli.chat_terminal import ChatApprover, ChatPeople, ChatTerminal, prompts_on
from pegboard.cli.errors import INTERRUPTED
from pegboard.cli.model_setup import accept_server
from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModelName,
    ModeOption,
    PolicyFile,
    SessionKey,
    ToolsFrom,
    Workspace,
    Yes,
    exit_with,
)
from pegboard.cli.options import Options
from pegboard.cli.run import event_printer, print_warnings, watch
from pegboard.cli.show import escape_controls, note_of, paint, print_line, print_note
from pegboard.cli.stdin import StdinLines
from pegboard.core.call.call import new_id
from pegboard.core.errors import PegboardError
from pegboard.core.events import Event, RunFinished
from pegboard.core.policy.approval import AllowOnce
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import Conversation, model_line


def chat_command(
    model: ModelName = None,
    session: SessionKey = None,
    last: Annotated[bool, typer.Option("--last", help="Continue the latest chat.")] = False,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Chat with an agent in the terminal."""

    options = Options(
        workspace=workspace,
        mode=mode,
        policy=policy,
        config=config,
        yes=yes,
        json=json,
        tools_from=tools_from or (),
    )
    exit_with(chat(model=model, session=session, last=last, options=options))


def chat(*, model: str | None, session: str | None, last: bool, options: Options) -> int:
    """Carry out the command; the exit status."""

    async def talk(app: App) -> int:
        key = session or (await _latest(app) if last else None)
        if key is None:
            key = new_id("chat")
            if last:
                print_note("no earlier chat; starting a new one")
        return await _until_ended(Chat(app, key, model, options))

    return options.run(talk)


async def _until_ended(chat: Chat) -> int:
    """The chat's exit status. Ctrl+C is a key of the chat; SIGTERM and SIGHUP end it whole, its run first."""
    got: list[int] = []
    talk = asyncio.ensure_future(chat.run())
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        got.append(number)
        talk.cancel()

    handled = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, end, number)
    try:
        return await talk
    except asyncio.CancelledError:
        if not got:
            raise
        print_note(f"pegboard: ended by {signal.Signals(got[0]).name}")
        return INTERRUPTED + got[0]
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


async def _latest(app: App) -> str | None:
    """The newest chat session, None where there is none."""
    return next((s for s in await app.sessions.list() if s.startswith("chat_")), None)


class Chat:
    """One conversation at one terminal.

    Args:
        app: settings, services and tools.
        session: its key; an earlier conversation under it goes on.
        model: as `--model` takes it.
        options: the command's.
    """

    def __init__(self, app: App, session: str, model: str | None, options: Options) -> None:
        self._app = app
        self._session = session
        self._model = model
        self._options = options
        self._terminal = ChatTerminal(
            _typed(app) if sys.stdin.isatty() else StdinLines(sys.stdin), stop=self._stop
        )
        self._work: asyncio.Task[None] | None = None
        self._ahead: list[str] = []
        """Lines typed for a run that has begun and cannot take them yet."""

    async def run(self) -> int:
        """Talk until the person leaves; the exit status."""
        interaction = Interaction(
            approver=AllowOnce() if self._options.yes else ChatApprover(self._terminal),
            people=[ChatPeople(self._terminal)],
            notify=note_of,
            # Only at the start: later the line belongs to the conversation.
            accept_server=accept_server if self._options.attended else None,
        )
        async with self._app.sessions.open(self._session, interaction, model=self._model) as talk:
            state = ChatState(app=self._app, talk=talk, interaction=replace(interaction, accept_server=None))
            try:
                self._greet(talk)
                self._print_model(talk)
                while (text := await self._terminal.read()) is not None:
                    if text.startswith("/"):
                        if not await self._command(text, state):
                            self._stop()
                            break
                    elif text.strip():
                        self._take(text, state)
                    if not self._terminal.is_interactive:
                        await self._settled()
            except asyncio.CancelledError:
                self._stop()
                raise
            finally:
                await self._settled()
        print_note(f"conversation saved; continue with: pegboard chat --session {self._session}")
        return 0

    def _greet(self, talk: Conversation) -> None:
        print_warnings(self._app, talk)
        if self._options.json:
            return
        mode = talk.executor.policy.mode
        print_line(paint(f"session {self._session}, mode {mode}, {self._app.workspace}", "dim"))
        if self._terminal.is_interactive:
            keys = "Enter to send, Alt+Enter or a final \\ for a new line, /help for commands"
            print_line(paint(keys, "dim"))

    def _print_model(self, talk: Conversation) -> None:
        """Who answers, where the data goes, and what is known of before."""
        print_note(model_line(talk.model))
        if events := talk.earlier():
            count = sum(e.type == "message.user" for e in events)
            print_note(f"{count} earlier message{'' if count == 1 else 's'} loaded")

    async def _command(self, text: str, state: ChatState) -> bool:
        """Carry out a slash command; False ends the chat."""
        name = text.split()[0]
        if self._work is not None and not self._work.done() and name in COMMANDS and COMMANDS[name].alone:
            print_line(paint(f"{name} is not available during a run; Ctrl+C stops the run", "yellow"))
            return True
        try:
            done = await run_command(text, state)
        except PegboardError as error:
            print_line(paint(escape_controls(str(error)), "red"))
            return True
        if done == "model":
            self._print_model(state.talk)
        return done != "exit"

    def _take(self, text: str, state: ChatState) -> None:
        """A message: of the run that goes on, or the task of the next one."""
        if self._work is None or self._work.done():
            self._work = asyncio.ensure_future(self._say(text, state))
        elif not state.talk.tell(text):
            self._ahead.append(text)

    def _stop(self) -> bool:
        """End the run and not the chat; False where none goes on."""
        return self._work is not None and self._work.cancel()

    async def _settled(self) -> None:
        """Return when no run goes on; Ctrl+C ends it, where no prompt sees that key."""
        if self._work is None or self._work.done():
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._stop)
        try:
            # Not the task itself: the end of the chat must not be taken for the end of the run.
            await asyncio.wait([self._work])
            await self._work
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _say(self, text: str, state: ChatState) -> None:
        """A run, and one for each line that came too late for the one before."""
        self._ahead.append(text)
        self._terminal.busy(True)
        try:
            while self._ahead:
                await self._watch(self._ahead.pop(0), state)
        except asyncio.CancelledError:
            self._ahead.clear()
            print_line(paint("\nstopped", "yellow"))
        except PegboardError as error:
            print_line(paint(escape_controls(str(error)), "red"))
        finally:
            self._terminal.partial("")
            self._terminal.busy(False)

    async def _watch(self, text: str, state: ChatState) -> None:
        show = event_printer(
            self._app, self._options, self._terminal.partial if self._terminal.is_interactive else None
        )

        def on_event(event: Event) -> None:
            while self._ahead and state.talk.tell(self._ahead[0]):
                del self._ahead[0]
            show(event)
            if isinstance(event, RunFinished):
                self._end(event, state)

        # Lines of a pipe may be anybody's: no address in them is the person's choice.
        await watch(state.talk.send(text, typed=self._terminal.is_interactive), on_event)

    def _end(self, finished: RunFinished, state: ChatState) -> None:
        state.usage += finished.usage
        if self._options.json:
            return
        if finished.status != "done":
            print_line(paint(f"{finished.status}: {escape_controls(finished.error)}", "red"))
        for pending in finished.pending:
            print_note(
                f"waiting for {pending.get('kind')} {pending.get('pending')}; answer with: pegboard approvals"
            )


def _typed(app: App) -> PromptSession[str]:
    """The prompt that lines are typed at."""
    history = app.paths.state / "chat-history"
    if not history.exists():
        # Made by us first: what was typed is for nobody else to read.
        history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
    return PromptSession(
        history=FileHistory(str(history)), completer=_Commands(app), key_bindings=_keys(),
        multiline=True, complete_while_typing=False, prompt_continuation="… ",
        output=prompts_on(),
    )  # fmt: skip


class _Commands(Completer):
    """Completes slash commands, their values, and file names behind an @."""

    def __init__(self, app: App) -> None:
        self._app = app

    def get_completions(self, document: Document, complete_event: Any) -> Iterable[Completion]:
        """See Completer."""
        text = document.text_before_cursor
        if text.startswith("/"):
            name, space, rest = text.partition(" ")
            words = COMMANDS[name].values if space and name in COMMANDS else () if space else tuple(COMMANDS)
            typed = rest if space else name
            yield from (Completion(w, -len(typed)) for w in words if w.startswith(typed))
            return
        word = document.get_word_before_cursor(WORD=True)
        if word.startswith("@"):
            yield from (Completion(f"@{p}", -len(word)) for p in self._paths(word[1:]))

    def _paths(self, begun: str) -> list[str]:
        folder, _, start = begun.rpartition("/")
        place = (self._app.workspace / folder).resolve()
        if not place.is_relative_to(self._app.workspace) or not place.is_dir():
            return []
        names = sorted(e.name + ("/" if e.is_dir() else "") for e in os.scandir(place))
        return [f"{folder}/{n}" if folder else n for n in names if n.startswith(start)][:50]


def _keys() -> KeyBindings:
    """Enter sends; Alt+Enter, or Enter behind a backslash, begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        event.current_buffer.insert_text("\n")

    return keys
