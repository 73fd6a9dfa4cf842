"""Damage: parts of a document that cannot be read, so that the rest is shown and they are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pegboard.documents.errors import DocumentRefused

T = TypeVar("T")

_NAMED: Final = 20


class Damage:
    """The parts of one document that could not be read, in its order."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def read(self, part: str | Callable[[], str], reader: Callable[[], T], otherwise: T) -> T:
        """What `reader` gives; where it breaks down, `otherwise`, and the part is named.

        Args:
            part: its name, as in `the chart 'Sales' of slide 2`; a function is asked after the failure.
        """
        try:
            return reader()
        except (DocumentRefused, MemoryError, ImportError):
            raise
        except Exception:  # noqa: BLE001  (boundary: over a damaged part a parser raises whatever it meets)
            self.parts.append(part if isinstance(part, str) else part())
            return otherwise

    def note(self) -> str:
        """One sentence that names the parts; empty where there are none."""
        if not self.parts:
            return ""
        more = f" and {len(self.parts) - _NAMED} more" if len(self.parts) > _NAMED else ""
        return f"Could not be read: {', '.join(self.parts[:_NAMED])}{more}."
