"""Progress: the events of a run as lines for a person."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pegboard.cli.show import effects_line, paint, print_changes, safe, say
from pegboard.cli.status import LINE
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

_MOST_LINES = 12


class Progress:
    """Prints events; remembers whether the model's text is on an unfinished line.

    Args:
        partial: shows the unfinished line where a prompt stands below the output; None = it is printed as it comes.
    """

    def __init__(self, partial: Callable[[str], None] | None = None) -> None:
        self._streaming = False
        self._partial = partial
        self._line = ""

    def show(self, event: Event) -> None:
        """Print one event, if a person wants to see it."""
        match event:
            case TextPiece(text) if self._partial is not None:
                *whole, self._line = (self._line + safe(text)).split("\n")
                for line in whole:
                    say(line)
                self._partial(self._line)
            case TextPiece(text):
                LINE.set("")
                sys.stdout.write(safe(text))
                sys.stdout.flush()
                self._streaming = not text.endswith("\n")
            case ModelReplied():
                self._end_line()
            case CallStarted():
                self._end_line()
                LINE.set(safe(event.tool))
                verdict = {"allow": "green", "ask": "yellow", "deny": "red"}[event.decision]
                decided: str = event.decision
                if event.approver not in ("", "nobody"):
                    verb = "refused" if event.decision == "deny" else "approved"
                    decided = f"{event.decision}, {verb} by {event.approver}"
                say(
                    f"{paint('▸ ' + event.tool, 'bold')}  {effects_line(event.effects)}  [{paint(decided, verdict)}]"
                )
                if event.decision != "deny":
                    print_changes(event.changes)
            case CallFinished(result):
                self._end_line()
                LINE.set("the model thinks")
                lines = safe(result.text if result.ok else str(result.error)).splitlines()
                for line in lines[:_MOST_LINES]:
                    say(paint(f"  {line}", "dim" if result.ok else "red"))
                if len(lines) > _MOST_LINES:
                    say(paint(f"  … {len(lines) - _MOST_LINES} more lines", "dim"))
                if not result.ok:
                    say(paint("  failed", "red"))
            case CallUpdate():
                say(paint(f"  {safe(str(event.update))}", "dim"))
            case DestinationTried():
                verdict_of = "reached" if event.allowed else "refused"
                said = f"  {verdict_of} {safe(event.host)}:{event.port} ({safe(event.reason)})"
                say(paint(said, "dim" if event.allowed else "yellow"))
            case PermissionRequested():
                self._end_line()
            case RunFinished():
                self._end_line()
            case Notice():
                say(paint(f"  note: {safe(event.text)}", "yellow"))
            case _:
                pass

    def _end_line(self) -> None:
        if self._streaming:
            say()
            self._streaming = False
        if self._partial is not None and self._line:
            say(self._line)
            self._line = ""
            self._partial("")
