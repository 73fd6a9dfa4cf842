"""Characters that make a command read differently from what it does."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Everything that is neither printable ASCII, tab, newline, nor an ordinary letter range; looked at one by one.
_SUSPECT: Final = re.compile(r"[^\t\n -~]")
_JOINERS: Final = frozenset("\u200c\u200d")


def refused(command: str) -> str:
    """Why the text may not run unseen; empty where nothing is wrong with its characters.

    Control characters, no-break and other odd blanks, and invisible format characters are refused;
    joiners between letters of other scripts or emoji are part of those words.
    """
    if command.isascii() and command.isprintable():
        return ""
    for match in _SUSPECT.finditer(command):
        char = match[0]
        category = unicodedata.category(char)
        if category in ("Cc", "Cs", "Co", "Cn") or char in "\u2028\u2029":
            return f"contains the control character U+{ord(char):04X}"
        if category == "Zs" and char != "\u3000":
            return f"contains the unusual blank U+{ord(char):04X}"
        if category == "Cf" and not (char in _JOINERS and _joins(command, match.start())):
            return f"contains the invisible character U+{ord(char):04X}"
        if 0x115F <= ord(char) <= 0x1160 or char in "\u3164\uffa0\u034f\u17b4\u17b5\u2800":
            return f"contains the invisible character U+{ord(char):04X}"
    return ""


def _joins(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return bool(before and after) and ord(before) > 0x2FF and ord(after) > 0x2FF
