"""RepeatGuard: notices a model that makes the same calls again and again."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Final

from pegboard.core.content import ToolCall
from pegboard.core.result import ToolResult

_SAME: Final = 3
"""So many equal turns in a row are told to the model."""
_WINDOW: Final = 12


class RepeatGuard:
    """Remembers the last turns' calls, as text, and the errors that they ended in."""

    def __init__(self) -> None:
        self._turns: deque[str] = deque(maxlen=_WINDOW)
        self._failed: deque[str] = deque(maxlen=_WINDOW)

    def warning(self, calls: Sequence[ToolCall]) -> str:
        """A note for the model when this turn repeats the turns before it, else an empty text."""
        key = "\n".join(f"{c.name} {_text(c.arguments)}" for c in calls)
        self._turns.append(key)
        same = _tail(self._turns, 1)
        if same >= _SAME:
            return (
                f"[The same call was made {same} times in a row with the same arguments. Try something else.]"
            )
        pairs = _tail(self._turns, 2)
        if pairs >= _SAME:
            return f"[The same two calls alternate for the {pairs}th time. Try something else.]"
        return ""

    def no_progress(self, results: Sequence[ToolResult]) -> str:
        """Why a run ends whose model was told that it repeats itself and repeats the same failing calls; else empty.

        Call it once for each turn, behind `warning`; a turn of which one call succeeded ends nothing.
        """
        errors = [r.error for r in results if r.error is not None]
        if not errors or len(errors) < len(results):
            self._failed.clear()
            return ""
        self._failed.append(f"{self._turns[-1]}\n{[e.code for e in errors]}")
        names = " and ".join(dict.fromkeys(r.tool or "a call" for r in results))
        for period, said in ((1, ""), (2, " in turn with another call")):
            count = _tail(self._failed, period)
            if count > _SAME:
                return f"{names} was called {count} times{said} with the same arguments and failed each time: {errors[0]}"
        return ""


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
