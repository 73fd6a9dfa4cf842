"""Late: how results are cleaned by an executor without ports, loaded with the first text that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pegboard.core.result import Shaper
from pegboard.core.secrets.redact import with_finder

if TYPE_CHECKING:
    from pegboard.core.secrets.redact import Redactor

_SHORTEST = 6
"""Characters of the shortest secret that is looked for (`pegboard.core.secrets.redact`)."""


def lazy_shaper() -> Shaper:
    """A Shaper that takes out secrets, terminal sequences and invisible characters.

    What is cut is not kept: where nothing reads a spill, nobody could ask for it.
    """
    return Shaper(redactor=LazyRedactor(), clean=clean)


class LazyRedactor:
    """The Redactor that knows this process's environment, made at the first text that may hold a secret."""

    def __init__(self) -> None:
        self._redactor: Redactor | None = None
        with_finder(self)

    def redact(self, text: str) -> tuple[str, bool]:
        """See Redactor."""
        return (text, False) if len(text) < _SHORTEST else self._made().redact(text)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See Redactor."""
        return self._made().find(text)

    def _made(self) -> Redactor:
        if self._redactor is None:
            from pegboard.config.environment import environment, secrets_of
            from pegboard.core.secrets.redact import Redactor

            self._redactor = Redactor(secrets_of(environment()))
        return self._redactor


def clean(text: str) -> str:
    """See `pegboard.core.text.clean`."""
    if text.isascii() and text.isprintable():
        return text
    from pegboard.core.text import sanitise as cleaned

    return cleaned(text)
