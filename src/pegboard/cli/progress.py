"""Progress: the events of a run as lines for a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TextIO

from pegboard.cli.markdown import MarkdownStream
from pegboard.cli.show import (
    decision_text,
    effects_line,
    escape_controls,
    is_terminal,
    paint,
    print_changes,
    print_line,
    wrapped,
)
from pegboard.cli.status import LINE
from pegboard.core.effects import Change, Effect
from pegboard.core.errors import SuspendedCall
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    CallUpdate,
    DestinationTried,
    Event,
    ModelReplied,
    Notice,
    PermissionJudged,
    PermissionRequested,
    RunFinished,
    TextPiece,
)
from pegboard.core.result import ToolResult
from pegboard.services.calls import REFUSALS
from pegboard.services.redaction import Redact, shown_event

_MOST_LINES = 12
_MOST_KEPT = 60


class EventPrinter:
    """Prints events; remembers whether the model's text is on an unfinished line.

    Args:
        live: shows the model's text as Markdown where a prompt stands below the output; None = it is printed as it comes.
        redact: takes secrets out of what calls do; None = there are none to take out.
        stream: where all but the answer goes; None = standard output.
        quiet: print nothing but the answer.
        most_lines: of a result; None = all.
    """

    def __init__(
        self,
        live: MarkdownStream | None = None,
        *,
        redact: Redact | None = None,
        stream: TextIO | None = None,
        quiet: bool = False,
        most_lines: int | None = _MOST_LINES,
    ) -> None:
        self._redact = redact
        self._stream = stream
        self._quiet = quiet
        self._watched = not quiet and (stream is None or is_terminal())
        self._last = ""
        self._streaming = False
        self._live = live
        self._line = ""
        self._most_lines = most_lines
        self._output: dict[str, list[str]] = {}
        self._asked: dict[str, PermissionRequested] = {}
        self._shown: dict[str, list[str]] = {}

    def show(self, event: Event) -> None:
        """Print one event, if a person wants to see it."""
        if self._redact is not None:
            event = shown_event(event, self._redact)
        match event:
            case TextPiece(text) if self._live is not None:
                self._live.feed(text)
            case TextPiece(text) if not self._watched or (self._redact is not None and not is_terminal()):
                # Into a file or pipe: what looks like a key comes in pieces, and nobody watches it come.
                self._line += text
            case TextPiece(text):
                LINE.set("")
                sys.stdout.write(escape_controls(text))
                sys.stdout.flush()
                self._streaming = not text.endswith("\n")
            case ModelReplied(message):
                self._last = message.text
                if not self._watched and message.calls:
                    self._print(escape_controls(self._taken().strip("\n")))
                elif not self._watched:
                    self._line = ""  # The run's end brings it as the answer.
                self._end_line()
            case CallStarted():
                self._end_line()
                LINE.set(escape_controls(event.tool))
                verdict = {"allow": "green", "ask": "yellow", "deny": "red"}[event.decision]
                decided = decision_text(event.decision, event.approver)
                self._head(event.tool, event.effects, self._paint(decided, verdict))
                self._asked.pop(event.call_id, None)
                if event.decision != "deny":
                    if event.approver != "terminal":  # Who said yes here has just seen them.
                        self._changes(event.changes)
                    self._shown[event.call_id] = [c.diff for c in event.changes if c.diff]
            case CallFinished(result):
                self._end_line()
                LINE.set("waiting for the model")
                self._finished(result)
            case CallUpdate(update={"output": str(text)}):
                # What a command has written so far; its result says it again, whole.
                lines = escape_controls(text.rstrip("\n")).split("\n")
                self._output[event.call_id] = [*self._output.get(event.call_id, ()), *lines][-_MOST_KEPT:]
                if self._live is not None:
                    self._live.changed()
            case CallUpdate():
                self._print(self._paint(f"  {escape_controls(str(event.update))}", "dim"))
            case DestinationTried():
                verdict_of = "reached" if event.allowed else "refused"
                said = f"  {verdict_of} {escape_controls(event.host)}:{event.port} ({escape_controls(event.reason)})"
                self._print(self._paint(said, "dim" if event.allowed else "yellow"))
            case PermissionJudged():
                self._end_line()
                said = "allowed" if event.answer == "allow" else "a person decides"
                self._print(self._paint(f"  auto: {said} ({escape_controls(event.reason)})", "dim"))
            case PermissionRequested():
                self._end_line()
                self._asked[event.call_id] = event
            case RunFinished(answer=answer, output=output):
                self._end_line()
                if output is not None and not self._watched:
                    # A program reads it: the JSON alone, without the words and fences that a model puts around it.
                    answer = json.dumps(output, ensure_ascii=False, default=str)
                if answer and (not self._watched or (self._stream is not None and answer != self._last)):
                    print_line(escape_controls(self._masked(answer).removesuffix("\n")))
            case Notice():
                self._end_line()
                self._print(self._paint(f"  note: {escape_controls(event.text)}", "yellow"))
            case _:
                pass

    def tail(self, rows: int) -> str:
        """The last lines of what is still being written, for the place above a prompt; empty if there is nothing."""
        written = self._live.tail(rows) if self._live is not None else ""
        lines = [self._paint(f"  {line}", "dim") for output in self._output.values() for line in output]
        return written or "\n".join(lines[-rows:])

    def _head(self, tool: str, effects: tuple[Effect, ...], decided: str) -> None:
        self._print(
            f"{self._paint('▸ ' + escape_controls(tool), 'bold')}  {effects_line(effects)}  [{decided}]"
        )

    def _finished(self, result: ToolResult) -> None:
        asked = self._asked.pop(result.call_id, None)
        self._output.pop(result.call_id, None)
        if result.error is not None and result.error.code == SuspendedCall.default_code:
            if asked is not None:  # Only what was decided has had its line yet.
                self._head(asked.tool, asked.effects, self._paint("ask", "yellow"))
                self._changes(asked.changes)
            self._print(self._paint(f"  {escape_controls(str(result.error))}", "yellow"))
            return
        text = result.text if result.ok else str(result.error)
        for diff in self._shown.pop(result.call_id, ()):
            text = text.replace(
                diff.strip("\n"), ""
            )  # A person has just seen it; the result is for the model.
        lines = escape_controls(text.strip("\n")).splitlines()
        most = len(lines) if self._most_lines is None else self._most_lines
        for line in lines[:most]:
            shown = f"  {line}" if result.ok else wrapped(line, indent="  ", stream=self._stream)
            self._print(self._paint(shown, "dim" if result.ok else "red"))
        if len(lines) > most:
            self._print(self._paint(f"  … {len(lines) - most} more lines", "dim"))
        if not result.ok:
            refused = result.error is not None and result.error.code in REFUSALS
            self._print(self._paint("  denied" if refused else "  failed", "red"))

    def _end_line(self) -> None:
        if self._streaming:
            print_line()
            self._streaming = False
        if self._line:
            print_line(escape_controls(self._taken().removesuffix("\n")))
        if self._live is not None:
            self._live.end()

    def _taken(self) -> str:
        text, self._line = self._masked(self._line), ""
        return text

    def _masked(self, text: str) -> str:
        return text if self._redact is None else self._redact(text)[0]

    def _print(self, text: str) -> None:
        if not self._quiet:
            LINE.clear()
            print(text, file=self._stream, flush=True)

    def _paint(self, text: str, colour: str) -> str:
        return paint(text, colour, stream=self._stream)

    def _changes(self, changes: Iterable[Change]) -> None:
        if not self._quiet:
            print_changes(changes, stream=self._stream)
