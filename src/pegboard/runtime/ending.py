"""Ending: what a model turn without calls means for the run: its end, or a note and another turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pegboard.core.transcript import AssistantMessage

Status: TypeAlias = Literal["done", "suspended", "limit", "failed"]

BUDGET_NOTE: Final = (
    "[The budget of this run is used up ({what}). Answer now with what you have, without calling tools; "
    "say what is missing.]"
)
CUT_NOTE: Final = "[Your answer was cut off by the output limit. Go on where it stopped, in smaller pieces.]"
MALFORMED_NOTE: Final = (
    "[A tool call of yours could not be read and was not run. Send it again in the right form.]"
)
EMPTY_NOTE: Final = "[Your answer was empty. Answer in text, or call a tool.]"
MISFIT_NOTE: Final = (
    "[Your answer does not fit the wanted output: ",
    ". Answer again with JSON only.]",
)
"""What stands before and behind the reason."""
_NUDGES: Final = 2


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ends."""

    status: Status
    answer: str
    error: str = ""
    output: Any = None


class CompletionCheck:
    """Judges the turns of one run.

    Args:
        read_output: reads a typed answer; raises ValueError with what is wrong. None = text.
    """

    def __init__(self, read_output: Callable[[str], Any] | None) -> None:
        self._read_output = read_output
        self._nudges = 0
        self.begun = ""
        """What earlier turns of a cut answer said; the answer is the whole of it."""

    def check(self, message: AssistantMessage) -> RunEnd | str:
        """The end, or the note that asks the model for another turn."""
        ended = self._judge(message)
        if isinstance(ended, str):
            self._nudges += 1
            self.begun = self.begun + message.text if message.stop == "length" else ""
        return ended

    def read(self, text: str) -> Any:
        """The typed output that a text holds, None where it holds none or none is wanted."""
        try:
            return None if self._read_output is None else self._read_output(text)
        except ValueError:
            return None

    def _judge(self, message: AssistantMessage) -> RunEnd | str:
        text = self.begun + message.text
        again = self._nudges < _NUDGES
        if message.stop in ("refusal", "filtered"):
            status: Status = "done" if self._read_output is None else "failed"
            return RunEnd(status, text or "The model declined to answer.", f"stop: {message.stop}")
        if message.stop == "error":
            return RunEnd("failed", text, "the model ended its turn with an error")
        if again and message.stop == "length":
            return CUT_NOTE
        if message.stop == "malformed":
            failed = RunEnd("failed", text, "the model's tool calls could not be read, three times")
            return MALFORMED_NOTE if again else failed
        if not text.strip():
            return EMPTY_NOTE if again else RunEnd("failed", "", "the model answered nothing, three times")
        cut = "the answer is cut off by the output limit" if message.stop == "length" else ""
        if self._read_output is None:
            return RunEnd("done", text, cut)
        try:
            return RunEnd("done", text, "", self._read_output(text))
        except ValueError as wrong:
            if self.begun and (whole := self.read(message.text)) is not None:
                # It did not go on but began again.
                return RunEnd("done", message.text, "", whole)
            if again:
                return f"{MISFIT_NOTE[0]}{wrong}{MISFIT_NOTE[1]}"
            return RunEnd("failed", text, f"the answer does not fit the wanted output: {wrong}")
