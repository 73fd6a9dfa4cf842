"""Repair: what malformed JSON text was meant to say (ledger K-05)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


class Unrepairable(ValueError):
    """There is no JSON value to be read out of the text."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A value read out of malformed text.

    Attributes:
        value: the value.
        notes: what was repaired, one sentence each.
        truncated: the text ends before its value does; the rest was made up. Never execute it.
        guessed: something was dropped, moved or invented; there may be another reading.
    """

    value: Any
    notes: tuple[str, ...] = ()
    truncated: bool = False
    guessed: bool = False


def repair_json(text: str) -> Repaired:
    """The value that a malformed text was meant to be."""
    try:
        return Repaired(json.loads(text))
    except ValueError:
        raise Unrepairable("not JSON") from None
