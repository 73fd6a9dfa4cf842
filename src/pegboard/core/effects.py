"""Effects: what a call will do to the world, known before it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

EffectKind: TypeAlias = Literal[
    "read", "write", "delete", "exec", "connect", "send", "spawn", "schedule", "spend", "control", "call"
]
Verdict: TypeAlias = Literal["allow", "ask", "deny"]

EFFECT_KINDS: Final[tuple[EffectKind, ...]] = (
    "read",
    "write",
    "delete",
    "exec",
    "connect",
    "send",
    "spawn",
    "schedule",
    "spend",
    "control",
    "call",
)

PATH_KINDS: Final = frozenset({"read", "write", "delete"})
"""The effects whose targets are paths."""

THIS_COMMAND: Final = "this command "
"""What `Effect.bound` begins with where a yes holds for one command only; the command's digest follows."""

_STRICTNESS: Final[dict[Verdict, int]] = {"allow": 0, "ask": 1, "deny": 2}


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """The strictest of some verdicts; `allow` when there are none."""
    worst: Verdict = "allow"
    for verdict in verdicts:
        if _STRICTNESS[verdict] > _STRICTNESS[worst]:
            worst = verdict
    return worst


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a call does.

    Attributes:
        kind: one of EFFECT_KINDS.
        target: what it is done to. Paths are resolved: relative to the workspace
            with `/` where inside (`.` is the workspace itself), absolute where outside.
            exec: the command segment as text. connect: `host` or `host:port`.
            send: `channel:chat`. call: `server/tool`.
        argv: exec only: program and arguments as parsed; None = not analysable.
        read_only: exec only: the segment stands in the read-only table.
        at_least: the tool's own judgement of this effect (the shell guard's verdict);
            a policy may be stricter, and only a grant, an allow rule or an override is milder.
        reason: why `at_least` says so, one clause for people and models.
        bound: what a yes is bound to beside the words: `PATH sha256:HEX` for each script of the
            workspace that an exec runs, and the digest of the whole command where words of
            it are not known before it runs, since the same words may then mean something else.
        unordered: call only: the server takes calls side by side.
        decisive: exec only: words that make the segment run something else than its program's name says
            (`core.pager=./x`, `--to-command=./x`). A rule that allows commands covers the segment only
            where its pattern spells each of them; what no pattern can spell stands for text that is
            not known before it runs.
    """

    kind: EffectKind
    target: str
    argv: tuple[str, ...] | None = None
    read_only: bool = False
    at_least: Verdict | None = None
    reason: str = ""
    bound: str = ""
    unordered: bool = False
    decisive: tuple[str, ...] = ()

    def __str__(self) -> str:
        folder, deep, name = str(self.target).partition("**/")
        if deep and self.kind in PATH_KINDS:
            return f"{self.kind} {name} (below {folder.rstrip('/') or '.'})"
        return f"{self.kind} {self.target}"

    def __repr__(self) -> str:
        shown = str(self)
        return shown if shown.isprintable() else repr(shown)

    def to_dict(self) -> dict[str, Any]:
        """`{kind, target}`, the shape that outside scripts read."""
        return {"kind": self.kind, "target": self.target}


PURE: Final[tuple[Effect, ...]] = ()
"""Declares a tool that touches nothing: no effects."""


_LETTERS: Final = {"create": "A", "modify": "M", "delete": "D", "move": "R"}
_CUT: Final = re.compile(r"\[diff cut here: .*, \+(\d+) -(\d+)\]")
"""The end of a diff that was cut, with how many of the lines left out are added and removed."""
_LONG: Final = re.compile(r"… \(\d+ characters\)$")
"""The end of a line of a diff that was too long for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file that a ChangeSet creates, modifies, deletes or moves.

    Attributes:
        path: workspace-relative with `/`, or absolute where outside.
        kind: create, modify, delete or move.
        before: the whole file before, None when it did not exist.
        after: the whole file afterwards, None when it is deleted.
        moved_to: the new path of a move, else None.
        mode: permission bits to give a created file, None = the default.
        diff: unified diff for people; for binary content one line that says so.
        before_sha256, after_sha256: hex digests of the contents where whoever made the change has
            them already, so that large contents are hashed once; None = not computed yet.
    """

    path: str
    kind: Literal["create", "modify", "delete", "move"]
    before: bytes | None
    after: bytes | None
    moved_to: str | None = None
    mode: int | None = None
    diff: str = ""
    before_sha256: str | None = field(default=None, compare=False, repr=False)
    after_sha256: str | None = field(default=None, compare=False, repr=False)

    def digest(self) -> str:
        """SHA-256 (hex) over path, kind and both contents' hashes."""
        before = self.before_sha256 or _sha(self.before)
        return _digest(
            [self.path, self.kind, self.moved_to, before, self.after_sha256 or _sha(self.after), self.mode]
        )

    def summary(self) -> str:
        """`M a.txt (+2 -1)`: git's letter, the path, and how much changes."""
        from pegboard.core.text import escape_invisible

        to = "" if self.moved_to is None else f" -> {escape_invisible(self.moved_to)}"
        return f"{_LETTERS[self.kind]} {escape_invisible(self.path)}{to}{self.extent()}"

    def extent(self) -> str:
        """How much changes, as ` (+2 -1)`: lines added and removed, counted in the diff as diffstat(1) does.

        Where no line changes, what does: ` (binary, 10 bytes -> 12 bytes)`, ` (mode 755)`, ` (empty file)`. Empty
        for a move alone.
        """
        *head, last = self.diff.removesuffix("\n").split("\n")
        hunks = next((i for i, line in enumerate(head) if line.startswith("@@ ")), None)
        if hunks is not None:
            cut = _CUT.fullmatch(last)
            added, removed = (0, 0) if cut is None else map(int, cut.groups())
            lines = [*head[hunks:], last]
            added += sum(line.startswith("+") for line in lines)
            removed += sum(line.startswith("-") for line in lines)
            return f" (+{added} -{removed})"
        if last.startswith("Binary file "):
            return f" (binary, {last.rpartition(' differs: ')[2]})"
        if last.startswith("mode "):
            return f" (mode {last.rpartition(' => ')[2]})"
        return f" {last}" if last.startswith("(") else ""

    @property
    def shown_whole(self) -> bool:
        """Whether the diff shows all that changes: neither it nor a line of it is cut, and the content is text."""
        lines = self.diff.splitlines() or [""]
        return not (
            lines[-1].startswith("Binary file ") or _CUT.fullmatch(lines[-1]) or any(map(_LONG.search, lines))
        )

    def to_dict(self) -> dict[str, Any]:
        """`{path, kind, diff}`, and `moved_to` for a move."""
        out: dict[str, Any] = {"path": self.path, "kind": self.kind, "diff": self.diff}
        if self.moved_to is not None:
            out["moved_to"] = self.moved_to
        return out


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All file changes of one call, computed first, then previewed or committed as a whole.

    Attributes:
        changes: the changes, in commit order.
        note: what a person or model should know about how they were found
            (for example `matched after ignoring indentation`), may be empty.
    """

    changes: tuple[Change, ...] = ()
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.changes)

    def effects(self) -> tuple[Effect, ...]:
        """The write and delete effects of these changes."""
        out: list[Effect] = []
        for change in self.changes:
            if change.kind == "delete":
                out.append(Effect("delete", change.path))
            elif change.kind == "move":
                out.append(Effect("delete", change.path))
                out.append(Effect("write", change.moved_to or change.path))
            else:
                out.append(Effect("write", change.path))
        return tuple(out)


NO_CHANGES: Final = ChangeSet()


@dataclass(frozen=True, slots=True)
class Plan:
    """What one call will do: its effects and, for file tools, its exact changes.

    Attributes:
        effects: every effect, in the order in which they will happen.
        changes: the file changes, empty where the tool changes no files or cannot know them.
        private: the tool's own working value, handed to `run` unchanged and not part of the digest.
    """

    effects: tuple[Effect, ...] = ()
    changes: ChangeSet = NO_CHANGES
    private: Any = None

    def digest(self) -> str:
        """SHA-256 (hex) over effects and changes; what an approval is bound to."""
        return _digest(
            [[e.kind, e.target, e.argv, e.bound] for e in self.effects]
            + [c.digest() for c in self.changes.changes]
        )


EMPTY_PLAN: Final = Plan()


def _sha(data: bytes | None) -> str | None:
    import hashlib

    return None if data is None else hashlib.sha256(data).hexdigest()


def _digest(value: Any) -> str:
    import hashlib

    return hashlib.sha256(
        json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogatepass")
    ).hexdigest()
