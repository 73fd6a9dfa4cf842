"""What the text of a path may be, and how the system's errors about it read."""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, Final, cast

from pegboard.core.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    TooLarge,
    ToolError,
    Unavailable,
    Unsupported,
    format_value,
)
from pegboard.core.secrets.clip import clip
from pegboard.core.text import escape_invisible, escaped

MAX_NAME_BYTES: Final = 255
MAX_PATH_BYTES: Final = 4095

PROTECTED: Final[tuple[str, ...]] = (
    # What git, editors, shells and agents run or obey later with the person's own rights.
    ".git", ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/gitdir",
    ".git/modules", ".git/worktrees", ".git/rebase-merge", ".git/rebase-apply", ".git/sequencer", ".gitconfig", ".gitmodules", ".husky", ".envrc", ".direnv",
    ".vscode", ".idea", ".devcontainer", ".fleet", ".zed", ".mcp.json",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".ssh", ".netrc", ".npmrc", ".pypirc", ".ripgreprc",
    ".agent", ".agents", ".claude", ".claude.json", ".codex", ".cursor", ".gemini",
    ".pegboard", "pegboard.toml", "pegboard.yaml", "pegboard.yml", "pegboard.json", "pegboard.json5",
)  # fmt: skip
"""Files and folders that file tools never change, at any depth of the tree.

`.git` alone means a file of that name (a pointer to a repository): the folder's other contents
stay open. Spelling does not matter: case, Unicode compatibility forms, ignorable characters,
trailing dots and spaces, and NTFS stream names are folded as the file systems that ignore them do.
"""

_FOLDER_ONLY_LEAF: Final = ".git"


def path_text(path: object) -> str:
    """The path as text.

    Raises:
        InvalidArguments: it is neither text nor a path object, or a path of bytes.
    """
    try:
        found = cast(object, os.fspath(cast(Any, path)))
    except TypeError:
        found = None
    if not isinstance(found, str):
        raise InvalidArguments(f"{format_value(path)} is no path.", hint="Send the path as text.")
    return found


def check_path(path: str) -> None:
    """Refuse what can be no path here.

    Raises:
        InvalidArguments: a NUL, a lone surrogate, or longer than the system allows.
    """
    if "\0" in path:
        raise InvalidArguments(
            f"The path {shown(path)} holds a NUL character.", hint="Send the path without it."
        )
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidArguments(
            f"The path {shown(path)} holds half a surrogate pair, which no file name can.",
            hint="Send the path as ordinary Unicode text.",
        ) from None
    if size > MAX_PATH_BYTES:
        raise InvalidArguments(
            f"The path is {size} bytes long; {MAX_PATH_BYTES} is the most.", hint="Shorten it."
        )
    if size > MAX_NAME_BYTES:
        for name in path.split("/"):
            if len(name.encode("utf-8")) > MAX_NAME_BYTES:
                raise InvalidArguments(
                    f"The name {name[:40]}… is {len(name.encode('utf-8'))} bytes long; {MAX_NAME_BYTES} is the most.",
                    hint="Use a shorter name.",
                )


def check_new_name(name: str, path: str) -> None:
    """Refuse to create names that cannot be seen or typed.

    Raises:
        InvalidArguments: the name holds a control or invisible format character.
    """
    if name.isascii() and name.isprintable():
        return
    for char in name:
        # Cf: bidi controls and zero-width characters make two names look the same. The joiners
        # U+200C and U+200D are spelling in Persian and Indic names and in emoji.
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in "\u200c\u200d":
            raise InvalidArguments(
                f"The path {shown(path)} holds the control character U+{ord(char):04X}.",
                hint="Choose a name without control characters.",
            )


def shown(path: str) -> str:
    """A path as it may stand in a message: control characters and surrogates escaped, cut to 200."""
    text = escape_invisible(path if len(path) <= 200 else clip(path, 0, 200) + "…")
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


def folded(name: str) -> str:
    """The key under which two names are twins: compatibility form, caseless, ignorables dropped."""
    if name.isascii():
        return name.lower()
    kept = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", kept).casefold())


def case_variant(name: str, names: Iterable[str]) -> str | None:
    """Another name that differs from `name` by case or Unicode form only."""
    key = folded(name)
    return next((other for other in names if other != name and folded(other) == key), None)


class ProtectedNames:
    """Which relative paths are protected."""

    def __init__(self, entries: Iterable[str] = PROTECTED) -> None:
        self._entries = frozenset(tuple(_loose(part) for part in PurePosixPath(e).parts) for e in entries)
        self._leaf_only = (_FOLDER_ONLY_LEAF,) in self._entries
        self._firsts = frozenset(entry[0] for entry in self._entries if entry)
        self._longest = max((len(entry) for entry in self._entries), default=0)

    def match(self, relative: str, *, is_dir: bool = False) -> str | None:
        """The protected entry that covers `relative` (with `/`), None where none does."""
        parts = [_loose(part) for part in relative.split("/") if part not in ("", ".")]
        for start, part in enumerate(parts):
            if part not in self._firsts:
                continue
            for length in range(1, self._longest + 1):
                run = tuple(parts[start : start + length])
                if len(run) < length:
                    break
                if run == (_FOLDER_ONLY_LEAF,) and (is_dir or start + 1 < len(parts)):
                    continue
                if run in self._entries:
                    return "/".join(run)
        return None


def _loose(name: str) -> str:
    """A name as lenient file systems see it (git's is_ntfs_dotgit and is_hfs_dotgit in short)."""
    key = folded(name).split(":", 1)[0].rstrip(" .") or folded(name)
    return ".git" if key == "git~1" else key


_ESCAPED: Final = re.compile(r"\\x(?!00)([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U(000[0-9a-f]{5}|0010[0-9a-f]{4})")


def from_text(path: str) -> str:
    """The path whose bytes `as_text` wrote as `\\xNN`, and whose signs `visible` escaped."""
    if "\\" not in path:
        return path
    raw = _ESCAPED.sub(_unescaped, path)
    try:
        # Neighbouring bytes may be a character again once they stand together.
        return os.fsdecode(os.fsencode(raw))
    except UnicodeEncodeError:
        return path


def _unescaped(found: re.Match[str]) -> str:
    return os.fsdecode(bytes.fromhex(found[1])) if found[1] else chr(int(found[2] or found[3], 16))


def as_text(name: str) -> str:
    """A name from the disk as text that can be encoded; bytes that are no UTF-8 as `\\xNN`."""
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def from_os_error(error: OSError, path: str, *, noun: str = "File") -> ToolError:
    """The ToolError for what the system said about `path`; `noun` is File or Directory."""
    name = shown(path)
    match error.errno:
        case errno.ENOENT:
            return NotFound(f"{noun} not found: {name}", hint="List the folder to see what is there.")
        case errno.EXDEV:
            return outside_workspace(path)
        case errno.ENOTDIR if noun == "Directory":
            return Unsupported(f"{name} is a file, not a folder.", hint="Read it as a file.")
        case errno.ENOTDIR:
            return NotFound(
                f"{noun} not found: {name} (a part of the path is a file).", hint="Check the path."
            )
        case errno.EISDIR:
            return is_folder(path)
        case errno.ELOOP:
            return OutsideWorkspace(
                f"{name} has too many symbolic links, or a link changed while it was opened.",
                hint="Name the target itself.",
            )
        # `permission_denied` is the word for what the policy or a person refused: here the tool failed.
        case errno.EACCES | errno.EPERM:
            return Unavailable(
                f"Permission denied by the operating system: {name}.",
                hint="Ask the user to change the file's permissions.",
            )
        case errno.ENAMETOOLONG:
            return InvalidArguments(f"The path {name} is too long.", hint="Use a shorter name.")
        case errno.ENXIO | errno.ENODEV:
            return Unsupported(
                f"{name} is not a regular file.", hint="Only regular files can be read or written."
            )
        case errno.ENOTEMPTY | errno.EEXIST:
            return Conflict(f"{name} already exists.", hint="Check it first.")
        case errno.ENOSPC | errno.EDQUOT:
            return Unavailable(
                f"There is no space left for {name}; nothing was changed.", hint="Free some space."
            )
        case errno.EROFS:
            return Unavailable(
                f"{name} lies on a read-only file system; nothing was changed.", hint="Write elsewhere."
            )
        case errno.EFBIG:
            return TooLarge(f"{name} would be larger than this system allows.", hint="Write less.")
        case _:
            code = errno.errorcode.get(error.errno or 0, "unknown error")
            return Unavailable(f"System error on {name}: {code}.", hint="Try again, or tell the user.")


def outside_workspace(path: str) -> OutsideWorkspace:
    """The refusal of a path that leaves every allowed folder."""
    return OutsideWorkspace(
        f"{shown(path)} is outside the workspace.",
        hint="Use a path inside the workspace, or ask the user to allow that folder.",
        details={"path": shown(path)},
    )


def is_folder(path: str) -> Unsupported:
    """The refusal of a folder where a file is needed."""
    return Unsupported(
        f"{shown(path) or '.'} is a folder, not a file.", hint="Name a file; list_dir shows a folder."
    )


def no_regular_file(mode: int, path: str) -> Unsupported:
    """The refusal of a device, FIFO or socket."""
    if stat.S_ISDIR(mode):
        return is_folder(path)
    kinds = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISLNK, "a symbolic link"))
    kind = next((word for test, word in kinds if test(mode)), "a device")
    return Unsupported(
        f"{shown(path)} is {kind}, not a regular file.", hint="Only regular files can be used."
    )
