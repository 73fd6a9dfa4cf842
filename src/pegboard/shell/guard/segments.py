"""Simple commands as the walk finds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pegboard.shell.guard.words import Word


@dataclass(frozen=True, slots=True)
class StdinSource:
    """What feeds a command's standard input: a literal text, or the command on the pipe's left."""

    text: str | None = None
    argv: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Redirect:
    """One redirection: operator without descriptor, and its target words."""

    operator: str
    target: tuple[Word, ...]


@dataclass(slots=True)
class Segment:
    """One simple command, as the walk hands it on."""

    text: str
    words: list[Word]
    assigned: list[tuple[str, Word]]
    redirects: list[Redirect]
    stdin: StdinSource | None
    cwd: str | None
    #: Where the command would run if an earlier `cd` had failed; deleting looks at these too.
    other_cwds: tuple[str, ...]
    functions: frozenset[str]
    piped_on: bool = False


def writes_forever(words: Sequence[Word]) -> bool:
    """Whether a command's output never ends: `yes`, or a source without end that nothing counts."""
    texts = [word.text for word in words]
    if texts[:1] == ["yes"]:
        return True
    if texts[:1] == ["head"] and any(huge(text) for text in texts[1:]):
        return True
    endless = any(re.fullmatch(r"(?:if=)?/dev/(?:zero|full|random|urandom)", text) for text in texts[1:])
    return (
        endless
        and texts[0] in _COPIERS
        and (not any(t.startswith("count=") for t in texts) or _blocks(texts) > MAX_BYTES)
    )


_COPIERS: Final = frozenset(
    [
        "cat",
        "dd",
        "pv",
        "tee",
        "cp",
        "base64",
        "base32",
        "gzip",
        "bzip2",
        "xz",
        "zstd",
        "lz4",
        "sed",
        "awk",
        "gawk",
        "nl",
        "rev",
        "tac",
        "fold",
        "strings",
        "tr",
        "openssl",
    ]
)
MAX_BYTES: Final = 64 << 30
"""A file that a command makes larger than this is made to fill the disk."""

_SIZE: Final = re.compile(
    r"(?:-c|--bytes=|-s|--size=|-l|--length=)?[<>%/+]?(\d{1,30})([KMGTPEZY]?)(i?B?)", re.IGNORECASE
)


def huge(text: str) -> bool:
    """Whether a size, as coreutils write it, is past MAX_BYTES."""
    return size(text) > MAX_BYTES


def size(text: str) -> int:
    """Bytes of `10`, `4K`, `2GiB`, `1TB`; 0 where the text is no size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return 0
    power = " KMGTPEZY".index(match[2].upper() or " ")
    return int(match[1]) * (1000 if match[3].upper() == "B" and power else 1024) ** power


def _blocks(texts: Sequence[str]) -> int:
    """Bytes that `dd` copies: `bs` times `count`."""
    block, count = 512, 0
    for text in texts:
        name, _, value = text.partition("=")
        if name == "bs":
            block = size(value) or size(value.rstrip("cwb")) or 512
        elif name == "count":
            count = size(value)
    return block * count
