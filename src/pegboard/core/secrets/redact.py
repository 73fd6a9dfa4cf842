"""Secrets taken out of text: known values in all their spellings, and tokens known by their prefix.

A mark is `[redacted:ID]` with an ID that is the same wherever the same value stood, so that a reader can
tell two secrets apart and the runtime can tell whether a marked place stayed as it was.
Source: security.md, secrets.
"""

from __future__ import annotations

import base64
import hashlib
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, cast
from urllib.parse import quote, quote_plus

from pegboard.core.secrets.forms import FINDERS, lower, value_of


class SecretFinder(Protocol):
    """Who knows secrets by their values."""

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """Where they stand in a text."""
        ...

    def wrapped(self, text: str) -> Iterable[tuple[int, int]]:
        """Where they stand broken over lines."""
        ...

    def begun(self, text: str) -> int:
        """How many characters at the end of a text are the first part of one."""
        ...


_finders: list[weakref.ref[SecretFinder]] = []


def with_finder(finder: SecretFinder) -> None:
    """Let `clip` look for the secrets that `finder` knows too, while it exists."""
    _finders[:] = [ref for ref in _finders if ref() is not None]
    _finders.append(weakref.ref(finder))


def finders() -> list[SecretFinder]:
    """The finders that still exist."""
    return [finder for ref in _finders if (finder := ref()) is not None]


_MIN_KNOWN: Final = 6
_MIN_PART: Final = 12
_MIN_BEGUN: Final = 4
TAIL_CHARS: Final = 16_384
"""How much a stream holds back at most: the longest secret that is found across pieces."""

MARK: Final = re.compile(r"\[redacted:[0-9a-f]{8}\]")
"""What `mark` makes."""

# A line end, in JSON or source text escaped, and what stands in front of a quoted, compared or numbered line.
_WRAP: Final = r"(?:\r?\n|(?:\\{1,4}r)?\\{1,4}(?:n|x0a|u000a))[ \t>|+-]{0,8}(?:\d{1,7}[→:|\t-][ \t]?)?"


_ESCAPE: Final = re.compile("%[0-9A-F]{2}")


def redaction_mark(value: str) -> str:
    """The mark that stands for a value: `[redacted:` and eight hex digits of its SHA-256."""
    return f"[redacted:{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}]"


def has_redaction_mark(value: object) -> bool:
    """Whether a mark stands anywhere in a JSON-able value, or in a JSON text."""
    if isinstance(value, str):
        return MARK.search(value) is not None
    if isinstance(value, Mapping):
        rows = cast("Mapping[object, object]", value)
        return any(has_redaction_mark(k) or has_redaction_mark(v) for k, v in rows.items())
    return isinstance(value, list | tuple) and any(map(has_redaction_mark, cast("list[object]", value)))


def secrets_in(text: str) -> list[slice]:
    """Where the secrets of the known kinds stand in a text, in order."""
    lowered = lower(text)
    spans = sorted(value_of(match) for _, find in FINDERS for match in find(text, lowered))
    return [slice(start, end) for start, end in spans if start < end]


class Redactor:
    """Takes secrets out of text.

    Args:
        values: known secrets by name; values under 6 characters are not looked for, since they would
            hit ordinary words. All share one mark with their encoded spellings.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._learn(values or {})
        with_finder(self)

    def learn(self, values: Mapping[str, str]) -> None:
        """Know further secrets from now on, for example one that was just looked up in a keyring."""
        if any(value not in self._values.values() for value in values.values()):
            self._learn(values)

    def _learn(self, values: Mapping[str, str]) -> None:
        self._values = {**self._values, **{f"{name}\0{value}": value for name, value in values.items()}}
        self._marks: dict[str, str] = {}
        self._ends: list[tuple[str, str]] = []
        wrapped: list[str] = []
        whole = self._whole = [""]
        for value in self._values.values():
            if len(value) < _MIN_KNOWN:
                continue
            for spelling in _spellings(value):
                self._marks.setdefault(spelling, redaction_mark(value))
            if len(value) >= _MIN_PART:
                # Broken over lines by a terminal or a mail program, at any one place or more.
                wrapped.append(f"({f'(?:{_WRAP})?'.join(map(re.escape, value))})")
                whole.append(redaction_mark(value))
                self._ends.append((value[:6], value[-6:]))
        ordered = sorted(self._marks, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._wrapped = re.compile("|".join(wrapped)) if wrapped else None
        self.longest = max((len(spelling) for spelling in ordered), default=0) * 2

    def redact(self, text: str) -> tuple[str, bool]:
        """The text with marks for secrets, and whether any was found. The same text where none was."""
        if len(text) < _MIN_KNOWN:
            # Shorter than the shortest of them all, `://:q@`.
            return text, False
        out = text
        if self._known is not None and any(spelling in out for spelling in self._marks):
            out = self._known.sub(lambda m: self._marks[m[0]], out)
        if (
            self._wrapped is not None
            and ("\n" in out or "\\" in out)
            and any(a in out or b in out for a, b in self._ends)
        ):
            out = self._wrapped.sub(lambda m: self._whole[m.lastindex or 0], out)
        lowered = lower(out)
        for words, find in FINDERS:
            # A loop, not `any`: nearly all text holds no secret, and all text passes here.
            for word in words:
                if word in lowered:
                    if (cleared := _without(out, find(out, lowered))) is not out:
                        out, lowered = cleared, lower(cleared)
                    break
        return out, out != text

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where secrets stand, for a stream that must not part one."""
        yield from self.find(text)
        lowered = lower(text)
        for _, find in FINDERS:
            yield from (match.span() for match in find(text, lowered))

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the known values stand, in any spelling."""
        for pattern in (self._known, self._wrapped):
            if pattern is not None:
                yield from (match.span() for match in pattern.finditer(text))

    def wrapped(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the known values stand broken over lines."""
        if self._wrapped is not None and any(a in text or b in text for a, b in self._ends):
            yield from (match.span() for match in self._wrapped.finditer(text) if "\n" in match[0])

    def begun(self, text: str) -> int:
        """How many characters at the end of a text are the first part of a known value, in any spelling."""
        sizes = (
            n
            for s in self._marks
            for n in range(_MIN_BEGUN, min(len(s), len(text)) + 1)
            if text.endswith(s[:n])
        )
        return max(sizes, default=0)

    def stream(self) -> StreamRedactor:
        """A filter for text that comes in pieces."""
        return StreamRedactor(self)


class StreamRedactor:
    """Redacts text that arrives in pieces; what may be the beginning of a secret is held back.

    `feed` gives what can be shown already, `close` the rest. Joined, they hold the same marks as the whole
    text redacted at once, for secrets up to TAIL_CHARS.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self.found = False

    def feed(self, piece: str) -> str:
        """Take a piece; returns the text that is safe to show."""
        self._held += piece
        cut = self._cut()
        if cut <= 0:
            return ""
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._out(ready)

    def close(self) -> str:
        """The rest; the filter may be used again afterwards."""
        ready, self._held = self._held, ""
        return self._out(ready)

    def _out(self, text: str) -> str:
        shown, found = self._redactor.redact(text)
        self.found = self.found or found
        return shown

    def _cut(self) -> int:
        """Where the held text may be parted: at a line end in front of the tail, outside any key block."""
        held = self._held
        limit = len(held) - max(self._redactor.longest, 1)
        begin = held.rfind("-----BEGIN ")
        if begin >= 0 and "-----END " not in held[begin + 11 :] and len(held) - begin < TAIL_CHARS:
            limit = min(limit, begin)
        cut = held.rfind("\n", 0, max(limit, 0)) + 1
        if cut:
            # Some secrets go over a line end, so none may lie across the cut.
            start = max(0, cut - self._redactor.longest - 1024)
            for first, last in self._redactor.spans(held[start : cut + self._redactor.longest + 1024]):
                if start + first < cut < start + last:
                    cut = held.rfind("\n", 0, start + first) + 1
        if cut == 0 and len(held) > TAIL_CHARS + max(self._redactor.longest, 1):
            # A line without end: part it in front of the last blank that is far enough back.
            space = held.rfind(" ", 0, len(held) - TAIL_CHARS)
            cut = space if space > 0 else len(held) - TAIL_CHARS
        return cut


def _without(text: str, matches: Iterable[re.Match[str]]) -> str:
    """The text with marks for the values in the matches; the same text where there is none."""
    pieces: list[str] = []
    done = 0
    for match in matches:
        start, end = value_of(match)
        if start < end:
            pieces += [text[done:start], redaction_mark(text[start:end])]
            done = end
    return "".join((*pieces, text[done:])) if pieces else text


def _spellings(value: str) -> Iterator[str]:
    """The value and the forms in which it is copied about: base64 at each offset, hex, percent, reversed, JSON."""
    yield value
    raw = value.encode("utf-8", "surrogatepass")
    for encoded in (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):
        yield encoded
        if len(encoded.rstrip("=")) >= _MIN_PART:
            yield encoded.rstrip("=")
    # Inside a longer base64 text the value stands at one of three offsets; its inner letters are the same.
    for offset in (0, 1, 2):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            inner = encode(b"\0" * offset + raw).decode().rstrip("=")[(offset + 1) * (offset > 0) : -2]
            if len(inner) >= _MIN_PART:
                yield inner
    for spelling in (raw.hex(), "".join(f"%{byte:02x}" for byte in raw)):
        yield spelling
        yield spelling.upper()
    # A path keeps its slashes, a form writes a blank as +, and some write the digits in lower case (RFC 3986 §2.1).
    for spelling in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield spelling
        yield _ESCAPE.sub(lambda match: match[0].lower(), spelling)
    if len(value) >= _MIN_PART:
        yield value[::-1]
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    if escaped != value:
        yield escaped
