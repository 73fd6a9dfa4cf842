"""`pegboard chat`: a conversation at the terminal, with its tools, approvals and history in view."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion, WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from pegboard.app.agent import Agent
from pegboard.app.executor import Executor
from pegboard.app.home import App
from pegboard.cli.approve import HELP, parse_answer, show_request
from pegboard.cli.chat_commands import COMMANDS, Room, carry_out
from pegboard.cli.options import Options
from pegboard.cli.people import chosen
from pegboard.cli.progress import Progress
from pegboard.cli.show import note, paint, safe, say
from pegboard.core.approval import AllowOnce, ApprovalRequest, Approved, Approver, Refused, Waiting
from pegboard.core.errors import PegboardError
from pegboard.core.events import RunFinished
from pegboard.core.pipeline import new_id
from pegboard.ports.people import Question
from pegboard.store.logs import SessionLog

_PROMPT: Final = "> "


def chat(*, model: str | None, session: str | None, last: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        key = session or (_latest(app) if last else None) or new_id("chat")
        with app.claim(key):
            return asyncio.run(Chat(app, key, model, options).run())


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
        history = app.paths.state / "chat-history"
        if not history.exists():
            # Made by us first: what was typed is for nobody else to read.
            history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
        self._line: PromptSession[str] = PromptSession(
            history=FileHistory(str(history)), completer=_Commands(app), key_bindings=_keys(),
            multiline=True, complete_while_typing=False, prompt_continuation="… ",
        )  # fmt: skip
        self._answer: PromptSession[str] = PromptSession()
        self.room = Room(app=app, session=session, model=model)

    async def run(self) -> int:
        """Talk until the person leaves; the exit status."""
        app = self._app
        approver: Approver = AllowOnce() if self._options.yes else _Asker(self._answer)
        async with app.executor(
            approver=approver, provide=[_People(self._answer)], session=self._session
        ) as door:
            self._greet(door)
            log = app.log(self._session)
            try:
                self._new_agent(door)
                while (text := await self._read()) is not None:
                    if text.startswith("/"):
                        if not await self._command(text, door, log):
                            break
                    elif text.strip():
                        await self._say(text, log)
            finally:
                log.close()
                if self.room.agent is not None:
                    await self.room.agent.model().aclose()
        note(f"the conversation is kept: pegboard chat --session {self._session}")
        return 0

    def _greet(self, door: Executor) -> None:
        for line in self._app.config.ignored:
            note(f"note: {line}")
        if door.wiring.banner:
            note(f"note: {door.wiring.banner}")
        say(paint(f"session {self._session}, mode {door.policy.mode}, {self._app.workspace}", "dim"))
        say(paint("Enter sends, Alt+Enter or a \\ at the end begins a new line, /help lists commands", "dim"))

    def _new_agent(self, door: Executor) -> None:
        """An agent with the room's model, which knows the session so far."""
        agent = self._app.agent(door, model=self.room.model)
        opened = agent.model()
        events = self._app.session_events(self._session)
        agent.remember(self._session, events)
        self.room.agent = agent
        to = opened.destination
        note(f"model: {opened.name}; your data goes {to if to == 'nowhere' else f'to {to}'}")
        if events:
            note(f"{sum(e.type == 'message.user' for e in events)} messages of this session are remembered")

    async def _read(self) -> str | None:
        """The next message, None at the end of input."""
        while True:
            try:
                with patch_stdout():
                    return await self._line.prompt_async(_PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    async def _command(self, text: str, door: Executor, log: SessionLog) -> bool:
        """Carry out a slash command; False ends the chat."""
        try:
            done = await carry_out(text, self.room, door, log)
        except PegboardError as error:
            say(paint(safe(str(error)), "red"))
            return True
        if done == "model":
            before = self.room.agent
            try:
                self._new_agent(door)
            except PegboardError as error:
                say(paint(safe(str(error)), "red"))
                self.room.agent = before
            else:
                if before is not None:
                    await before.model().aclose()
        return done != "exit"

    async def _say(self, text: str, log: SessionLog) -> None:
        """One run; Ctrl+C ends it and not the chat."""
        agent: Agent = self.room.need_agent()
        work = asyncio.ensure_future(self._watch(agent, text, log))
        loop = asyncio.get_running_loop()
        import signal

        loop.add_signal_handler(signal.SIGINT, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            say(paint("\nstopped", "yellow"))
        except PegboardError as error:
            say(paint(safe(str(error)), "red"))
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _watch(self, agent: Agent, text: str, log: SessionLog) -> None:
        progress = Progress()
        async with aclosing(agent.stream(text, session=self._session, recorder=log)) as events:
            async for event in events:
                progress.show(event)
                if isinstance(event, RunFinished):
                    self._end(event)
        await log.flush()

    def _end(self, finished: RunFinished) -> None:
        self.room.usage += finished.usage
        if finished.status != "done":
            say(paint(f"{finished.status}: {safe(finished.error)}", "red"))
        for pending in finished.pending:
            note(f"waits for {pending.get('kind')} {pending.get('pending')}: pegboard approvals")


class _Asker:
    """Shows the exact effects and diff in the conversation and reads the answer there."""

    def __init__(self, line: PromptSession[str]) -> None:
        self._line = line
        self._one = asyncio.Lock()

    async def decide(self, request: ApprovalRequest) -> Approved | Refused:
        """The person's answer; an end of input is a no."""
        async with self._one:
            show_request(request)
            while True:
                try:
                    line = await self._line.prompt_async("allow? ")
                except (EOFError, KeyboardInterrupt):
                    return Refused("nobody answered")
                answer = parse_answer(line)
                if answer is not None:
                    return answer
                say(HELP)


class _People:
    """Asks the questions of `ask_user` in the conversation."""

    def __init__(self, line: PromptSession[str]) -> None:
        self._line = line

    async def ask(self, questions: Iterable[Question]) -> list[str] | Waiting:
        """The answers in order; Waiting where the person does not answer in time."""
        out: list[str] = []
        for question in questions:
            say(paint(f"\n? {safe(question.text)}", "bold"))
            for number, option in enumerate(question.options, 1):
                say(f"  {number}. {safe(option)}")
            session: PromptSession[str] = PromptSession(completer=WordCompleter(list(question.options)))
            try:
                line = await asyncio.wait_for(session.prompt_async("answer: "), question.timeout_s)
            except (TimeoutError, EOFError, KeyboardInterrupt):
                return Waiting("question", new_id("q"), None, {"question": question.text})
            out.append(chosen(line.strip(), question))
        return out


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
