"""Roots: the folders that paths lie in, and the names of files as callers write them."""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from pegboard.core.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    TooLarge,
    ToolError,
    Unavailable,
    Unsupported,
    format_value,
)
from pegboard.core.protected import ProtectedNames, folded
from pegboard.core.secrets.clip import clip
from pegboard.core.text import escape_invisible, escaped
from pegboard.files.openat import FOLDER_FLAGS, Opener

MAX_NAME_BYTES: Final = 255
MAX_PATH_BYTES: Final = 4095


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
        raise InvalidArguments(f"{format_value(path)} is not a path.", hint="Send the path as text.")
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
    """Refuse to create names that cannot be seen or typed, or that are a path of Windows.

    Raises:
        InvalidArguments: the name holds a control or invisible format character, a drive or a backslash.
    """
    if "\\" in name or re.fullmatch(r"[A-Za-z]:", name):
        plain = re.sub(r"\A[A-Za-z]:", "", path.replace("\\", "/")).strip("/")
        raise InvalidArguments(
            f"{shown(path)} is a path as Windows writes it, and this system is not Windows.",
            hint=f"Name it relative to the workspace, for example {shown(plain)}." if plain else "",
        )
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


def case_variant(name: str, names: Iterable[str]) -> str | None:
    """Another name that differs from `name` by case or Unicode form only."""
    key = folded(name)
    return next((other for other in names if other != name and folded(other) == key), None)


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
    return OutsideWorkspace.of(shown(path))


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


@dataclass(frozen=True, slots=True)
class Root:
    """One folder that may be used: its real path, an open descriptor, and its inode and device."""

    path: str
    descriptor: int
    writable: bool
    identity: tuple[int, int]


class Roots:
    """The workspace and the further folders, each held open.

    Args:
        workspace: must exist.
        allowed: folders for reading and writing.
        read_only: folders for reading.
        home: what a leading `~` means; None = the password database's entry.
        opener: how paths are opened beneath a root.

    Raises:
        NotFound, Unsupported: a folder is missing or is none.
    """

    def __init__(
        self,
        workspace: str,
        *,
        allowed: Iterable[str],
        read_only: Iterable[str],
        home: str | None,
        opener: Opener,
    ) -> None:
        self._opener = opener
        self._as_named = os.path.abspath(workspace)
        self._home = home
        descriptors: list[int] = []
        self._finalizer = weakref.finalize(self, _close_all, descriptors)
        self.workspace = _root(workspace, descriptors, writable=True)
        extra = [_root(path, descriptors, writable=True) for path in allowed]
        extra += [_root(path, descriptors, writable=False) for path in read_only]
        # Deepest first: the most special folder decides about a path.
        self._all = tuple(sorted((self.workspace, *extra), key=lambda root: -len(root.path)))

    def close(self) -> None:
        """Close every descriptor."""
        self._finalizer()

    # ------------------------------------------------------------------ naming

    def target(self, absolute: str) -> str:
        """An absolute real path as effects name it: workspace-relative inside, else absolute."""
        root = self.workspace.path
        if absolute == root:
            return "."
        return absolute[len(root.rstrip("/")) + 1 :] if is_beneath(absolute, root) else absolute

    def root_of(self, absolute: str) -> Root | None:
        """The most special root that holds a real path."""
        for root in self._all:
            if absolute == root.path or is_beneath(absolute, root.path):
                return root
        return None

    def concerns(self, real: str) -> bool:
        """Whether a real path lies in one of the roots or holds one."""
        return self.root_of(real) is not None or any(
            root.path == real or is_beneath(root.path, real) for root in self._all
        )

    def absolute(self, path: str) -> str:
        """Joined to the workspace, `~` expanded; not normalised: `..` is the kernel's to judge."""
        if path.startswith("~"):
            path = self._expand(path)
        return path if path.startswith("/") else f"{self.workspace.path}/{path}"

    def real(self, absolute: str) -> str:
        """`os.path.realpath`, at a third of its price for what lies in the workspace and passes no link.

        It looks at each part from the system's root on, at every call; the workspace's path is real
        already while it still names the folder that is open, so that only the parts below need a look.
        """
        at = self.workspace.path
        if not is_beneath(absolute, at) or not _is_still(self.workspace):
            return os.path.realpath(absolute)
        for name in absolute[len(at.rstrip("/")) + 1 :].split("/"):
            if name in ("", "."):
                continue
            at = f"{at.rstrip('/')}/{name}"
            if name == ".." or is_link(None, at):
                return os.path.realpath(absolute)
        return at

    def spelled(self, path: str) -> str:
        """The path as the disk writes it, where nothing is there as it was sent.

        Its parts may be sent as a listing escaped them, in another Unicode form, or with a plain space for a
        no-break one; each is then the one name in its folder that is the same but for that.
        """
        if (path.isascii() and "\\" not in path and " " not in path) or os.path.lexists(self.absolute(path)):
            return path
        other = from_text(path)
        if other != path and os.path.lexists(self.absolute(other)):
            return other
        parts = path.split("/")
        for index, part in enumerate(parts):
            if part in ("", ".", ".."):
                continue
            if not os.path.lexists(self.absolute("/".join(parts[: index + 1]))):
                folder = self.absolute("/".join(parts[:index]) + "/" if index else ".")
                same = [name for name in _names_in(folder) if _one_form(name) == _one_form(part)]
                if len(same) != 1:
                    break
                parts[index] = same[0]
        return "/".join(parts)

    def _expand(self, path: str) -> str:
        name, slash, rest = path.partition("/")
        if name == "~" and self._home is not None:
            return self._home + slash + rest
        # Imported late: the password database is not everywhere.
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir if name == "~" else pwd.getpwnam(name[1:]).pw_dir
        except KeyError:
            return path  # `~$report.docx` and the like are ordinary names
        return home + slash + rest

    def relative(self, path: str) -> tuple[Root, str]:
        """The root that `path` is beneath by its text, and the rest.

        Raises:
            InvalidArguments: it is no path.
            OutsideWorkspace: it is absolute and leads nowhere allowed.
        """
        check_path(path)
        path = self.spelled(path)
        if path[:1] not in ("/", "~"):
            return self.workspace, path
        absolute = "/" + self.absolute(path).lstrip("/")
        if absolute == self._as_named or is_beneath(absolute, self._as_named):
            return self.workspace, absolute[len(self._as_named.rstrip("/")) + 1 :]
        root = self.root_of(absolute)
        if root is None:
            return self.by_real_path(absolute, path)
        return root, absolute[len(root.path.rstrip("/")) + 1 :]

    def by_real_path(self, absolute: str, path: str) -> tuple[Root, str]:
        """As `relative`, after resolving every link by name; the opening must then follow none."""
        real = os.path.realpath(absolute)
        root = self.root_of(real)
        if root is None:
            raise leaves(path)
        return root, real[len(root.path.rstrip("/")) + 1 :]

    # ------------------------------------------------------------------ opening

    def open(self, path: str, flags: int) -> int:
        """Open `path` beneath its root; an absolute link that leads back inside is followed once.

        Raises:
            OSError: as open(2); OutsideWorkspace and InvalidArguments as `relative`.
        """
        root, relative = self.relative(path)
        try:
            return self._opener.open(root.descriptor, relative, flags)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        root, relative = self.by_real_path(f"{root.path}/{relative}", path)
        return self._opener.open(root.descriptor, relative, flags, links=False)

    def open_below(self, dir_fd: int, name: str) -> int:
        """Open a folder in an open folder, following no link."""
        return self._opener.open(dir_fd, name, FOLDER_FLAGS, links=False)

    def deepest(self, root: Root, parent: str, path: str, *, missing_ok: bool) -> tuple[int, list[str]]:
        """Open the deepest folder of `parent` that exists; with the names that are missing below it.

        Raises:
            OSError: as open(2); ENOENT where something is missing and `missing_ok` is False.
            Conflict: a part is a file. OutsideWorkspace: it leaves, or climbs from what is missing.
        """
        parts = [part for part in parent.split("/") if part not in ("", ".")]
        links = True
        kept = len(parts)
        while True:
            try:
                folder = self._opener.open(root.descriptor, "/".join(parts[:kept]), FOLDER_FLAGS, links=links)
                break
            except OSError as error:
                if error.errno == errno.EXDEV and links:
                    root, real = self.by_real_path("/".join((root.path, *parts)), path)
                    parts, links = [part for part in real.split("/") if part], False
                    kept = len(parts)
                elif error.errno == errno.ENOENT and missing_ok and kept and parts[kept - 1] != "..":
                    kept -= 1
                elif error.errno == errno.ENOTDIR and missing_ok:
                    raise Conflict(
                        f"A part of the path {shown(path)} is a file.", hint="Choose another folder."
                    ) from None
                else:
                    raise
        missing = parts[kept:]
        # The first one may exist as a dangling link, which must not be created through.
        if missing and (".." in missing or is_link(folder, missing[0])):
            os.close(folder)
            raise outside_workspace(path)
        return folder, missing


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _one_form(name: str) -> str:
    return unicodedata.normalize("NFC", name).translate(_SPACES)


_SPACES: Final = {0xA0: " ", 0x202F: " "}


def is_link(folder: int | None, name: str) -> bool:
    """Whether a symbolic link has that name."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_still(root: Root) -> bool:
    """Whether a root's path still names the folder that is open."""
    try:
        there = os.stat(root.path)
    except OSError:
        return False
    return (there.st_ino, there.st_dev) == root.identity


def is_beneath(path: str, folder: str) -> bool:
    """Whether an absolute path lies below a folder, by whole components."""
    return path.startswith(folder if folder.endswith("/") else folder + "/")


def leaves(path: str) -> OutsideWorkspace:
    """The refusal of a path that leaves, with a word on `~`."""
    error = outside_workspace(path)
    if path.startswith("~"):
        error.hint = f"`~` is the home folder; a file of that name in the workspace is ./{shown(path)}"
    return error


def _root(path: str, opened: list[int], *, writable: bool) -> Root:
    real = os.path.realpath(path)
    try:
        descriptor = os.open(real, FOLDER_FLAGS)
    except OSError as error:
        raise from_os_error(error, path, noun="Directory") from None
    opened.append(descriptor)
    there = os.fstat(descriptor)
    return Root(real, descriptor, writable, (there.st_ino, there.st_dev))


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


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
    """What to say about a file with `links` names that is read."""
    if links < 2:
        return ()
    return (f"this file has {links} names (hard link); others may lie outside the workspace",)
