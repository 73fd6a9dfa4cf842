"""RepeatGuard: notices a model that makes the same calls again and again."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Final

from pegboard.core.content import ToolCall
from pegboard.core.result import ToolResult

_SAME: Final = 3
"""So many equal turns in a row are told to the model; so many failing turns that try nothing new end the run."""
_WINDOW: Final = 12
_FAILED: Final = 64
"""Failed calls that are remembered."""


class RepeatGuard:
    """Remembers the last turns' calls, as text, and those that failed since a call last succeeded."""

    def __init__(self) -> None:
        self._turns: deque[str] = deque(maxlen=_WINDOW)
        self._failed: deque[str] = deque(maxlen=_FAILED)
        self._stuck: list[Sequence[ToolResult]] = []

    def warning(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
        """A note for the model when this turn repeats the turns before it, else an empty text.

        Args:
            calls: of the turn.
            results: theirs, in the same order.
        """
        texts = [f"{c.name} {_text(c.arguments)}" for c in calls]
        self._turns.append("\n".join(sorted(texts)))
        self._add_failures(texts, results)
        same = _tail(self._turns, 1)
        if same >= _SAME:
            return (
                f"[The same call was made {same} times in a row with the same arguments. Try something else.]"
            )
        pairs = _tail(self._turns, 2)
        if pairs >= _SAME:
            return f"[The same two calls alternate for the {pairs}th time. Try something else.]"
        if len(self._stuck) == _SAME - 1:
            return f"[{_names(self._stuck)}: these calls failed before with the same arguments. Try something else.]"
        return ""

    def no_progress(self) -> str:
        """Why a run ends whose last turns only repeat failed calls, although the model was told; else empty.

        A call that succeeds, or one that was not tried since, begins the count again.
        """
        if len(self._stuck) < _SAME:
            return ""
        last = next(r.error for r in self._stuck[-1] if r.error is not None)
        return (
            f"no progress: {_names(self._stuck)} failed {_SAME} turns in a row with arguments that had failed before: "
            f"{last}"
        )

    def _add_failures(self, texts: Sequence[str], results: Sequence[ToolResult]) -> None:
        failed = [f"{text} {r.error.code}" for text, r in zip(texts, results, strict=True) if r.error]
        if not failed or len(failed) < len(results):
            self._failed.clear()
            self._stuck.clear()
            return
        if all(one in self._failed for one in failed):
            self._stuck.append(results)
        else:
            self._stuck.clear()
        self._failed.extend(one for one in failed if one not in self._failed)


def _names(turns: Sequence[Sequence[ToolResult]]) -> str:
    """The tools of some turns, each once."""
    return " and ".join(dict.fromkeys(r.tool or "a call" for turn in turns for r in turn))


def _tail(turns: deque[str], period: int) -> int:
    """How often the last `period` turns repeat at the end."""
    items = list(turns)
    unit = items[-period:]
    count = 0
    while len(items) >= period and items[-period:] == unit:
        count += 1
        del items[-period:]
    return count


def _text(arguments: object) -> str:
    """The arguments in one spelling, if they are JSON."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return str(arguments)
    return json.dumps(value, sort_keys=True, default=str)
