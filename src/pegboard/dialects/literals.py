"""Literals as models write them: JSON, Python, and the quoted forms of chat templates.

One parser for all, because models mix them: `True` inside JSON, single quotes, bare keys, trailing
commas. It never completes anything: text that ends inside a value is `CutOff`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, cast

from pegboard.core.schema.json_text import DuplicateKeyError, object_from_pairs
from pegboard.core.schema.numerals import exact
from pegboard.dialects.wire import clean_text, to_json

MAX_DEPTH: Final = 100
"""Deeper than any schema of a tool, shallower than Python's own limit."""

WORDS: Final[dict[str, Any]] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    # No JSON; read all the same, so that the executor can refuse it with its path.
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
FENCES: Final = ('<|"|>', "<escape>")
"""What Gemma's templates put on both sides of a string instead of quotes."""

# What takes no room is no more than white space between two parts of a call.
_SPACE = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]*")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"-Infinity|[A-Za-z_$][\w$.-]*")
_STRINGS = {
    '"""': re.compile(r'"""((?:[^"\\]++|\\.|"(?!""))*)"""', re.DOTALL),
    "'''": re.compile(r"'''((?:[^'\\]++|\\.|'(?!''))*)'''", re.DOTALL),
    '"': re.compile(r'"((?:[^"\\]++|\\.)*)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]++|\\.)*)'", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_SAME = frozenset("\"'\\/`")


class LiteralError(ValueError):
    """No literal; `end` is how far the reading got."""

    def __init__(self, end: int) -> None:
        super().__init__(f"no literal at character {end}")
        self.end = end


class TruncatedLiteral(LiteralError):
    """The text ended inside the literal."""


class DuplicateKeyDict(dict[str, Any]):
    """An object in which a key stands twice with different values: it has no one meaning.

    Read all the same, so that the executor can refuse it with the words that it has for providers' JSON.

    Attributes:
        pairs: its members as they were written.
    """

    pairs: list[tuple[str, Any]]


def joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, `Doubled` where they disagree."""
    try:
        return object_from_pairs(pairs)
    except DuplicateKeyError:
        out = DuplicateKeyDict(pairs)
        out.pairs = pairs
        return out


def holds_duplicate_keys(value: Any) -> bool:
    """Whether an object somewhere in a value has a key twice."""
    if isinstance(value, DuplicateKeyDict):
        return True
    if isinstance(value, dict):
        return any(map(holds_duplicate_keys, cast("dict[str, Any]", value).values()))
    return isinstance(value, list) and any(map(holds_duplicate_keys, cast("list[Any]", value)))


def as_written(value: Any) -> str:
    """JSON text of a value, doubled keys and all."""
    if isinstance(value, dict):
        items = value.pairs if isinstance(value, DuplicateKeyDict) else cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{to_json(key)}:{as_written(item)}" for key, item in items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_written, cast("list[Any]", value))) + "]"
    return to_json(value)


def skip_space(text: str, pos: int) -> int:
    """The position behind white space, and behind characters that show even less."""
    match = _SPACE.match(text, pos)
    return match.end() if match else pos


def read_literal(text: str, pos: int) -> tuple[Any, int]:
    """The literal at `pos` and the position behind it.

    Raises:
        CutOff: the text ends inside it.
        Unreadable: there is none.
    """
    try:
        return _DECODER.raw_decode(text, pos)
    except (ValueError, RecursionError):
        return _Reader(text).value(pos, 0)


def read_json(text: str) -> Any:
    """The value of JSON text.

    Raises:
        ValueError: it is none, or nested too deeply to read.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_call(text: str, pos: int) -> tuple[dict[str, Any], int]:
    """Keyword arguments in Python's form, `pos` behind the opening bracket.

    Raises:
        CutOff: the text ends inside it.
        Unreadable: it is none (positional arguments are refused: nobody knows their names).
    """
    reader = _Reader(text)
    at = skip_space(text, pos)
    if not text.startswith("{", at):
        return reader.pairs(pos, ")", 0)
    # `f({"x": 1})`, as in JavaScript: the one object holds the arguments by name.
    value, at = reader.pairs(at + 1, "}", 1)
    if not text.startswith(")", at := skip_space(text, at)):
        raise TruncatedLiteral(at) if at >= len(text) else LiteralError(at)
    return value, at + 1


def _refuse(word: str) -> Any:
    raise ValueError(word)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse, object_pairs_hook=joined, parse_float=exact)


class _Reader:
    """Recursive descent over one text; work is linear in what is read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, pos: int, depth: int) -> tuple[Any, int]:
        text = self._text
        pos = skip_space(text, pos)
        if pos >= len(text):
            raise TruncatedLiteral(pos)
        if depth > MAX_DEPTH:
            raise LiteralError(pos)
        char = text[pos]
        if char == "{":
            return self.pairs(pos + 1, "}", depth + 1)
        if char in "[(":
            return self._items(pos + 1, "]" if char == "[" else ")", depth + 1)
        string = self._string(pos)
        if string is not None:
            return string
        if number := _NUMBER.match(text, pos):
            return self._number(number)
        word = _WORD.match(text, pos)
        if word and word[0] in WORDS:
            return WORDS[word[0]], word.end()
        if word and word.end() == len(text) and any(w.startswith(word[0]) for w in WORDS):
            raise TruncatedLiteral(len(text))
        raise LiteralError(pos)

    def pairs(self, pos: int, close: str, depth: int) -> tuple[dict[str, Any], int]:
        members: list[tuple[str, Any]] = []
        while True:
            pos = self._at(pos)
            if self._text[pos] == close:
                return joined(members), pos + 1
            key, pos = self._key(pos)
            pos = self._at(pos)
            if self._text[pos] not in ":=":
                raise LiteralError(pos)
            value, pos = self.value(pos + 1, depth)
            members.append((key, value))
            pos = self._behind_item(pos, close)

    def _items(self, pos: int, close: str, depth: int) -> tuple[list[Any], int]:
        out: list[Any] = []
        while True:
            pos = self._at(pos)
            if self._text[pos] == close:
                return out, pos + 1
            item, pos = self.value(pos, depth)
            out.append(item)
            pos = self._behind_item(pos, close)

    def _behind_item(self, pos: int, close: str) -> int:
        pos = self._at(pos)
        if self._text[pos] == ",":
            return pos + 1
        if self._text[pos] != close:
            raise LiteralError(pos)
        return pos

    def _key(self, pos: int) -> tuple[str, int]:
        string = self._string(pos)
        if string is not None:
            return string
        word = _WORD.match(self._text, pos)
        if word is None:
            raise LiteralError(pos)
        return word[0], word.end()

    def _string(self, pos: int) -> tuple[str, int] | None:
        text = self._text
        for fence in FENCES:
            if text.startswith(fence, pos):
                end = text.find(fence, pos + len(fence))
                if end < 0:
                    raise TruncatedLiteral(len(text))
                return text[pos + len(fence) : end], end + len(fence)
            if text[pos] == "<" and fence.startswith(text[pos : pos + len(fence)]):
                raise TruncatedLiteral(len(text))
        for quote, form in _STRINGS.items():
            if text.startswith(quote, pos):
                match = form.match(text, pos)
                if match is None:
                    raise TruncatedLiteral(len(text))
                if _contradicts(_ESCAPE.findall(match[1])):
                    raise LiteralError(match.end())
                return clean_text(_ESCAPE.sub(_unescaped, match[1])), match.end()
        return None

    def _number(self, match: re.Match[str]) -> tuple[Any, int]:
        if match.end() == len(self._text):
            # Further digits may have been cut off.
            raise TruncatedLiteral(match.end())
        word = match[0]
        try:
            return (exact(word) if re.search(r"[.eE]", word) else int(word)), match.end()
        except ValueError as error:
            raise LiteralError(match.end()) from error

    def _at(self, pos: int) -> int:
        pos = skip_space(self._text, pos)
        if pos >= len(self._text):
            raise TruncatedLiteral(pos)
        return pos


def _contradicts(escapes: list[str]) -> bool:
    """Whether one backslash stands for itself and another does not, as in `\\\\srv\\dir`: one of them would be lost."""
    begun = [e for e in escapes if e not in "\"'`"]
    itself = [e for e in begun if len(e) == 1 and e not in _SIMPLE and e not in _SAME]
    return bool(itself) and len(itself) < len(begun)


def _unescaped(match: re.Match[str]) -> str:
    word = match[1]
    if word[0] in "uUx" and len(word) > 1:
        code = int(word[1:], 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    if word in _SIMPLE:
        return _SIMPLE[word]
    return word if word in _SAME else match[0]
