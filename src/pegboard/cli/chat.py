"""`pegboard chat`: a conversation at the terminal, with its tools, approvals and history in view."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from pegboard.app.agent import Agent
from pegboard.app.executor import Executor
from pegboard.app.home import App
from pegboard.cli.chat_commands import COMMANDS, ChatState, run_command
from pegboard.cli.chat_terminal import ChatApprover, ChatPeople, ChatTerminal, prompts_on
from pegboard.cli.errors import INTERRUPTED
from pegboard.cli.model_setup import agent_for, model_line
from pegboard.cli.options import Options
from pegboard.cli.progress import EventPrinter
from pegboard.cli.show import escape_controls, note_of, paint, print_event, print_line, print_note
from pegboard.cli.stdin import StdinLines
from pegboard.core.call.call import new_id
from pegboard.core.errors import PegboardError
from pegboard.core.events import RunFinished
from pegboard.core.policy.approval import AllowOnce, Approver
from pegboard.store.logs import SessionLog


def chat(*, model: str | None, session: str | None, last: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        key = session or (_latest(app) if last else None)
        if key is None:
            key = new_id("chat")
            if last:
                print_note("no earlier chat; starting a new one")
        with app.lock_session(key):
            return asyncio.run(_until_ended(Chat(app, key, model, options)))


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


def _latest(app: App) -> str | None:
    """The newest chat session, None where there is none."""
    return next((s for s in app.sessions() if s.startswith("chat_")), None)


class Chat:
    """One conversation at one terminal.

    Args:
        app: settings, store and tools.
        session: its key; an earlier conversation under it goes on.
        model: as `--model` takes it.
        options: the command's.
    """

    def __init__(self, app: App, session: str, model: str | None, options: Options) -> None:
        self._app = app
        self._session = session
        self._options = options
        self._desk = ChatTerminal(
            _typed(app) if sys.stdin.isatty() else StdinLines(sys.stdin), stop=self._stop
        )
        self._work: asyncio.Task[None] | None = None
        self._ahead: list[str] = []
        """Lines typed for a run that has begun and cannot take them yet."""
        self.room = ChatState(app=app, session=session, model=model)

    async def run(self) -> int:
        """Talk until the person leaves; the exit status."""
        app = self._app
        approver: Approver = AllowOnce() if self._options.yes else ChatApprover(self._desk)
        async with app.executor(
            approver=approver, provide=[ChatPeople(self._desk)], session=self._session
        ) as door:
            door.on_warning = note_of
            log = app.log(self._session)
            try:
                await self._new_agent(door)
                self._greet(door)
                self._tell_model()
                while (text := await self._desk.read()) is not None:
                    if text.startswith("/"):
                        if not await self._command(text, door, log):
                            self._stop()
                            break
                    elif text.strip():
                        self._take(text, log)
                    if not self._desk.is_interactive:
                        await self._settled()
            except asyncio.CancelledError:
                self._stop()
                raise
            finally:
                await self._settled()
                log.close()
                if self.room.agent is not None:
                    await self.room.agent.model().aclose()
        print_note(f"conversation saved; continue with: pegboard chat --session {self._session}")
        return 0

    def _greet(self, executor: Executor) -> None:
        for line in self._app.config.ignored:
            print_note(f"note: {line}")
        if executor.wiring.banner:
            print_note(f"note: {executor.wiring.banner}")
        if self._options.json:
            return
        print_line(
            paint(f"session {self._session}, mode {executor.policy.mode}, {self._app.workspace}", "dim")
        )
        if self._desk.is_interactive:
            keys = "Enter to send, Alt+Enter or a final \\ for a new line, /help for commands"
            print_line(paint(keys, "dim"))

    async def _new_agent(self, executor: Executor) -> None:
        """An agent with the room's model, which knows the session so far."""
        # Only at the start: later the line belongs to the conversation.
        attended = self._options.attended and self.room.agent is None
        agent = await agent_for(self._app, executor, model=self.room.model, attended=attended)
        agent.model()  # Now, so that a wrong name is told before anything else.
        events = self._app.events_for_resume(self._session)
        agent.remember(self._session, events)
        self.room.agent = agent

    def _tell_model(self) -> None:
        """Print the model, where it sends data, and how many earlier messages it knows."""
        agent = self.room.need_agent()
        print_note(model_line(agent.model()))
        if events := agent.session(self._session):
            print_note(f"{sum(e.type == 'message.user' for e in events)} earlier messages loaded")

    async def _command(self, text: str, executor: Executor, log: SessionLog) -> bool:
        """Carry out a slash command; False ends the chat."""
        name = text.split()[0]
        if self._work is not None and not self._work.done() and name in COMMANDS and COMMANDS[name].alone:
            print_line(paint(f"{name} is not available during a run; Ctrl+C stops the run", "yellow"))
            return True
        try:
            done = await run_command(text, self.room, executor, log)
        except PegboardError as error:
            print_line(paint(escape_controls(str(error)), "red"))
            return True
        if done == "model":
            before = self.room.agent
            try:
                await self._new_agent(executor)
            except PegboardError as error:
                print_line(paint(escape_controls(str(error)), "red"))
                self.room.agent = before
            else:
                self._tell_model()
                if before is not None:
                    await before.model().aclose()
        return done != "exit"

    def _take(self, text: str, log: SessionLog) -> None:
        """A message: of the run that goes on, or the task of the next one."""
        if self._work is None or self._work.done():
            self._work = asyncio.ensure_future(self._say(text, log))
        elif not self.room.need_agent().tell(text, session=self._session):
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

    async def _say(self, text: str, log: SessionLog) -> None:
        """A run, and one for each line that came too late for the one before."""
        self._ahead.append(text)
        self._desk.busy(True)
        try:
            while self._ahead:
                await self._watch(self.room.need_agent(), self._ahead.pop(0), log)
        except asyncio.CancelledError:
            self._ahead.clear()
            print_line(paint("\nstopped", "yellow"))
        except PegboardError as error:
            print_line(paint(escape_controls(str(error)), "red"))
        finally:
            self._desk.partial("")
            self._desk.busy(False)

    async def _watch(self, agent: Agent, text: str, log: SessionLog) -> None:
        show = functools.partial(print_event, redact=self._app.redactor.redact)
        if not self._options.json:
            partial = self._desk.partial if self._desk.is_interactive else None
            show = EventPrinter(partial, redact=self._app.redactor.redact).show
        async with aclosing(agent.stream(text, session=self._session, recorder=log)) as events:
            async for event in events:
                while self._ahead and agent.tell(self._ahead[0], session=self._session):
                    del self._ahead[0]
                show(event)
                if isinstance(event, RunFinished):
                    self._end(event)
        await log.flush()

    def _end(self, finished: RunFinished) -> None:
        self.room.usage += finished.usage
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
