"""Cursor: a position in a text that is read forgivingly, and what was repaired up to it."""

from __future__ import annotations

import re
from typing import Final, cast

_SPACE: Final = re.compile(r"\s*")
_CLOSER: Final = re.compile(r"[}\]]")


class Cursor:
    """A position in a text, and what was repaired up to it.

    Attributes:
        text: the text.
        at: the position of the next character.
        notes: what was repaired.
        truncated: a value was still open at the end of the text.
        guessed: something was dropped, moved or invented.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.notes: list[str] = []
        self.truncated = False
        self.guessed = False

    def note(self, sentence: str) -> None:
        """Note a repair with one possible meaning."""
        self.notes.append(sentence)

    def guess(self, sentence: str) -> None:
        """Note a repair that may be wrong."""
        self.notes.append(sentence)
        self.guessed = True

    def peek(self) -> str:
        """The next character after spaces and comments, empty at the end."""
        text = self.text
        while True:
            self.at = cast("re.Match[str]", _SPACE.match(text, self.at)).end()
            here = text[self.at : self.at + 1]
            if here not in ("/", "#") or not self._comment():
                return here

    def _comment(self) -> bool:
        text, at = self.text, self.at
        if text.startswith("/*", at):
            end = text.find("*/", at + 2)
            end = len(text) if end < 0 else end + 2
        elif text.startswith("//", at) or text[at] == "#":
            end = text.find("\n", at)
            if end < 0:
                # In one line a comment up to its end may take the value along.
                self.guessed = True
                closer = _CLOSER.search(text, at) if text[at] == "#" else None
                end = len(text) if closer is None else closer.start()
        else:
            return False
        if '"' in text[at:end]:  # more likely a text whose inner quotes were not escaped
            self.guessed = True
        self.at = end
        self.note("A comment was left out.")
        return True
