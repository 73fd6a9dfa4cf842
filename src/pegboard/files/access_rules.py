"""Permits: whether a canonical place may be read or changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from pegboard.core.errors import Conflict, PermissionDenied
from pegboard.files.names import ProtectedNames, as_text, case_variant, check_new_name, shown
from pegboard.files.os_errors import no_regular_file, outside_workspace
from pegboard.files.roots import Roots, is_beneath

Access: TypeAlias = Literal["read", "write", "delete"]
Deny: TypeAlias = Callable[[Access, str], str | None]
"""Asked with access and canonical target at each open; a text is the reason for a refusal."""


class AccessRules:
    """What stands between a place that was reached and its use.

    Args:
        roots: which folders may be read and written.
        protected: names that are never changed.
        masked: real paths that are kept from agents.
        deny: see Jail.
    """

    def __init__(
        self, roots: Roots, protected: ProtectedNames, masked: tuple[str, ...], deny: Deny | None
    ) -> None:
        self._roots = roots
        self._protected = protected
        self._masked = masked
        self._deny = deny

    @property
    def all_readable(self) -> bool:
        """Whether nothing is masked or denied, so that nobody need ask before reading."""
        return not self._masked and self._deny is None

    def all_readable_below(self, real: str) -> bool:
        """The same for a folder that may be read itself."""
        return self._deny is None and not any(mask == real or is_beneath(mask, real) for mask in self._masked)

    def authorise(self, access: Access, absolute: str, path: str) -> None:
        """Refuse a canonical place that is masked, denied, protected or read-only."""
        root = self._roots.root_of(absolute)
        if root is None:
            raise outside_workspace(path)
        if self.is_masked(absolute):
            raise PermissionDenied(
                f"{shown(path)} is in a folder that agents may not use.", hint="Use another file."
            )
        if access != "read":
            if not root.writable:
                raise PermissionDenied(f"{shown(path)} is in a read-only folder.", hint="Write elsewhere.")
            self.refuse_protected(self._roots.target(absolute), path)
        reason = self._deny(access, self._roots.target(absolute)) if self._deny is not None else None
        if reason is not None:
            raise PermissionDenied(f"{access} {shown(path)} is denied: {reason}", hint="Use another file.")

    def refuse_protected(self, target: str, path: str, *, is_dir: bool = False) -> None:
        """Refuse to change a target that other programs obey."""
        entry = self._protected.match(target, is_dir=is_dir)
        if entry is not None:
            raise PermissionDenied(
                f"{shown(path)} is protected ({entry}): other programs run it as you.",
                hint="Tell the user what to change.",
                details={"protected": entry},
            )

    def is_masked(self, absolute: str) -> bool:
        """Whether a real path is kept from agents."""
        return bool(self._masked) and any(absolute == m or is_beneath(absolute, m) for m in self._masked)

    def visible(self, absolute: str) -> bool:
        """Whether a real path may be listed and read."""
        if self.is_masked(absolute):
            return False
        return self._deny is None or self._deny("read", self._roots.target(absolute)) is None


def check_replaceable(st: os.stat_result | None, path: str) -> None:
    """Refuse to replace what is no regular file, or a file without any write permission."""
    if st is None:
        return
    if not stat.S_ISREG(st.st_mode):
        raise no_regular_file(st.st_mode, path)
    # A rename does not ask the file's own mode, and root never fails: ask it here.
    if not st.st_mode & 0o222:
        raise PermissionDenied(
            f"{shown(path)} is read-only (mode {stat.S_IMODE(st.st_mode):o}).",
            hint="Ask the user to make it writable.",
        )


def check_new(dir_fd: int, name: str, path: str, names: Iterable[str] | None = None) -> None:
    """Refuse a new name that cannot be seen, or that a neighbour has in another spelling.

    `names` are those in the folder, where they are known already.
    """
    check_new_name(name, path)
    other = case_variant(name, os.listdir(dir_fd) if names is None else names)
    if other is not None:
        raise Conflict(
            f"{shown(path)} differs from the existing {shown(as_text(other))} by case or Unicode form only.",
            hint="Use the existing name, or a clearly different one.",
            details={"existing": as_text(other)},
        )


def hard_link_warning(target: str, links: int) -> tuple[str, ...]:
    """What to say about a file with `links` names that is replaced under one."""
    if links < 2:
        return ()
    names = "1 other name keeps" if links == 2 else f"{links - 1} other names keep"
    return (f"{shown(target)} is a hard link; its {names} the old content.",)


def hard_link_note(links: int) -> tuple[str, ...]:
    """What to say about a file with `links` names that is read (docs/decisions/0321)."""
    if links < 2:
        return ()
    return (f"this file has {links} names (hard link); others may lie outside the workspace",)
