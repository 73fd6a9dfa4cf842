"""RepeatGuard: notices a model that makes the same calls again and again."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Final

from pegboard.core.content import ToolCall

_SAME: Final = 3
_WINDOW: Final = 12


class RepeatGuard:
    """Remembers the last turns' calls, as text."""

    def __init__(self) -> None:
        self._turns: deque[str] = deque(maxlen=_WINDOW)

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
    return arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True, default=str)
