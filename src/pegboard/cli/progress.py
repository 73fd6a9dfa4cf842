"""Progress: the events of a run as lines for a person."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pegboard.cli.show import (
    decision_text,
    effects_line,
    escape_controls,
    is_terminal,
    paint,
    print_changes,
    print_line,
)
from pegboard.cli.status import LINE
from pegboard.core.effects import Effect
from pegboard.core.errors import SuspendedCall
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    CallUpdate,
    DestinationTried,
    Event,
    ModelReplied,
    Notice,
    PermissionRequested,
    RunFinished,
    TextPiece,
)
from pegboard.core.result import ToolResult
from pegboard.services.calls import REFUSALS
from pegboard.services.redaction import Redact, shown_event

_MOST_LINES = 12


class EventPrinter:
    """Prints events; remembers whether the model's text is on an unfinished line.

    Args:
        partial: shows the unfinished line where a prompt stands below the output; None = it is printed as it comes.
        redact: takes secrets out of what calls do; None = there are none to take out.
    """

    def __init__(self, partial: Callable[[str], None] | None = None, *, redact: Redact | None = None) -> None:
        self._redact = redact
        self._streaming = False
        self._partial = partial
        self._line = ""
        self._asked: dict[str, PermissionRequested] = {}
        self._shown: dict[str, list[str]] = {}

    def show(self, event: Event) -> None:
        """Print one event, if a person wants to see it."""
        if self._redact is not None:
            event = shown_event(event, self._redact)
        match event:
            case TextPiece(text) if self._partial is not None:
                *whole, self._line = (self._line + escape_controls(text)).split("\n")
                for line in whole:
                    print_line(line)
                self._partial(self._line)
            case TextPiece(text) if self._redact is not None and not is_terminal():
                # Into a file or pipe: what looks like a key comes in pieces, and nobody watches it come.
                self._line += text
            case TextPiece(text):
                LINE.set("")
                sys.stdout.write(escape_controls(text))
                sys.stdout.flush()
                self._streaming = not text.endswith("\n")
            case ModelReplied():
                self._end_line()
            case CallStarted():
                self._end_line()
                LINE.set(escape_controls(event.tool))
                verdict = {"allow": "green", "ask": "yellow", "deny": "red"}[event.decision]
                decided = decision_text(event.decision, event.approver)
                self._head(event.tool, event.effects, paint(decided, verdict))
                self._asked.pop(event.call_id, None)
                if event.decision != "deny":
                    if event.approver != "terminal":  # Who said yes here has just seen them.
                        print_changes(event.changes)
                    self._shown[event.call_id] = [c.diff for c in event.changes if c.diff]
            case CallFinished(result):
                self._end_line()
                LINE.set("waiting for the model")
                self._finished(result)
            case CallUpdate():
                print_line(paint(f"  {escape_controls(str(event.update))}", "dim"))
            case DestinationTried():
                verdict_of = "reached" if event.allowed else "refused"
                said = f"  {verdict_of} {escape_controls(event.host)}:{event.port} ({escape_controls(event.reason)})"
                print_line(paint(said, "dim" if event.allowed else "yellow"))
            case PermissionRequested():
                self._end_line()
                self._asked[event.call_id] = event
            case RunFinished():
                self._end_line()
            case Notice():
                self._end_line()
                print_line(paint(f"  note: {escape_controls(event.text)}", "yellow"))
            case _:
                pass

    def _head(self, tool: str, effects: tuple[Effect, ...], decided: str) -> None:
        print_line(f"{paint('▸ ' + escape_controls(tool), 'bold')}  {effects_line(effects)}  [{decided}]")

    def _finished(self, result: ToolResult) -> None:
        asked = self._asked.pop(result.call_id, None)
        if result.error is not None and result.error.code == SuspendedCall.default_code:
            if asked is not None:  # Only what was decided has had its line yet.
                self._head(asked.tool, asked.effects, paint("ask", "yellow"))
                print_changes(asked.changes)
            print_line(paint(f"  {escape_controls(str(result.error))}", "yellow"))
            return
        text = result.text if result.ok else str(result.error)
        for diff in self._shown.pop(result.call_id, ()):
            text = text.replace(
                diff.strip("\n"), ""
            )  # A person has just seen it; the result is for the model.
        lines = escape_controls(text.strip("\n")).splitlines()
        for line in lines[:_MOST_LINES]:
            print_line(paint(f"  {line}", "dim" if result.ok else "red"))
        if len(lines) > _MOST_LINES:
            print_line(paint(f"  … {len(lines) - _MOST_LINES} more lines", "dim"))
        if not result.ok:
            refused = result.error is not None and result.error.code in REFUSALS
            print_line(paint("  denied" if refused else "  failed", "red"))

    def _end_line(self) -> None:
        if self._streaming:
            print_line()
            self._streaming = False
        if self._line:
            said = self._line if self._redact is None else self._redact(self._line)[0]
            print_line(escape_controls(said.removesuffix("\n")))
            self._line = ""
            if self._partial is not None:
                self._partial("")
