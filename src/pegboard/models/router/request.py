"""Request: a plain request with its literal spans found and masked, positions kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from pegboard.models.router.vocabulary import (
    EXTENSIONS,
    KNOWN_FILES,
    NO_FILES,
    NO_NAMES,
    NOUNS,
    PROGRAMS,
    VERBS,
)

SpanKind: TypeAlias = Literal["url", "file", "dir", "path", "quoted", "glob", "name"]

MASK: Final[dict[SpanKind, str]] = {
    "url": "\ue000",
    "file": "\ue001",
    "dir": "\ue002",
    "path": "\ue003",
    "quoted": "\ue004",
    "glob": "\ue005",
    "name": "\ue006",
}
"""The private character that stands for each character of a span in the masked text."""

_URL: Final = re.compile(r"https?://[^\s<>\"'`“”‘’「」『』，。；！？、（）《》]+", re.IGNORECASE)
_QUOTED: Final = re.compile(
    r"```(?:\w*\n)?(?P<fence>.+?)\n?```|`(?P<tick>[^`\n]+)`|“(?P<curly>[^”]+)”|「(?P<corner>[^」]+)」|『(?P<corner2>[^』]+)』"
    r"|«(?P<angle>[^»]+)»|\"(?P<double>[^\"\n]+)\"|(?<![\w'])'(?P<single>[^\n]+?)'(?!\w)|‘(?P<single2>[^’\n]+)’(?!\w)",
    re.DOTALL,
)
# ASCII and Latin letters only: Chinese text stands beside names without a space.
_TOKEN: Final = re.compile(r"[\w./~*?@+\\$%#:=()\[\]{}|^&-]+", re.ASCII)
_LETTERS_TOKEN: Final = re.compile(r"(?<![^\s(\[,:;])[^\s\"'`,:;()\[\]]+\.[A-Za-z][A-Za-z0-9]{0,9}(?![\w.])")
_WORD: Final = re.compile(r"[A-Za-z]{4,}")
_CJK: Final = re.compile(r"[\u3400-\u9fff]")
_SLASHED_PROSE: Final = frozenset(
    ("and/or", "he/she", "she/he", "his/her", "yes/no", "either/or", "n/a", "i/o", "tcp/ip", "w/o", "on/off")
)
_FOLDER_AFTER: Final = re.compile(
    r"\s+(?:folder|directory|dir|subfolder|subdirectory)\b|\s*(?:目录|文件夹)", re.IGNORECASE
)
_FOLDER_BEFORE: Final = re.compile(
    r"\b(?:folder|directory|dir)\s+(?:called\s+|named\s+)?$|(?:目录|文件夹)\s*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class LiteralSpan:
    """A literal piece of the request: where it stands, and its text without quotes."""

    kind: SpanKind
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request ready for matching.

    Attributes:
        text: as written.
        spans: the literal spans, in order, not overlapping.
        masked: the text with each span's characters masked and misspelt cue words mended.
        origin: for each position of `masked`, and its end, the position in `text`.
    """

    text: str
    spans: tuple[LiteralSpan, ...]
    masked: str
    origin: tuple[int, ...]

    def copy(self, start: int, end: int) -> str:
        """What stands in `text` where `masked[start:end]` is; a quoted span alone loses its quotes."""
        first, last = self.origin[start], self.origin[end]
        for span in self.spans:
            if span.start == first and span.end == last:
                return span.text
        return self.text[first:last]

    def of(self, *kinds: SpanKind) -> list[LiteralSpan]:
        """The spans of these kinds, in order."""
        return [span for span in self.spans if span.kind in kinds]

    @property
    def chinese(self) -> bool:
        """Whether it is written in Chinese."""
        return bool(_CJK.search(self.text))


def read_request(text: str) -> ParsedRequest:
    """Find the spans of a request and mask them."""
    spans = _spans(text)
    masked: list[str] = []
    origin: list[int] = []
    position = 0
    for span in (*spans, None):
        end = len(text) if span is None else span.start
        _mend(text, position, end, masked, origin)
        if span is not None:
            masked.append(MASK[span.kind] * (span.end - span.start))
            origin.extend(range(span.start, span.end))
            position = span.end
    return ParsedRequest(text, tuple(spans), "".join(masked), (*origin, len(text)))


def _mend(text: str, start: int, end: int, masked: list[str], origin: list[int]) -> None:
    position = start
    for word in _WORD.finditer(text, start, end):
        better = _nearest(word[0].lower())
        if better is None:
            continue
        masked.append(text[position : word.start()])
        origin.extend(range(position, word.start()))
        masked.append(better)
        # Inside a mended word positions are clamped: nothing is ever copied from its middle.
        origin.extend(min(word.start() + i, word.end()) for i in range(len(better)))
        position = word.end()
    masked.append(text[position:end])
    origin.extend(range(position, end))


_VOCABULARY: Final = frozenset(" ".join(VERBS.values()).split()) | NOUNS


@lru_cache(maxsize=2048)
def _nearest(word: str) -> str | None:
    if word in _VOCABULARY or word in NO_NAMES or word in PROGRAMS or len(word) < 4:
        return None
    found = [known for known in sorted(_VOCABULARY) if len(known) >= 4 and _is_slip(word, known)]
    return found[0] if len(found) == 1 else None


def _is_slip(word: str, known: str) -> bool:
    """Whether `word` is `known` with two neighbours swapped, or (from six letters on) one letter
    doubled, dropped or wrong. Shorter words are too often other words (lost, fond)."""
    if word[0] != known[0] or abs(len(word) - len(known)) > 1:
        return False
    if len(word) == len(known):
        wrong = [i for i in range(len(word)) if word[i] != known[i]]
        if len(wrong) == 2 and wrong[1] == wrong[0] + 1:
            i = wrong[0]
            return word[i] == known[i + 1] and word[i + 1] == known[i]
        return len(wrong) == 1 and len(word) >= 7
    longer, shorter = (word, known) if len(word) > len(known) else (known, word)
    if (
        min(len(word), len(known)) < 5
        or longer == shorter + "s"
        or longer == shorter + "d"
        or longer == shorter + "r"
    ):
        return False
    return any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))


def _spans(text: str) -> list[LiteralSpan]:
    found: list[LiteralSpan] = []

    def free(start: int, end: int) -> bool:
        return all(end <= span.start or start >= span.end for span in found)

    for match in _QUOTED.finditer(text):
        inner = next(group for group in match.groups() if group is not None)
        kind: SpanKind = "quoted"
        if _URL.fullmatch(inner):
            kind = "url"
        found.append(LiteralSpan(kind, match.start(), match.end(), inner))
    for match in _URL.finditer(text):
        url = _trim_url(match[0])
        if free(match.start(), match.start() + len(url)):
            found.append(LiteralSpan("url", match.start(), match.start() + len(url), url))
    for pattern in (_TOKEN, _LETTERS_TOKEN):
        for match in pattern.finditer(text):
            start, token = match.start(), match[0]
            while token and token[0] in "([{:=?|&^#%" and not (token[0] == "(" and ")" in token):
                start, token = start + 1, token[1:]
            token = _trim_token(token)
            if not token or not free(start, start + len(token)):
                continue
            named = _kind_of_token(token, text[:start], text[start + len(token) :])
            if named is not None:
                found.append(LiteralSpan(named, start, start + len(token), token))
    return sorted(found, key=lambda span: span.start)


def _trim_url(url: str) -> str:
    while url and (
        url[-1] in ".,;:!?'*"
        or (url[-1] in ")]}" and url.count(url[-1]) > url.count("([{"[")]}".index(url[-1])]))
    ):
        url = url[:-1]
    return url


def _trim_token(token: str) -> str:
    while token and (
        (token[-1] in ".?:=|&^#%" and token not in (".", "..") and not token.endswith(("/.", "/..")))
        or (token[-1] in ")]}" and token.count(token[-1]) > token.count("([{"[")]}".index(token[-1])]))
    ):
        token = token[:-1]
    return token


def _kind_of_token(token: str, before: str, after: str) -> SpanKind | None:
    if "*" in token and re.fullmatch(r"[\w./~*?\[\]{},-]+", token) and re.search(r"[\w./]", token):
        return "glob"
    if re.fullmatch(r"[\w.~/@+$-]+", token):
        path = _path_kind(token, before, after)
        if path is not None:
            return path
    if _is_name(token):
        return "name"
    return None


def _path_kind(token: str, before: str, after: str) -> SpanKind | None:
    if token.lower() in NO_FILES:
        return None
    base = token.rstrip("/").rsplit("/", 1)[-1]
    folder_near = bool(_FOLDER_AFTER.match(after) or _FOLDER_BEFORE.search(before))
    if re.fullmatch(r"\.?\.?/?|~/?", token):
        return (
            "dir"
            if token in ("/", "./", "../", "~", "~/", "..") or (token == "." and _ends_with_scope(before))
            else None
        )
    if token.endswith("/"):
        return "dir"
    stem, dot, ending = base.rpartition(".")
    is_file = bool(dot) and (
        (stem != "" and ending.lower() in EXTENSIONS)
        or (stem == "" and re.fullmatch(r"[A-Za-z][\w-]+", ending) is not None)
        or (stem != "" and "/" in token and re.fullmatch(r"[A-Za-z]\w{0,9}", ending) is not None)
        or (base.startswith(".") and len(base) > 2)
    )
    # `os.path`, `foo.key()`: a dotted name is a path only with a known ending, checked above.
    if base in KNOWN_FILES:
        is_file = True
    if is_file:
        return "dir" if folder_near and not stem else "file"
    if "/" in token and token.lower() not in _SLASHED_PROSE and re.search(r"[A-Za-z]", token):
        return "dir" if folder_near else "path"
    return None


def _ends_with_scope(before: str) -> bool:
    return re.search(r"\b(?:in|of|under|inside|ls|dir|list|at)\s+$", before, re.IGNORECASE) is not None


def _is_name(token: str) -> bool:
    """Code-like words: snake_case, camelCase, CAPS, calls, dotted names."""
    if re.fullmatch(r"[A-Za-z_$][\w$.]*\(.*\)?", token):
        return True
    word = token.strip("()[]{}")
    if not re.fullmatch(r"[A-Za-z_$][\w$.:-]*", word) or len(word) < 2:
        return False
    return bool(
        re.search(r"\w_\w|^_\w|^\$", word)
        or re.search(r"[a-z][A-Z]", word)
        or re.fullmatch(r"[A-Z][A-Z0-9]{2,}s?", word)
        or re.fullmatch(r"[A-Za-z]\w*(?:(?:\.|::)[A-Za-z_]\w+)+", word)
    )
