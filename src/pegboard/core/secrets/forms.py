"""Finds the secrets whose values nobody knows, by the rows of `shapes`.

Each row is first looked for by letters that must stand there (`in` runs at the speed of memory), and its
pattern is tried at those places only: nearly all text holds no secret, and all text passes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from pegboard.core.secrets.shapes import CODE, CONTEXTS, MACROS, REFERENCE, TOKENS

Finder: TypeAlias = Callable[[str, str], Iterable[re.Match[str]]]
"""The matches in a text, which comes in lower case too, in order and none inside another."""


def _expanded(text: str) -> str:
    for macro, meaning in MACROS.items():
        text = text.replace(macro, meaning)
    return text


def _beginnings(patterns: Iterable[str]) -> str:
    """One pattern for all; those that begin with the same letter stand behind it, tried only where it stands."""
    groups: dict[str, list[str]] = {}
    for pattern in patterns:
        letter = pattern[0] if pattern[0].isalnum() and pattern[1] not in "?{*" else ""
        groups.setdefault(letter, []).append(pattern.removeprefix(letter))
    return "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in groups.items())


# A token begins where a word begins; its last letter may be - or _, so no \b behind it.
_ROWS: Final = [tuple(map(_expanded, row.split(maxsplit=2)[1:])) for row in TOKENS.strip().split("\n")]
_BEGIN: Final = re.compile(rf"(?<![A-Za-z0-9])(?:{_beginnings(begin for begin, _ in _ROWS)})")
_TOKEN: Final = re.compile(rf"(?P<token>{'|'.join(map(''.join, _ROWS))})(?![A-Za-z0-9])")
# Every token has a part of at least so many of these characters; the mask marks them with x.
_RUN: Final = b"x" * 15
_IN_RUN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/="
_MASK: Final = bytes(120 if byte in _IN_RUN else 32 for byte in range(256))
_SHORT_PARTS: Final = 32
"""Characters of a token that may stand in front of its first long part, behind dots or a colon."""

_REFERENCE: Final = re.compile(REFERENCE)
_MARKS: Final = re.compile(r"\[redacted:[0-9a-f]{8}\]")
_KEY_LETTERS: Final = re.compile(r"[A-Za-z0-9+/=]{16}")
_CODE: Final = re.compile(CODE)


def tokens(text: str, lowered: str = "") -> Iterable[re.Match[str]]:
    """Tokens known by how they begin."""
    # An empty tuple where there is none: a generator that yields nothing costs more than the look.
    mask = text.encode("ascii", "replace").translate(_MASK)
    return _tokens(text, mask) if _RUN in mask else ()


def _tokens(text: str, mask: bytes) -> Iterator[re.Match[str]]:
    at, done = mask.find(_RUN), 0
    while at >= 0:
        end = mask.find(b" ", at)
        end = len(mask) if end < 0 else end
        back = _SHORT_PARTS if at and text[at - 1] in ".:" else 6
        for begin in _BEGIN.finditer(text, max(done, at - back), end):
            if begin.start() >= done and (match := _TOKEN.match(text, begin.start())):
                yield match
                done = match.end()
        at = mask.find(_RUN, max(end, done))


def _in_context(
    words: tuple[str, ...], back: int, pattern: re.Pattern[str], text: str, lowered: str
) -> Iterator[re.Match[str]]:
    """The matches of a row, tried where one of its words stands."""
    places: list[int] = []
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            places.append(at - back)
            at = lowered.find(word, at + 1)
    done = 0
    for at in sorted(places):
        if at >= done and (match := pattern.match(text, at)):
            yield match
            done = match.end()


_BLOCKS: Final = 2
"""Rows of key blocks, in which text may stand that looks like a token."""
_CONTEXTS: Final[list[tuple[tuple[str, ...], Finder]]] = [
    (words, partial(_in_context, words, back, re.compile(_expanded(pattern))))
    for _, words, back, pattern in CONTEXTS
]
FINDERS: Final = (*_CONTEXTS[:_BLOCKS], (("",), tokens), *_CONTEXTS[_BLOCKS:])
"""Words of which one must stand in the lowered text, and who finds; in the order in which text is cleared of what they find."""


def lower(text: str) -> str:
    """Lower case of the same length: one letter of all (U+0130) becomes two."""
    return text.lower() if text.isascii() else text.replace("\u0130", "i").lower()


def key_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where the letters of private keys stand, in order of their kinds."""
    lowered = lower(text)
    for _, find in _CONTEXTS[:_BLOCKS]:
        yield from (span for match in find(text, lowered) if (span := value_of(match))[1])


def begun(text: str) -> int:
    """How many characters at the end of a text are a token, or the first part of one."""
    word = text[max(text.rfind(" "), text.rfind("\t")) + 1 :]
    found = _BEGIN.search(word)
    return len(word) - found.start() if found else 0


def value_of(match: re.Match[str]) -> tuple[int, int]:
    """Where the secret stands in a match; an empty span if it is a reference or code, or a mark stands there."""
    kind = next(kind for kind in ("token", "value", "plain") if match.groupdict().get(kind) is not None)
    value = match[kind]
    if kind == "token" and "[redacted:" in value and not _KEY_LETTERS.search(_MARKS.sub("", value)):
        return (0, 0)
    if kind != "token" and (_REFERENCE.match(value) or (kind == "plain" and _CODE.match(value))):
        return (0, 0)
    return match.span(kind)
