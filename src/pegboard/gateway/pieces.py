"""Pieces: a model's text as it streams, without secrets."""

from __future__ import annotations

from pegboard.services.redaction import Redact


class PieceRedactor:
    """Takes secrets out of text that arrives in pieces. A word is held back until it is whole, a key block until its end.

    Args:
        redact: takes secrets out of a text.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._line = ""
        self._shown = ""
        self.sent = ""
        """All that was given so far."""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        self._line += piece
        cut = max(self._line.rfind(" "), self._line.rfind("\n")) + 1
        begin = self._line.find("-----BEGIN ")
        if begin >= 0 and "-----END " not in self._line[begin:]:
            cut = min(cut, begin)
        shown = self._redact(self._line[:cut])[0]
        # What is a secret by the words before it is known with the line only.
        new = shown[len(self._shown) :] if shown.startswith(self._shown) else ""
        if new:
            self._shown = shown
        if self._line[:cut].endswith("\n"):
            self._line, self._shown = self._line[cut:], ""
        self.sent += new
        return new

    def rest(self, whole: str) -> str:
        """What is left of the whole text once it is there; the next text begins."""
        shown, sent = self._redact(whole)[0], self.sent
        self._line = self._shown = self.sent = ""
        return shown[len(sent) :] if shown.startswith(sent) else f"\n{shown}"
