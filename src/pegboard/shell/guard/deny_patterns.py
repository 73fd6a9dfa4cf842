"""The deny patterns of the documents as data, with their texts, and what they mean once parsed.

The documents search their patterns in the raw text, so `git log --format=%H` is blocked as `format` and
`rm --recursive --force` is not blocked at all. Here each row has two readings: `as_written`, the document's
own search, for the profiles that promise it byte for byte; and the parsed one, which asks what the segments
of the command are.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pegboard.core.effects import Effect

Argv: TypeAlias = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyPattern:
    """One deny row.

    Attributes:
        row: the row of the documents that it comes from.
        shown: the pattern as the document writes it.
        search: its search on the raw command.
        means: whether a parsed segment is what the row is about.
    """

    row: str
    shown: str
    search: re.Pattern[str]
    means: Callable[[Argv], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyMatch:
    """A row that a command meets; `text` is the refusal in the document's words."""

    row: str
    pattern: str
    text: str


def _program(*names: str) -> Callable[[Argv], bool]:
    wanted = frozenset(names)
    return lambda argv: _base(argv) in wanted or (_base(argv).split(".")[0] in wanted)


def _base(argv: Argv) -> str:
    return posixpath.basename(argv[0]).lower() if argv else ""


def _letters(argv: Argv) -> str:
    return "".join(a[1:] for a in argv[1:] if re.fullmatch(r"-[A-Za-z]+", a)).lower()


def _removes(argv: Argv) -> bool:
    """`rm` with the recursive or the force option, however spelt."""
    long = [a for a in argv[1:] if len(a) > 4 and ("--recursive".startswith(a) or "--force".startswith(a))]
    return _base(argv) == "rm" and ("r" in _letters(argv) or "f" in _letters(argv) or bool(long))


def _removes_tree(argv: Argv) -> bool:
    letters = _letters(argv)
    recursive = "r" in letters or any(len(a) > 4 and "--recursive".startswith(a) for a in argv[1:])
    force = "f" in letters or any(len(a) > 4 and "--force".startswith(a) for a in argv[1:])
    return _base(argv) == "rm" and recursive and force


def _removes_root(argv: Argv) -> bool:
    return _removes_tree(argv) and any(a.startswith("/") for a in argv[1:])


def _slash(program: str, letters: str) -> Callable[[Argv], bool]:
    return lambda argv: (
        _base(argv) == program and any(a.lower() in {f"/{c}" for c in letters} for a in argv[1:])
    )


def _copies_disk(argv: Argv) -> bool:
    return _base(argv) == "dd" and any(a.startswith("if=") for a in argv[1:])


def _drops(argv: Argv) -> bool:
    # Text printers and searchers have the words as data.
    return (
        _base(argv) not in _PRINTERS
        and re.search(r"\bdrop\s+table\b", " ".join(argv), re.IGNORECASE) is not None
    )


def _never(argv: Argv) -> bool:
    return False


_PRINTERS: Final = frozenset({"echo", "printf", "grep", "rg", "git", "cat", "sed", "awk"})


def _row(row: str, pattern: str, means: Callable[[Argv], bool], *, literal: bool = False) -> DenyPattern:
    search = re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE)
    return DenyPattern(row=row, shown=pattern, search=search, means=means)


NANOBOT: Final = (
    _row("N-49", r"\brm\s+-[rf]{1,2}\b", _removes),
    _row("N-50", r"\bdel\s+/[fq]\b", _slash("del", "fq")),
    _row("N-51", r"\brmdir\s+/s\b", _slash("rmdir", "s")),
    _row("N-52", r"(?:^|[;&|]\s*)format\b", _program("format")),
    _row("N-53", r"\b(mkfs|diskpart)\b", _program("mkfs", "diskpart")),
    _row("N-54", r"\bdd\s+if=", _copies_disk),
    _row("N-55", r">\s*/dev/sd", _never),
    _row("N-56", r"\b(shutdown|reboot|poweroff)\b", _program("shutdown", "reboot", "poweroff")),
    _row("N-57", r":\(\)\s*\{.*\};\s*:", _never),
)
NANOBOT_NET: Final = (
    _row("C-21", "rm -rf /", _removes_root, literal=True),
    _row("C-21", "format", _program("format"), literal=True),
    _row("C-21", "dd if=", _copies_disk, literal=True),
    _row("C-21", "shutdown", _program("shutdown"), literal=True),
    _row("C-21", "reboot", _program("reboot"), literal=True),
    _row("C-21", "mkfs", _program("mkfs"), literal=True),
)
SAFETY_HOOK: Final = (
    _row("D-57", "rm -rf", _removes_tree, literal=True),
    _row("D-57", "sudo", _program("sudo"), literal=True),
    _row("D-57", "DROP TABLE", _drops, literal=True),
)

PROFILES: Final[dict[str, tuple[tuple[DenyPattern, ...], str]]] = {
    "nanobot": (NANOBOT, "Error: Command blocked by safety guard (dangerous pattern detected)"),
    "nanobot-net": (NANOBOT_NET, "Error: Command contains blocked pattern"),
    "nanobot-net-safe": (NANOBOT_NET, "Error: Command blocked for security reasons"),
    "nanobot-hook": (SAFETY_HOOK, "命令包含危险模式: {pattern}"),
}
"""Profile → its rows and its refusal (`nanobot`'s own document states no text)."""


def deny_matches(
    profile: str,
    command: str,
    effects: Sequence[Effect] = (),
    *,
    as_written: bool = False,
    extra: Sequence[str] = (),
) -> DenyMatch | None:
    """The first deny row of a profile that a command meets.

    Args:
        profile: a key of PROFILES; dashes and underscores are the same.
        command: the raw text.
        effects: of its judgement; the parsed reading looks at the `exec` and `write` effects.
        as_written: search the raw text as the document does, false hits included.
        extra: further denied texts (`additionalDeniedPatterns`), always searched as text.

    Returns:
        The match, or None.

    Raises:
        KeyError: no such profile.
    """
    rows, text = PROFILES[profile.replace("_", "-")]
    for row in rows:
        hit = row.search.search(command.lower()) if as_written else _meant(row, effects)
        if hit:
            return DenyMatch(row=row.row, pattern=row.shown, text=text.format(pattern=row.shown))
    for denied in extra:
        if denied and denied.lower() in command.lower():
            return DenyMatch(row="C-22", pattern=denied, text=text.format(pattern=denied))
    return None


def _meant(row: DenyPattern, effects: Sequence[Effect]) -> bool:
    for effect in effects:
        if (
            effect.kind == "write"
            and row.row == "N-55"
            and re.match(r"/dev/(?:sd|nvme|vd|hd|mmcblk)", effect.target)
        ):
            return True
        if effect.kind != "exec":
            continue
        if row.row == "N-57" and "copies of itself" in effect.reason:
            return True
        # The argv is the innermost program's; the text still starts with what wraps it.
        if (effect.argv and row.means(effect.argv)) or row.means(effect.target.split()):
            return True
    return False
