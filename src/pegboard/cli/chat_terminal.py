"""ChatTerminal: the one terminal of a chat, where a line is read while a run goes on and questions come between."""

from __future__ import annotations

import asyncio
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.patch_stdout import patch_stdout

from pegboard.cli.approve import Explain, read_answers
from pegboard.cli.people import chosen
from pegboard.cli.show import escape_controls, paint, print_line
from pegboard.cli.stdin import StdinLines
from pegboard.core.call.call import new_id
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused, Waiting
from pegboard.ports.people import Question, waiting_for

_PROMPT: Final = "> "
_ANSWERS: Final = "yntrsa?ew"
"""The keys of `approve.KEYS`, and those for a list and a long diff."""
_FEWEST_ROWS: Final = 3
_PAUSE_S: Final = 0.5


def prompts_on() -> Output | None:
    """Where prompts are drawn; None = standard output.

    Standard output is what was said and done: where it goes to a file or program, prompts stand on standard error.
    """
    return None if sys.stdout.isatty() else create_output(stdout=sys.stderr)


class _Aside(Exception):
    """The line being typed is put aside: something has to be asked."""


class ChatTerminal:
    """Reads lines for the conversation; a question takes the terminal and gives it back with what was typed.

    Args:
        line: the conversation's prompt, where a person types: then a line is read while a run goes on, and what was
            typed before a question was shown is no answer to it.
        piped: gives the lines where nobody types; they wait for the run before them, and no prompt is drawn.
        stop: ends the run that goes on; False where none does.

    Attributes:
        tail: what stands above the prompt and still changes, at most so many lines of it.
        draft: the text that the next prompt begins with.
    """

    def __init__(self, line: PromptSession[str] | StdinLines, *, stop: Callable[[], bool]) -> None:
        self._line = line if isinstance(line, PromptSession) else None
        self._piped = None if isinstance(line, PromptSession) else line
        self._stop = stop
        self._free = asyncio.Lock()
        self._wanted = 0
        self.draft = ""
        self.tail: Callable[[int], str] = _nothing

    @property
    def is_interactive(self) -> bool:
        """Whether a person types."""
        return self._line is not None

    async def read(self) -> str | None:
        """The next line for the conversation, None at the end of input."""
        if self._piped is not None:
            try:
                return await self._piped.message()
            except EOFError:
                return None
        assert self._line is not None
        app = self._line.app
        while True:
            async with self._free:
                draft, self.draft = self.draft, ""
                app.erase_when_done = False
                try:
                    with patch_stdout(raw=True):
                        return await self._line.prompt_async(
                            self._message, default=draft, pre_run=self._make_way
                        )
                except _Aside:
                    continue
                except KeyboardInterrupt:
                    if not self._stop():
                        print_line(paint("Ctrl+D ends the chat", "dim"))
                except EOFError:
                    return None

    def redraw(self) -> None:
        """What stands above or below the prompt has changed."""
        if self._line is not None:
            self._line.app.invalidate()

    def status(self, text: Callable[[], str]) -> None:
        """What stands in the line below the prompt."""
        if self._line is not None:
            self._line.bottom_toolbar = text
            self._line.app.invalidate()

    @asynccontextmanager
    async def suspend_input(self) -> AsyncGenerator[None]:
        """The terminal, for a question; the line being typed is put aside and comes back behind it."""
        self._wanted += 1
        try:
            self._make_way()
            async with self._free:
                yield
        finally:
            self._wanted -= 1

    def discard_typeahead(self) -> None:
        """Forget what was typed before a question was shown: it cannot be an answer to it."""
        if self._line is None:
            return
        clear_typeahead(self._line.input)
        with suppress(termios.error, ValueError, OSError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    async def answer(self, prompt: str, options: Iterable[str] = ()) -> str:
        """A line that answers a question; the terminal has been taken for it. Ctrl+C ends the run.

        Raises:
            EOFError: the input has ended.
        """
        if self._piped is not None:
            return await self._piped.line()
        line: PromptSession[str] = PromptSession(completer=WordCompleter(list(options)), output=prompts_on())
        return await self._prompt(line, prompt)

    async def key(self, prompt: str, keys: str) -> str:
        """One of some keys; others do nothing. Ctrl+C ends the run.

        Raises:
            EOFError: Ctrl+D.
        """
        bindings = KeyBindings()
        loop = asyncio.get_running_loop()
        # Who was in the middle of a sentence did not mean its next letters as an answer.
        typing_until = loop.time() + _PAUSE_S if self.draft else 0.0

        def take(event: KeyPressEvent) -> None:
            nonlocal typing_until
            if loop.time() < typing_until:
                typing_until = loop.time() + _PAUSE_S
                return
            key = event.data.lower()
            event.current_buffer.insert_text(key)
            event.app.exit(result=key)

        def ignore(event: KeyPressEvent) -> None:
            nonlocal typing_until
            if typing_until:
                typing_until = loop.time() + _PAUSE_S

        for one in ("<any>", "enter"):
            bindings.add(one)(ignore)
        for one in {*keys.lower(), *keys.upper()}:
            bindings.add(one)(take)
        return await self._prompt(PromptSession(key_bindings=bindings, output=prompts_on()), prompt)

    async def _prompt(self, line: PromptSession[str], prompt: str) -> str:
        try:
            with patch_stdout(raw=True):
                return await line.prompt_async(prompt)
        except KeyboardInterrupt:
            if self._stop():
                # The run that asks is being cancelled, and this with it.
                await asyncio.get_running_loop().create_future()
            raise EOFError from None

    def _make_way(self) -> None:
        if self._line is None:
            return
        app = self._line.app
        if self._wanted and app.is_running and not app.is_done:
            self.draft = self._line.default_buffer.text
            app.erase_when_done = True
            app.exit(exception=_Aside())

    def _message(self) -> StyleAndTextTuples:
        assert self._line is not None
        rows = self._line.app.output.get_size().rows // 2
        tail = self.tail(max(_FEWEST_ROWS, rows))
        return [*(to_formatted_text(ANSI(f"{tail}\n")) if tail else ()), ("", _PROMPT)]


def _nothing(rows: int) -> str:
    return ""


class ChatApprover:
    """Shows exact effects and diffs in the conversation, those of a turn as one list, and reads the answer there.

    Attributes:
        explain: prints which rules decided about a call; None = nothing can.
    """

    def __init__(self, terminal: ChatTerminal) -> None:
        self._terminal = terminal
        self.explain: Explain | None = None

    async def decide(self, request: ApprovalRequest) -> Approved | Refused:
        """The person's answer; an end of input is a no."""
        return (await self.decide_all([request]))[0]

    async def decide_all(self, requests: Sequence[ApprovalRequest]) -> list[Approved | Refused]:
        """The person's answer to all requests, or to each; an end of input is a no."""
        async with self._terminal.suspend_input():
            keys = self._terminal.is_interactive
            return await read_answers(requests, self._read, keys=keys, explain=self.explain)

    async def _read(self, prompt: str) -> str | None:
        self._terminal.discard_typeahead()
        try:
            if not self._terminal.is_interactive:
                return await self._terminal.answer(prompt)
            key = await self._terminal.key(prompt, _ANSWERS)
            return f"n: {await self._terminal.answer('no, because: ')}" if key == "t" else key
        except EOFError:
            return None


class ChatPeople:
    """Asks the questions of `ask_user` in the conversation."""

    def __init__(self, terminal: ChatTerminal) -> None:
        self._terminal = terminal

    async def ask(self, questions: Sequence[Question]) -> list[str] | Waiting:
        """The answers in order; Waiting where the person does not answer in time."""
        out: list[str] = []
        async with self._terminal.suspend_input():
            for question in questions:
                print_line(paint(f"\n? {escape_controls(question.text)}", "bold"))
                for number, option in enumerate(question.options, 1):
                    print_line(f"  {number}. {escape_controls(option)}")
                self._terminal.discard_typeahead()
                asked = self._terminal.answer("answer: ", question.options)
                try:
                    line = await asyncio.wait_for(asked, question.timeout_s)
                except (TimeoutError, EOFError):
                    return waiting_for(questions, new_id("q"))
                out.append(chosen(line.strip(), question))
        return out
