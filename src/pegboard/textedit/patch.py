"""Patches: many file changes in one text, read from two forms, applied all or none (ledger M-56, K-39)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pegboard.core.errors import InvalidArguments

Sign: TypeAlias = Literal[" ", "+", "-"]


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk: kept (` `), added (`+`) or removed (`-`).

    Attributes:
        text: without its ending.
        newline: the ending that an added line has, empty where it takes that of its place.
    """

    sign: Sign
    text: str
    newline: Literal["", "\n", "\r\n"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that change together.

    Attributes:
        lines: in order; without their signs they are the old and the new lines.
        seeks: lines to find first, one after the other (`@@ class A:`).
        at_end: the old lines are the last of the file.
        start: 1-based line of the old file as the patch says it, None where it says none.
        bare_end: the new file's last line has no line ending (unified form only).
        row: 1-based line of the patch at which the hunk begins.
    """

    lines: tuple[PatchLine, ...]
    seeks: tuple[str, ...] = ()
    at_end: bool = False
    start: int | None = None
    bare_end: bool = False
    row: int = 0

    @property
    def old(self) -> list[str]:
        """The lines that the file must have."""
        return [line.text for line in self.lines if line.sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that the file has afterwards."""
        return [line.text for line in self.lines if line.sign != "-"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile:
    """A new file; `mode` None = the default permissions."""

    path: str
    text: str
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A file that goes; where `hunks` are given the file must hold exactly their old lines.

    Attributes:
        others: as in UpdateFile.
    """

    path: str
    hunks: tuple[Hunk, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFile:
    """A file that changes, moves or both.

    Attributes:
        moved_to: the new path, None where it stays.
        hunks: may be empty only for a move or a change of mode.
        mode: permission bits, None = unchanged.
        numbered: unified form: hunks carry line numbers, and say themselves how the file ends.
        from_start: the file is meant as it was before the patch, whatever other parts of the patch do to
            it; git's renames are, so that two files can change names.
        others: further names that the file may have where `path` is not there (`--- f.orig`, `+++ f`).
    """

    path: str
    hunks: tuple[Hunk, ...]
    moved_to: str | None = None
    mode: int | None = None
    numbered: bool = False
    from_start: bool = False
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFile:
    """A new file `to` that is `path` as it was before the patch, with `hunks` applied; unified form only."""

    path: str
    to: str
    hunks: tuple[Hunk, ...] = ()
    mode: int | None = None


FilePatch: TypeAlias = AddFile | DeleteFile | UpdateFile | CopyFile

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"


class BadPatch(InvalidArguments):
    """The text is no patch; the message names the line."""


def bad(row: int, why: str, hint: str = "") -> BadPatch:
    """The error for one line of a patch."""
    return BadPatch(f"the patch cannot be read: line {row}: {why}. Nothing was changed.", hint=hint)


def read_patch(text: str) -> tuple[FilePatch, ...]:
    """The file changes of a patch, in order.

    Args:
        text: the Begin/End Patch form, with or without code fence or here-document around
            it, or a unified diff as diff and git write it.

    Raises:
        BadPatch: what is wrong, and in which line.
        Unsupported: a binary patch.
    """
    from pegboard.textedit.patch_envelope import read_envelope
    from pegboard.textedit.patch_unified import read_unified

    rows = text.split("\n")
    begin = next((i for i, row in enumerate(rows) if row.strip() == BEGIN), None)
    if begin is None and re.search(r"(?m)^(diff --git |--- |rename from )", text):
        if any(row.startswith(("diff --git ", "--- ", "+++ ", "@@")) and row.endswith("\r") for row in rows):
            # The whole text came with CRLF, which then says nothing of the files.
            rows = [row.removesuffix("\r") for row in rows]
        patches = read_unified(rows)
    else:
        patches = read_envelope([row.removesuffix("\r") for row in rows], begin)
    if not patches:
        raise BadPatch(
            "the patch changes no file",
            hint="Put at least one Add, Update or Delete File section between the marks.",
        )
    return patches


def paths_of(patches: tuple[FilePatch, ...]) -> list[str]:
    """Every path that the patch names, in order, each once."""
    paths: dict[str, None] = {}
    for patch in patches:
        paths[patch.path] = None
        match patch:
            case UpdateFile():
                paths.update(dict.fromkeys(patch.others))
                if patch.moved_to is not None:
                    paths[patch.moved_to] = None
            case DeleteFile():
                paths.update(dict.fromkeys(patch.others))
            case CopyFile():
                paths[patch.to] = None
            case AddFile():
                pass
    return list(paths)
