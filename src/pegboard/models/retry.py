"""Retry: when a failed request is tried again, and after how long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how long.

    Attributes:
        attempts: requests at most, the first one included.
        first_s: seconds before the second request; doubled for each further one.
        most_s: seconds that one wait takes at most; a provider that asks for more is not waited for.
    """

    attempts: int = 5
    first_s: float = 1.0
    most_s: float = 60.0

    def delay_s(self, attempt: int, asked_s: float | None, spread: float) -> float | None:
        """Seconds to wait after `attempt` (counted from 1), None = do not try again.

        Args:
            attempt: the request that failed.
            asked_s: what the provider asked for (Retry-After), None where it did not.
            spread: 0..1; so many clients that failed together do not come back together.
        """
        if attempt >= self.attempts:
            return None
        if asked_s is not None:
            return asked_s if asked_s <= self.most_s else None
        return min(self.most_s, self.first_s * 2 ** (attempt - 1)) * (0.5 + spread / 2)


def asked_wait_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after` (seconds or a date, RFC 9110 §10.2.3).

    Args:
        headers: response headers, names in lower case or without regard to case.
        now: seconds since the epoch.
    """
    precise = _number(headers.get("retry-after-ms"))
    if precise is not None:
        return precise / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or given is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now)
    except (TypeError, ValueError):
        return None


_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d+)?", re.ASCII)


def _number(text: str | None) -> float | None:
    """Plain digits alone: `float` would take `1_0`, `nan` and other scripts' digits too."""
    text = (text or "").strip()
    return float(text) if _NUMBER.fullmatch(text) else None
