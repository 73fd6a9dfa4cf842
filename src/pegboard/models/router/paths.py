"""Places: the files and folders that a request names, and where it says to look."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pegboard.models.router.request import ParsedRequest
from pegboard.models.router.vocabulary import HERE, NO_NAMES, VERBS

ORDERS: Final = frozenset(" ".join(VERBS.values()).split())
"""Words that a request may begin with."""

FILE = "[\ue001\ue003]+"
PATH = "[\ue001\ue002\ue003]+"
QUOTE = "\ue004+"
_FOLDER: Final = r"(?:folder|directory|dir|subfolder|subdirectory)"
_KIND: Final = (
    rf"(?:{_FOLDER}|file|module|package|tree|project|repo|repository|codebase|source|sources|code|script)"
)
_ARTICLES: Final = r"(?:(?:the|my|our|this|that|your|of|all|any|whole|entire|current|every)\s+)*"
NAME: Final = r"(?:[\ue001-\ue004]+|[\w~-]+)"

SCOPE: Final = rf"{_ARTICLES}(?P<place>{NAME}|code base)(?:\s+{_KIND}s?)?"
"""What may follow `in`: an article, a name, a word that says what kind of thing it is."""

IN: Final = (
    r"(?:in|inside|under|within|across|throughout|through|from|into|below|beneath|of|over|at|on|below)"
)

_POLITE: Final = re.compile(
    r"(?:(?:(?<=\w)[,;.!?]+)?\s+(?:please|pls|plz|thanks|thank you|thx|cheers|for me|now|right now|again|if you can|would you|will you"
    r"|could you|can you|ok|okay|quickly))+[\s.!?]*$"
    r"|(?:(?:(?<=\w)[,;.]+)?\s+(?:and|then|and then|so)\s+(?:then\s+)?(?:please\s+)?(?:tell|show|report|give|let|print|say|explain|summari[sz]e|return"
    r"|describe|list|display|see|check|paste|send|post|answer|share|what|how|which|whether|why|where|who)\b.*)$"
    r"|\s*(?:谢谢|吧|好吗|可以吗|一下|给我看看?|并告诉我.*|然后告诉我.*|[，,]\s*(?:并|然后)?告诉我.*)\s*[。！？]*$",
    re.IGNORECASE | re.DOTALL,
)
_PREFIX: Final = re.compile(
    r"^[\s,.!-]*(?:(?:please|pls|plz|kindly|hey|hi|hello|ok|okay|so|now|well|alright|right|yo|dear \w+|first|quick(?:ly)?|just"
    r"|(?:can|could|would|will) (?:you|u|we|i)|i(?:'d| would) (?:like|love|want)(?: you)? to|i (?:want|need|wish)(?: you)? to"
    r"|i need|i want|you should|let'?s|let me|help me(?: to)?|go ahead and|go and|try to|be so kind as to|do me a favou?r and|for me"
    r"|would you mind|mind|assistant|bot)\b[\s,:!.-]*"
    r"|(?:请帮我|请你|请|麻烦你|麻烦|帮我|帮忙|帮|给我|我想|我要|我需要|能不能|可以|能|你好|您好|现在|劳驾)[\s，,！!]*)+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PathMention:
    """A path as it stands in the request.

    Attributes:
        text: the path to send.
        start, end: where it stands in the masked text.
        sure: whether it looks like a path or is called a folder, not a plain word after `in`.
    """

    text: str
    start: int
    end: int
    sure: bool


def body_of(masked: str) -> tuple[int, int]:
    """Where the request itself begins and ends, courtesies left out."""
    start = 0
    prefix = _PREFIX.match(masked)
    if prefix is not None and prefix.end() < len(masked.rstrip(" .!?")):
        start = prefix.end()
    end = len(masked)
    while True:
        tail = _POLITE.search(masked, start, end)
        if tail is None or tail.start() <= start:
            return start, _closed(masked, start, end)
        end = tail.start()


def _closed(masked: str, start: int, end: int) -> int:
    """The end without closing marks; a dot that stands alone or ends a path is an argument."""
    text = masked[start:end].rstrip(" \t\n?!。！？")
    if re.search(r"[^\s./]\.$", text):
        text = text[:-1].rstrip(" \t\n?!。！？")
    return start + len(text)


_SCOPES: Final = (
    re.compile(rf"\b{IN}\s+{SCOPE}(?=[\s,.;:?!]|$)", re.IGNORECASE),
    re.compile(rf"\b(?:search|scan|grep|check|look through|go through|list|ls|dir|tree|browse)\s+(?:-\w+\s+)*{SCOPE}(?=[\s,.;:?!]|$)", re.IGNORECASE),
    re.compile(rf"(?P<place>{PATH}|[\w~-]+)\s+{_FOLDER}\b", re.IGNORECASE),
    re.compile(rf"\b{_FOLDER}\s+(?:called\s+|named\s+)?(?P<place>{PATH}|{QUOTE}|[\w~-]+)", re.IGNORECASE),
    re.compile(rf"(?:在|从|到|对|于)?\s*(?P<place>{PATH}|{QUOTE}|[A-Za-z0-9_~-]+)\s*(?:这个|那个)?(?:目录|文件夹|文件|项目)?(?:里面|里边|里|中|下面|下|内|之中|底下)"),
    re.compile(rf"(?:在|从)\s*(?P<place>{PATH}|{QUOTE}|[A-Za-z0-9_~-]+)\s*(?:这个|那个)?(?:目录|文件夹|文件|项目)?"),
    re.compile(rf"(?P<place>{PATH}|{QUOTE}|[A-Za-z0-9_~-]+)\s*(?:这个|那个)?(?:目录|文件夹)"),
    re.compile(rf"(?:目录|文件夹)\s*(?P<place>{PATH}|{QUOTE}|[A-Za-z0-9_~-]+)"),
)  # fmt: skip
_SPECIAL: Final = (
    (re.compile(r"\b(?:home (?:directory|folder|dir)|my home)\b|主目录|家目录", re.IGNORECASE), "~"),
    (re.compile(r"\b(?:parent (?:directory|folder|dir)|one level up|directory above|folder above)\b|上级目录|上一级", re.IGNORECASE), ".."),
)  # fmt: skip


def folders(request: ParsedRequest, *, outside: tuple[int, int] | None = None) -> list[PathMention]:
    """Where the request says to look, surest first.

    Args:
        request: the request.
        outside: a stretch of the masked text that is something else (the pattern of a search).
    """
    found: list[PathMention] = []
    first, _ = body_of(request.masked)
    for pattern, path in _SPECIAL:
        match = pattern.search(request.masked)
        if match is not None:
            found.append(PathMention(path, match.start(), match.end(), True))
    for number, scope in enumerate(_SCOPES):
        for match in scope.finditer(request.masked):
            start, end = match.span("place")
            if outside is not None and start < outside[1] and outside[0] < end:
                continue
            if number == 2 and start == first and request.masked[start:end].lower() in ORDERS:
                # "Show directory contents": the first word orders, it names no folder.
                continue
            place = _place(
                request, start, end, called_folder=number in (2, 3, 6, 7) or _says_folder(match[0])
            )
            if place is not None:
                found.append(place)
    for span in request.of("dir", "path"):
        start = request.origin.index(span.start)
        end = start + span.end - span.start
        if outside is None or end <= outside[0] or start >= outside[1]:
            found.append(PathMention(span.text, start, end, True))
    found.sort(key=lambda place: not place.sure)
    return found


def _says_folder(text: str) -> bool:
    return re.search(rf"\b(?:{_FOLDER}|package|module)\b|目录|文件夹", text, re.IGNORECASE) is not None


def _place(request: ParsedRequest, start: int, end: int, *, called_folder: bool) -> PathMention | None:
    text = request.copy(start, end)
    masked = request.masked[start:end]
    if re.fullmatch("[\ue001-\ue003]+", masked):
        return PathMention(text, start, end, True)
    if masked.startswith("\ue004"):
        # A quoted word is a place only where it is called one.
        return (
            PathMention(text, start, end, True) if called_folder and re.fullmatch(r"[^\s]+", text) else None
        )
    word = text.lower()
    if re.match(r"\s+files\b", request.masked[end:], re.IGNORECASE):
        # "in python files" says which files, not where.
        return None
    if word in HERE or word in NO_NAMES or not re.search(r"\w", text) or text.isdigit():
        return None
    return PathMention(text, start, end, called_folder)
