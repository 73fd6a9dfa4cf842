"""Problems: what does not fit, and what was most likely meant: a name, a value, a form of a union."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from pegboard.core.errors import InvalidArguments
from pegboard.core.schema.numerals import Numeral
from pegboard.core.secrets.clip import clip

_MAX_LINES: Final = 6
_MAX_CHOICES: Final = 250
"""Characters of a list of what may be chosen; of a longer one the nearest are told."""
_NEAREST: Final = 3
_READ: Final = 2048
"""Characters of a text that are read to show its beginning."""


class Problem(NamedTuple):
    """One thing that does not fit.

    Attributes:
        path: `.where.op`, `.tags[0]`; empty for the arguments as a whole.
        message: what is wrong with it and what was expected.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def raise_invalid(problems: Sequence[Problem], *, name: str, hint: str = "") -> NoReturn:
    """Raise the InvalidArguments that tells every problem, one line each."""
    unique = [Problem(short_path(p.path), p.message) for p in dict.fromkeys(problems)]
    lines = [str(p) for p in unique[:_MAX_LINES]]
    if len(unique) > _MAX_LINES:
        lines.append(f"… and {len(unique) - _MAX_LINES} more.")
    tool = f" for {name}" if name else ""
    raise InvalidArguments(
        "\n".join([f"Invalid arguments{tool}:", *lines])
        if len(lines) > 1
        else f"Invalid arguments{tool}: {lines[0]}",
        hint=hint or "Nothing ran. Correct this and call again.",
        details={"errors": [{"path": p.path, "message": p.message} for p in unique]},
    )


def short_path(path: str, limit: int = 200) -> str:
    """The path; of one that is too long to be read its beginning and its length: names are a model's too."""
    return path if len(path) <= limit else f"{clip(path, 0, limit)}… ({len(path)} characters)"


def format_json(value: Any, limit: int = 40) -> str:
    """A value as JSON, shortened in its middle to about `limit` characters."""
    try:
        text = (
            value.text
            if isinstance(value, Numeral)
            else json.dumps(value[:_READ] if isinstance(value, str) else value, ensure_ascii=False)
        )
    except (TypeError, ValueError, RecursionError):
        text = f"a Python {type(value).__name__}"
    cut = isinstance(value, str) and len(value) > limit * 3
    if len(text) <= limit and not cut:
        return text
    return f"{clip(text, 0, limit - 12)}…{clip(text, -9)}" if not cut else f"{clip(text, 0, limit - 3)}…"


def short_name(name: str, limit: int = 80) -> str:
    """A name between quotes; of one that is too long to be one its beginning and its length."""
    return f"'{name}'" if len(name) <= limit else f"'{clip(name, 0, limit)}…' ({len(name)} characters)"


def chosen_from(listed: Sequence[Any], received: Any, whole: str) -> str:
    """What may be chosen: the `whole` where it is short, else how many there are and the nearest of them."""
    if len(whole) <= _MAX_CHOICES:
        return whole
    words = {one if isinstance(one, str) else format_json(one): one for one in listed}
    word = received if isinstance(received, str) else format_json(received)
    near = nearest(word[:_MAX_CHOICES], words, count=_NEAREST, cutoff=0.3)
    told = ", ".join(format_json(words[one]) for one in near or list(words)[:_NEAREST])
    return f"one of {len(listed)} values, among them {told}"


_LONGEST_NAME: Final = 200
"""Characters of a name that the nearest one is looked for; longer ones are no slip."""
_SLIPS: Final = 2
MAX_NEAREST: Final = 50


def nearest(name: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known names that `name` was most likely meant to be, best first; notation is ignored.

    Names a slip or two away come first: two letters swapped, one missing, one too many, one wrong. Among
    equally many slips the one of the same letters wins: `modle` is `model` before `mode`.

    Args:
        name: as it was written; one of over 200 characters is near nothing.
        known: the names that there are.
        count: how many at most.
        cutoff: the share of letters in common, 0 to 1, below which names two or more slips apart are not near.
    """
    if len(name) > _LONGEST_NAME:
        return []
    from rapidfuzz.distance import OSA, Indel

    word = fold(name)
    found: list[tuple[int, float, str]] = []
    for one in dict.fromkeys(known):
        other = fold(one)
        slips = OSA.distance(word, other, score_cutoff=_SLIPS)
        alike = Indel.normalized_similarity(word, other)
        if alike >= cutoff or (slips == 1 and len(word) > 1):
            letters = Indel.distance(sorted(word), sorted(other)) if slips <= _SLIPS else 1 - alike
            found.append((slips, letters, one))
    return [one for *_, one in sorted(found, key=lambda row: row[:2])[:count]]


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "", cutoff: float = 0.6) -> str:
    """`; did you mean 'X'?`, or `otherwise` where nothing is near."""
    near = nearest(name, known, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else otherwise


def unknown_name(key: str, known: list[str], aliases: Mapping[str, str]) -> str:
    """What to say of a name that is none of the known ones: the nearest, or which there are."""
    if not known:
        return "unknown argument; this tool takes none"
    if near := nearest(key, (*known, *aliases)):
        return f"unknown argument; did you mean {aliases.get(near[0], near[0])!r}?"
    return f"unknown argument; the parameters are {', '.join(known[:12])}"


def by_folded_name(known: Iterable[str], aliases: Mapping[str, str] | None = None) -> dict[str, str]:
    """The known name for each folded spelling of one, or of an alias; without those that several share."""
    meant: dict[str, set[str]] = {}
    for name in known:
        meant.setdefault(fold(name), set()).add(name)
    for alias, name in (aliases or {}).items():
        meant.setdefault(fold(alias), set()).add(name)
    return {folded: names.pop() for folded, names in meant.items() if len(names) == 1}


def fold(name: str) -> str:
    """A name without its notation: the same for `maxChars`, `max-chars` and `max_chars`."""
    return name.lower().replace("_", "").replace("-", "")


class BranchError(NamedTuple):
    """One thing that does not fit in one branch.

    Attributes:
        steps: keys and indexes that lead to it; those of a missing field end in its name.
        choice: the value is none of some listed ones, as a discriminator of another branch is.
    """

    steps: tuple[int | str, ...]
    choice: bool = False


def closest_branch(base: tuple[int | str, ...], branches: Sequence[Sequence[BranchError]]) -> int | None:
    """The branch that the value at `base` fits best.

    By its discriminator where it has one (no listed value of a field directly below is missed), else the
    one with the fewest faults. None where every branch wants another kind of value altogether: then each
    says in a word what it wants, and all are worth reading.
    """
    depth = len(base)
    if len(branches) > 1 and all(len(f.steps) <= depth for faults in branches for f in faults):
        return None

    def distance(index: int) -> tuple[bool, int, int]:
        faults = branches[index]
        another_kind = any(len(f.steps) <= depth for f in faults)
        missed = sum(f.choice and len(f.steps) == depth + 1 for f in faults)
        return another_kind, missed, len(faults)

    return min(range(len(branches)), key=distance)


def closest_branch_note(count: int) -> str:
    """What stands before the faults of the nearest of `count` branches."""
    return f"fits none of its {count} forms; only the nearest is explained"
