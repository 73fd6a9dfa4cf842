"""Words of a command, with what is known of their value.

While a word is being built, control characters mark what was not quoted; the input holds none
(characters.py refuses them), so marks and text cannot be confused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pegboard.shell.guard.operands import HOLE

STAR: Final = "\x01"
MARK: Final = "\x02"
BRACKET: Final = "\x03"
OPEN: Final = "\x04"
COMMA: Final = "\x05"
CLOSE: Final = "\x06"
SPLIT: Final = "\x07"

_TO_MARKS: Final = str.maketrans({"*": STAR, "?": MARK, "[": BRACKET, "{": OPEN, ",": COMMA, "}": CLOSE})
TO_TEXT: Final = str.maketrans(
    {STAR: "*", MARK: "?", BRACKET: "[", OPEN: "{", COMMA: ",", CLOSE: "}", SPLIT: " "}
)
_MARKS: Final = re.compile("[\x01-\x07]")
_SPECIAL: Final = re.compile(r"[*?\[{,}\\]")
_MAX_WORDS: Final = 64


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program would get it.

    Attributes:
        text: its value, HOLE where a piece is not known.
        source: how it stands in the command.
        glob: an unquoted wildcard stands in it.
        secret: the value of a variable whose name speaks of a secret went into it.
    """

    text: str
    source: str
    glob: bool = False
    secret: bool = False

    @property
    def known(self) -> bool:
        """Whether the value is known before the command runs."""
        return HOLE not in self.text

    @property
    def shown(self) -> str:
        """The value, or the source where it is not known; what rules and people see."""
        return self.text if HOLE not in self.text else self.source


def unquoted(text: str) -> str:
    """Text that stood outside quotes: backslashes removed, wildcards and braces marked."""
    if not _SPECIAL.search(text):
        return text
    if "\\" not in text:
        return text.translate(_TO_MARKS)
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            if text[at] != "\n":
                out.append(text[at])
        else:
            out.append(char.translate(_TO_MARKS))
        at += 1
    return "".join(out)


def double_quoted(text: str) -> str:
    """Text that stood in double quotes: only `\\$`, `` \\` ``, `\\"`, `\\\\` and line joins are escapes."""
    return _DOUBLE.sub(lambda m: "" if m[1] == "\n" else m[1], text) if "\\" in text else text


_DOUBLE: Final = re.compile(r'\\([$`"\\\n])')


def ansi_c(text: str) -> str:
    """Text of `$'…'` with its escapes decoded (bash manual, ANSI-C quoting)."""

    def value(match: re.Match[str]) -> str:
        body = match[1]
        if body[0] in "xuU" and len(body) > 1:
            code = int(body[1:], 16)
        elif body[0] in "01234567":
            code = int(body, 8) & 0xFF
        elif body[0] == "c" and len(body) > 1:
            code = ord(body[1]) & 0x1F
        else:
            return _ANSI_LETTERS.get(body, "\\" + body)
        # Marks are control characters; what would decode to one is not a value we can follow.
        return HOLE if code < 8 or code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)

    return _ANSI.sub(value, text)


_ANSI: Final = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_ANSI_LETTERS: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": " ", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def fields_of_value(value: str) -> str:
    """A known variable's value put in unquoted: blanks split, wildcards act."""
    return re.sub(r"[ \t\n]+", SPLIT, value).translate(_WILD)


_WILD: Final = str.maketrans({"*": STAR, "?": MARK, "[": BRACKET})


def finished(built: str, source: str, *, secret: bool = False) -> list[Word]:
    """The words that a built text becomes: braces expanded, split, marks back to text."""
    if not _MARKS.search(built):
        return [Word(built, source, False, secret)]
    out: list[Word] = []
    for text in _braces(built):
        parts = [p for p in text.split(SPLIT) if p] if SPLIT in text else [text]
        for part in parts:
            glob = STAR in part or MARK in part or BRACKET in part
            out.append(Word(part.translate(TO_TEXT), source, glob, secret))
            if len(out) > _MAX_WORDS:
                return [Word(HOLE, source, True, secret)]
    return out


def _braces(text: str) -> list[str]:
    """`a{b,c}` → `ab`, `ac`; over the limit the text becomes one unknown word."""
    done: list[str] = []
    todo = [text]
    while todo:
        now = todo.pop()
        found = _BRACE.search(now)
        if not found:
            done.append(now)
        else:
            todo.extend(
                now[: found.start()] + part + now[found.end() :] for part in reversed(found[1].split(COMMA))
            )
        if len(done) + len(todo) > _MAX_WORDS:
            return [HOLE]
    return done


_BRACE: Final = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*{COMMA}[^{OPEN}{CLOSE}]*){CLOSE}")
