"""Simple commands as the walk finds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pegboard.shell.guard.words import Word


@dataclass(frozen=True, slots=True)
class Source:
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
    stdin: Source | None
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
    endless = any(re.fullmatch(r"(?:if=)?/dev/(?:zero|full|random|urandom)", text) for text in texts[1:])
    return (
        endless
        and texts[0] in ("cat", "dd", "pv", "tee", "cp")
        and not any(t.startswith("count=") for t in texts)
    )
