"""`pegboard chat`: a conversation at the terminal, with its tools, approvals and history in view."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, cast

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from pegboard.app.app import App
from pegboard.cli.chat_commands import (
    COMMANDS,
    ChatState,
    find_conversation,
    print_conversations,
    run_command,
    todo_line,
)
from pegboard.cli.chat_terminal import ChatApprover, ChatPeople, ChatTerminal, prompts_on
from pegboard.cli.errors import INTERRUPTED
from pegboard.cli.markdown import MarkdownStream, render
from pegboard.cli.model_setup import accept_server
from pegboard.cli.option_types import (
    Code,
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
from pegboard.cli.policy import print_decision
from pegboard.cli.progress import EventPrinter
from pegboard.cli.prompt import read_line
from pegboard.cli.run import in_worktree, print_warnings, watch
from pegboard.cli.show import escape_controls, note_of, paint, print_event, print_line, print_note
from pegboard.cli.stdin import StdinLines
from pegboard.core.call.call import new_id
from pegboard.core.errors import BuildError, PegboardError
from pegboard.core.events import CallFinished, Event, ModelReplied, RunFinished
from pegboard.core.policy.approval import AllowOnce, ApprovalRequest
from pegboard.core.transcript import Usage
from pegboard.runtime.fold import without_rewound
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import Conversation, model_line

_ENDING_S: Final = 2.0
_MODE_KEY: Final = ("plan", "ask", "workspace", "auto")
"""What Shift+Tab goes through."""


def chat_command(
    conversation: Annotated[
        str | None, typer.Argument(metavar="ID", help="With --resume: the chat to continue.")
    ] = None,
    model: ModelName = None,
    session: SessionKey = None,
    last: Annotated[
        bool, typer.Option("--continue", "-c", "--last", help="Continue the latest chat of this workspace.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a chat by its ID; without an ID, choose one.")
    ] = False,
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Work in a git worktree and branch of the chat's own.")
    ] = False,
    code: Code = False,
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
        code=code,
    )
    if conversation is not None and not resume:
        raise BuildError(f"chat takes no {conversation!r}; to continue a chat: pegboard chat --resume ID")
    wanted = (conversation or "") if resume else None
    exit_with(
        chat(model=model, session=session, last=last, resume=wanted, worktree=worktree, options=options)
    )


def chat(
    *,
    model: str | None,
    session: str | None,
    last: bool,
    resume: str | None = None,
    worktree: bool = False,
    options: Options,
) -> int:
    """Carry out the command; the exit status."""

    async def talk(app: App) -> int:
        key = session
        if resume is not None:
            key = await _chosen(app, resume, options)
            if key is None:
                return 0
        elif key is None and last:
            latest = await app.sessions.conversations(limit=1)
            key = latest[0].session if latest else None
            if key is None:
                print_note("no earlier chat in this workspace; starting a new one")
        key = key or new_id("chat")
        if not worktree:
            return await _until_ended(Chat(app, key, model, options))

        async def there(app: App) -> int:
            return await _until_ended(Chat(app, key, model, options))

        return await in_worktree(app, key, there, command="chat")

    return options.run(talk)


async def _chosen(app: App, wanted: str, options: Options) -> str | None:
    """The conversation of an ID, or the one that the person picks from the list; None where none was picked."""
    if wanted:
        return await find_conversation(app, wanted)
    rows = await app.sessions.conversations()
    print_conversations(rows)
    if not rows:
        return None
    if not options.attended:
        print_line("continue one: pegboard chat --resume ID")
        return None
    line = await read_line("which one? (number of its line, or ID; Enter = the first) ")
    if line is None:
        return None
    number = int(line) if line.strip().isdecimal() and line.isascii() else 0
    if 1 <= number <= len(rows) or not line.strip():
        return rows[max(number, 1) - 1].session
    return await find_conversation(app, line.strip())


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


class Chat:
    """One person at one terminal, in one conversation at a time.

    Args:
        app: settings, services and tools.
        session: the key of the conversation; an earlier one under it goes on.
        model: as `--model` takes it.
        options: the command's.
    """

    def __init__(self, app: App, session: str, model: str | None, options: Options) -> None:
        self._app = app
        self._session = session
        self._model = model
        self._options = options
        typed = _typed(app, self._next_mode) if sys.stdin.isatty() else StdinLines(sys.stdin)
        self._terminal = ChatTerminal(typed, stop=self._stop)
        self._approver = ChatApprover(self._terminal)
        self._talk: Conversation | None = None
        self._work: asyncio.Task[None] | None = None
        self._ahead: list[str] = []
        """Lines typed for a run that has begun and cannot take them yet."""
        self._context = self._todos = ""
        self._usage = Usage()

    async def run(self) -> int:
        """Talk until the person leaves; the exit status."""
        interaction = Interaction(
            approver=AllowOnce() if self._options.yes else self._approver,
            people=[ChatPeople(self._terminal)],
            notify=note_of,
            # Only at the start: later the line belongs to the conversation.
            accept_server=accept_server if self._options.attended else None,
        )
        following: str | None = self._session
        while following is not None:
            self._session = following
            following = await self._converse(interaction)
            interaction = replace(interaction, accept_server=None)
        if self._talk is not None and self._talk.earlier():
            print_note(f"conversation saved; continue with: pegboard chat --resume {self._session}")
        return 0

    async def _converse(self, interaction: Interaction) -> str | None:
        """One conversation; the key of the one that follows, None where the person leaves."""
        async with self._app.sessions.open(self._session, interaction, model=self._model) as talk:
            state = ChatState(
                app=self._app,
                talk=talk,
                interaction=replace(interaction, accept_server=None),
                usage=self._usage,
            )
            self._talk = talk
            self._approver.explain = partial(_explain, talk)
            try:
                self._greet(talk)
                await self._print_last(talk, self._print_model(talk))
                self._count_context()
                self._terminal.status(self._status)
                return await self._read_lines(state)
            except asyncio.CancelledError:
                self._stop()
                raise
            finally:
                await self._settled()
                self._usage = state.usage

    async def _read_lines(self, state: ChatState) -> str | None:
        while (text := await self._terminal.read()) is not None:
            if text.startswith("/") and (prompt := await self._expanded(text)) is not None:
                await self._take(prompt, state)
            elif text.startswith("/"):
                match (await self._command(text, state)).split():
                    case ["exit"]:
                        self._stop()
                        return None
                    case ["new"]:
                        print_note(f"the conversation before: /resume {self._session}")
                        return new_id("chat")
                    case ["resume", key]:
                        return key
                    case _:
                        pass
            elif text.startswith("!") and text[1:].strip():
                await self._take_command(text[1:].strip(), state)
            elif text.strip():
                await self._take(text, state)
            if not self._terminal.is_interactive:
                await self._settled()
        self._stop()
        return None

    def _greet(self, talk: Conversation) -> None:
        print_warnings(self._app, talk)
        if self._options.json:
            return
        mode = talk.executor.policy.mode
        print_line(paint(f"session {self._session}, mode {mode}, {self._app.workspace}", "dim"))
        if self._terminal.is_interactive:
            keys = "Enter sends, Alt+Enter or a final \\ begins a new line, /help lists commands"
            print_line(paint(keys, "dim"))

    def _print_model(self, talk: Conversation) -> list[Event]:
        """Who answers, where the data goes, and what is known of before."""
        print_note(model_line(talk.model))
        if events := without_rewound(talk.earlier()):
            count = sum(e.type == "message.user" for e in events)
            print_note(f"{count} earlier message{'' if count == 1 else 's'} loaded")
        return events

    async def _expanded(self, text: str) -> str | None:
        """The prompt of a slash command from a file; None if it is one of the chat's own, or of no file."""
        return None if text.split()[0] in COMMANDS else await self._app.slash_commands.expand(text)

    async def _print_last(self, talk: Conversation, events: Sequence[Event]) -> None:
        """What was said last, for a person who comes back."""
        ended = next((e for e in reversed(events) if isinstance(e, RunFinished)), None)
        said = await talk.messages()
        if self._terminal.is_interactive and not self._options.json and said and ended is not None:
            redact = self._app.redactor.redact
            print_line(paint(f"> {escape_controls(redact(said[-1].text)[0])}", "dim"))
            print_line(render(escape_controls(redact(ended.answer)[0])))

    # -- below the prompt ---------------------------------------------------------------------

    def _status(self) -> str:
        """The line below the prompt, as wide as the terminal at most."""
        if self._talk is None:
            return ""
        busy = "Ctrl+C stops the run, Enter adds a message" if self._busy else model_name(self._talk)
        policy = self._talk.executor.policy
        mode = f"mode {policy.mode}{'' if policy.planned is None else ', as planned'} (Shift+Tab)"
        parts = [mode, self._context, self._todos, busy]
        return "  ".join(p for p in parts if p)[: shutil.get_terminal_size().columns]

    def _count_context(self) -> None:
        if self._talk is not None and self._terminal.is_interactive:
            use = self._talk.context_use()
            todos = self._talk.todos()
            self._todos = todo_line(todos) if todos else ""
            self._context = (
                f"context {use.tokens / 1000:.1f}k" if use.share is None else f"context {use.share:.0%}"
            )

    def _next_mode(self) -> None:
        """Shift+Tab: the next mode; `read-only` and `full` are set by name."""
        if self._talk is not None:
            mode = self._talk.executor.policy.mode
            place = _MODE_KEY.index(mode) + 1 if mode in _MODE_KEY else 0
            self._talk.set_mode(_MODE_KEY[place % len(_MODE_KEY)])

    # -- commands and messages ----------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        return self._work is not None and not self._work.done()

    async def _command(self, text: str, state: ChatState) -> str:
        """Carry out a slash command; what the chat does next, see `run_command`."""
        name = text.split()[0]
        if name in COMMANDS and COMMANDS[name].alone:
            await self._wait_end()
        if self._busy and name in COMMANDS and COMMANDS[name].alone:
            print_line(paint(f"{name} is not available during a run; Ctrl+C stops the run", "yellow"))
            return ""
        try:
            done = await run_command(text, state)
        except PegboardError as error:
            print_line(paint(escape_controls(str(error)), "red"))
            return ""
        if done == "model":
            self._model = text.partition(" ")[2].strip()
            self._print_model(state.talk)
        self._terminal.draft, state.draft = state.draft, ""
        self._count_context()
        return done

    async def _wait_end(self) -> None:
        """Give a run that has just said its last word the moment that it takes to end."""
        if self._work is not None and not self._work.done():
            await asyncio.wait([self._work], timeout=_ENDING_S)

    async def _take_command(self, command: str, state: ChatState) -> None:
        """`!command`: run it for the person; the model reads its output with the next message."""
        await self._wait_end()
        if self._busy:
            print_line(paint("! is not available during a run; Ctrl+C stops the run", "yellow"))
            return
        self._work = asyncio.ensure_future(self._until_stopped(self._run_command(command, state)))

    async def _run_command(self, command: str, state: ChatState) -> None:
        show = self._printer(most_lines=None)
        await state.talk.run_command(command, show)

    async def _take(self, text: str, state: ChatState) -> None:
        """A message: of the run that goes on, or the task of the next one; with the files that it names."""
        text, missed = await state.talk.attach_files(text)
        for why in missed:
            print_note(f"not attached: {escape_controls(why)}")
        if not self._busy:
            self._work = asyncio.ensure_future(self._until_stopped(self._say(text, state)))
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

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        self._terminal.redraw()
        try:
            await work
        except asyncio.CancelledError:
            self._ahead.clear()
            print_line(paint("\nstopped", "yellow"))
        except PegboardError as error:
            print_line(paint(escape_controls(str(error)), "red"))
        finally:
            self._terminal.tail = lambda rows: ""
            self._count_context()
            # The task that this runs in is done only afterwards.
            asyncio.get_running_loop().call_soon(self._terminal.redraw)

    async def _say(self, text: str, state: ChatState) -> None:
        """A run, and one for each line that came too late for the one before."""
        self._ahead.append(text)
        while self._ahead:
            await self._watch(self._ahead.pop(0), state)

    async def _watch(self, text: str, state: ChatState) -> None:
        show = self._printer()

        def on_event(event: Event) -> None:
            while self._ahead and state.talk.tell(self._ahead[0]):
                del self._ahead[0]
            show(event)
            if isinstance(event, ModelReplied | CallFinished):
                self._count_context()
            if isinstance(event, RunFinished):
                self._end(event, state)

        # Lines of a pipe may be anybody's: no address in them is the person's choice.
        await watch(state.talk.send(text, typed=self._terminal.is_interactive), on_event)

    def _printer(self, *, most_lines: int | None = 12) -> Callable[[Event], None]:
        """Prints events, as JSON or for a person; nothing that it prints holds a secret."""
        redact = self._app.redactor.redact
        if self._options.json:
            return partial(print_event, redact=redact)
        live = MarkdownStream(self._terminal.redraw, redact=redact) if self._terminal.is_interactive else None
        printer = EventPrinter(live, redact=redact, most_lines=most_lines)
        self._terminal.tail = printer.tail
        return printer.show

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


async def _explain(talk: Conversation, request: ApprovalRequest) -> None:
    """Print which rules decided about a call that asks, and which were tried."""
    shown = await talk.executor.explain(request.tool, cast("Any", request.call.arguments))
    if "error" in shown:
        print_line(paint(escape_controls(str(shown["error"].get("message", ""))), "red"))
    else:
        print_decision(shown, verbose=True)


def model_name(talk: Conversation) -> str:
    """A model's name without the folder of a file."""
    provider, colon, name = escape_controls(talk.model.name).partition(":")
    return (
        f"{provider}{colon}{name.rpartition('/')[2]}" if name.startswith("/") else f"{provider}{colon}{name}"
    )


def _typed(app: App, next_mode: Callable[[], None]) -> PromptSession[str]:
    """The prompt that lines are typed at."""
    history = app.paths.state / "chat-history"
    if not history.exists():
        # Made by us first: what was typed is for nobody else to read.
        history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
    return PromptSession(
        history=FileHistory(str(history)), completer=_Commands(app), key_bindings=_keys(next_mode),
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


def _keys(next_mode: Callable[[], None]) -> KeyBindings:
    """Enter sends; Alt+Enter, or Enter behind a backslash, begins a new line; Shift+Tab changes the mode."""
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

    @keys.add("s-tab")
    def change_mode(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        next_mode()
        event.app.invalidate()

    return keys
