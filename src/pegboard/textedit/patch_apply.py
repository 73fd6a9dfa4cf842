"""Applying a patch: every file computed first, then all of them wanted or none."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import Conflict, NotFound, ToolError
from pegboard.ports.files import Delete, Move, Wanted, Write
from pegboard.textedit.encoding import decode
from pegboard.textedit.patch import (
    AddFile,
    CopyFile,
    DeleteFile,
    FilePatch,
    Hunk,
    UpdateFile,
    read_patch,
)
from pegboard.textedit.patch_update import update
from pegboard.textedit.redaction_marks import refuse_marks

Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRules:
    """What a patch may do beyond the safe.

    Attributes:
        overwrite: adding or moving onto a file that is there replaces it.
        first_match: of several fitting places the first is meant.
        partial: what comes before a failing file counts.
    """

    overwrite: bool = False
    first_match: bool = False
    partial: bool = False


STRICT: Final = PatchRules()
"""All or none, nothing replaced unsaid, no place chosen by chance."""

CODEX: Final = PatchRules(overwrite=True, first_match=True, partial=True)
"""As the program that the Begin/End form comes from does it (docs/decisions/0030)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchResult:
    """What a patch makes of the files.

    Attributes:
        wanted: the changes, for `Files.propose`.
        summary: one line a file as git names it: `A path`, `M path`, `D path`, `R path -> path`,
            `C path -> path`.
        notes: what did not fit exactly, one sentence each.
        replaced: files that the patch adds or moves something onto; only with `PatchRules.overwrite`.
        error: only with `PatchRules.partial`: why the rest was not done.
    """

    wanted: tuple[Wanted, ...]
    summary: tuple[str, ...]
    notes: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    error: ToolError | None = None


def apply_patch(text: str, read: Read, *, rules: PatchRules = STRICT) -> PatchResult:
    """The changes that a patch stands for; changes nothing itself.

    Args:
        text: the patch, see `read_patch`.
        read: the bytes of a file, None where there is none.
        rules: what is allowed.

    Raises:
        BadPatch: the text is no patch.
        NotFound: a file or the lines of a hunk are not there.
        NotUnique: a hunk fits in several places.
        Conflict: a file to add, or the target of a move, exists.
        InvalidArguments: the new text holds a redaction mark.
    """
    return apply_files(read_patch(text), read, rules=rules)


def apply_files(patches: Sequence[FilePatch], read: Read, *, rules: PatchRules = STRICT) -> PatchResult:
    """As `apply_patch`, from a patch that was read already."""
    tree = _Tree(read, rules, _leaving(patches))
    error: ToolError | None = None
    for patch in patches:
        try:
            tree.apply(patch)
        except ToolError as failed:
            if not rules.partial or not tree.summary:
                raise
            error = failed
            break
    return PatchResult(
        wanted=tree.wanted(), summary=tuple(dict.fromkeys(tree.summary)), notes=tuple(tree.notes),
        replaced=tuple(tree.replaced), error=error,
    )  # fmt: skip


def _leaving(patches: Sequence[FilePatch]) -> frozenset[str]:
    """Files that git's renames take away, and so make room at their names for others."""
    return frozenset(
        posixpath.normpath(patch.path)
        for patch in patches
        if isinstance(patch, UpdateFile) and patch.from_start and patch.moved_to is not None
    )


class _Tree:
    """The files as the patch leaves them so far; nothing outside is touched."""

    def __init__(self, read: Read, rules: PatchRules, leaving: frozenset[str]) -> None:
        self._read = read
        self._rules = rules
        self._leaving = leaving
        self._before: dict[str, bytes | None] = {}
        self._after: dict[str, bytes | None] = {}
        self._modes: dict[str, int] = {}
        self._moves: dict[str, str] = {}
        self._copies: dict[str, str] = {}
        self._arrived: set[str] = set()
        self.replaced: list[str] = []
        self.summary: list[str] = []
        self.notes: list[str] = []

    def apply(self, patch: FilePatch) -> None:
        """Do one file's change."""
        match patch:
            case AddFile():
                self._add(patch)
            case DeleteFile():
                self._delete(patch)
            case UpdateFile():
                self._update(patch)
            case CopyFile():
                self._copy(patch)

    def wanted(self) -> tuple[Wanted, ...]:
        """What differs from before: moves that are only that as moves, the rest as writes and deletes."""
        out: list[Wanted] = []
        moved = {
            source: to
            for source, to in self._moves.items()
            if self._after[source] is None and self._before[source] is not None
            and self._before[to] is None and self._after[to] is not None and to not in self._modes
        }  # fmt: skip
        for source, to in moved.items():
            data = self._after[to]
            out.append(Move(path=source, to=to, data=None if data == self._before[source] else data))
        for path, after in self._after.items():
            before = self._before[path]
            if path in moved or path in moved.values():
                continue
            if after is None:
                if before is not None:
                    out.append(Delete(path=path))
            elif after != before or path in self._modes:
                digest = None if before is None else hashlib.sha256(before).hexdigest()
                out.append(
                    Write(
                        path=path, data=after, mode=self._modes.get(path), expected_sha256=digest,
                        like=self._copies.get(path),
                    )
                )  # fmt: skip
        return tuple(out)

    def _get(self, path: str) -> tuple[str, bytes | None]:
        key = posixpath.normpath(path)
        if key not in self._before:
            self._before[key] = self._after[key] = self._read(path)
        return key, self._after[key]

    def _there(self, path: str, others: Sequence[str]) -> str:
        """The first of a file's possible names that is there, else `path`."""
        return next((one for one in (path, *others) if self._get(one)[1] is not None), path)

    def _existing(self, path: str, verb: str, *, from_start: bool = False) -> tuple[str, bytes]:
        key, data = self._get(path)
        if from_start:
            data = self._before[key]
        if data is None:
            raise NotFound(
                f"File not found: {path}, which the patch would {verb}. Nothing was changed.",
                hint="Check the path, or add the file with '*** Add File:'.",
                details={"path": path},
            )
        return key, data

    def _free(self, path: str, verb: str) -> str:
        key, data = self._get(path)
        if data is None or (key in self._leaving and key not in self._arrived):
            return key
        if not self._rules.overwrite:
            raise Conflict(
                f"{path} exists already, so the patch cannot {verb} it. Nothing was changed.",
                hint="Update it, delete it first in the same patch, or set overwrite.",
                details={"path": path},
            )
        if self._before[key] is not None:
            self.replaced.append(path)
        return key

    def _said(self, line: str, target: str) -> None:
        """Note one line of the summary; what is replaced is never left unsaid."""
        was = self._before[posixpath.normpath(target)]
        if was is not None and target in self.replaced:
            line += f" (replacing the file that was there, {len(was)} bytes)"
        self.summary.append(line)

    def _add(self, patch: AddFile) -> None:
        refuse_marks(patch.text, "", patch.path)
        key = self._free(patch.path, "add")
        self._after[key] = patch.text.encode("utf-8")
        if patch.mode is not None:
            self._modes[key] = patch.mode
        self._said(f"A {patch.path}", patch.path)

    def _delete(self, patch: DeleteFile) -> None:
        key, data = self._existing(self._there(patch.path, patch.others), "delete")
        if patch.hunks and _old_text(patch.hunks) != decode(data).text.replace("\r\n", "\n").rstrip("\n"):
            raise Conflict(
                f"{patch.path} is not what the patch deletes: its content differs. Nothing was changed.",
                hint="Read the file; delete it by path if that is meant.",
                details={"path": patch.path},
            )
        self._after[key] = None
        self.summary.append(f"D {patch.path}")

    def _update(self, patch: UpdateFile) -> None:
        path = self._there(patch.path, patch.others)
        key, data = self._existing(path, "update", from_start=patch.from_start)
        after = data
        if patch.hunks:
            after, notes = update(data, patch, first_match=self._rules.first_match)
            self.notes += notes
        target = key
        if patch.moved_to is not None and posixpath.normpath(patch.moved_to) != key:
            target = self._free(patch.moved_to, "move a file onto")
            if not (patch.from_start and key in self._arrived):
                self._after[key] = None
            self._moves[key] = target
            self._arrived.add(target)
            self._said(f"R {path} -> {patch.moved_to}", patch.moved_to)
        else:
            self.summary.append(f"M {path}")
        self._after[target] = after
        if patch.mode is not None:
            self._modes[target] = patch.mode

    def _copy(self, patch: CopyFile) -> None:
        key, data = self._existing(patch.path, "copy", from_start=True)
        target = self._free(patch.to, "copy a file onto")
        if patch.hunks:
            change = UpdateFile(path=patch.path, hunks=patch.hunks, numbered=True)
            data, notes = update(data, change, first_match=self._rules.first_match)
            self.notes += notes
        self._after[target] = data
        self._arrived.add(target)
        if patch.mode is not None:
            self._modes[target] = patch.mode
        elif self._before[target] is None:
            self._copies[target] = key
        self._said(f"C {patch.path} -> {patch.to}", patch.to)


def _old_text(hunks: Sequence[Hunk]) -> str:
    return "\n".join(line for hunk in hunks for line in hunk.old).rstrip("\n")
