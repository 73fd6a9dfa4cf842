"""Spellings: parameters that other systems call by other words, as types for tools of one's own.

A model that has learned another system's tools calls ours with its words: `max_results` for `count`, `target` for
`chat_id`, `pd` for `day`. A tool whose parameters are typed with these takes the words of all five documented
systems (ledger X-28, X-30, X-32, X-34) and shows one. How words are joined (`maxChars`) needs no type.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from pegboard.core.params import Alias, EffectMarker

_FRESHNESS: Final = {
    "pd": "day",
    "pw": "week",
    "pm": "month",
    "py": "year",
    "nolimit": "any",
    "oneday": "day",
    "oneweek": "week",
    "onemonth": "month",
    "oneyear": "year",
}
_PERIODS: Final = ("any", "day", "week", "month", "year")
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_RANGE: Final = re.compile(f"({_DAY})(?:to|\\.\\.)({_DAY})")


def _freshness(value: Any) -> Any:
    """One of `any`, `day`, `week`, `month`, `year`, or a range of days as `2026-01-01..2026-01-31`."""
    from datetime import date

    if not isinstance(value, str):
        return value  # For the type to refuse.
    word = value.strip()
    known = _FRESHNESS.get(word.lower(), word.lower())
    if known in _PERIODS:
        return known
    days = _RANGE.fullmatch(word)
    if days is None:
        raise ValueError(f"must be one of {', '.join(_PERIODS)} or a range of days as 2026-01-01..2026-01-31")
    first, last = sorted(date.fromisoformat(day) for day in days.groups())
    return f"{first}..{last}"


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


SearchCount: TypeAlias = Annotated[
    int, Field(ge=1, le=50, description="How many results, 1 to 50."), Alias("max_results")
]
"""How many results a search gives (X-28)."""

Freshness: TypeAlias = Annotated[
    str,
    BeforeValidator(_freshness),
    Field(description="How recent: any, day, week, month, year, or 2026-01-01..2026-01-31."),
]
"""How recent what is found must be; comes as `any`, `day`, `week`, `month`, `year` or `DAY..DAY` (X-28)."""

ExtractMode: TypeAlias = Annotated[Literal["markdown", "text"], Field(description="What a page becomes.")]
"""What a page is turned into (X-30)."""

MaxChars: TypeAlias = Annotated[int, Field(ge=100, description="Longest text, in characters.")]
"""The longest text of a page (X-30)."""

MessageText: TypeAlias = Annotated[str, Field(description="What to say."), Alias("message")]
"""The text of a message (X-32)."""

ChatId: TypeAlias = Annotated[str, EffectMarker("send", "The chat that it goes to.", ("target", "to"))]
"""The chat that a message goes to; effect `send` (X-32)."""

MediaPaths: TypeAlias = Annotated[
    list[str], BeforeValidator(_listed), Field(description="Paths of files to send along.")
]
"""Files that go with a message; one may come without its list (X-32)."""

JobText: TypeAlias = Annotated[
    str, Field(description="What is to be done or said then."), Alias("prompt", "task")
]
"""What a scheduled job says (X-34)."""

JobId: TypeAlias = Annotated[str, Field(description="The job."), Alias("id")]
"""Which job (X-34)."""
