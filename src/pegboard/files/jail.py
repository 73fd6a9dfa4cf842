"""Jail: plain file access that cannot leave the workspace and the folders that were allowed."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pegboard.core.errors import Conflict, InvalidArguments, NotFound, TooLarge, ToolError, format_value
from pegboard.core.policy.patterns import wildmatch
from pegboard.core.protected import PROTECTED, protected_names
from pegboard.files.openat import FOLDER_FLAGS, LOOK_FLAGS, READ_FLAGS, Opener, process_opener, real_path
from pegboard.files.roots import (
    Access,
    AccessRules,
    Deny,
    Roots,
    as_text,
    case_variant,
    check_new,
    check_new_name,
    check_path,
    check_replaceable,
    from_os_error,
    hard_link_warning,
    is_folder,
    is_link,
    leaves,
    no_regular_file,
    outside_workspace,
    path_text,
    shown,
)
from pegboard.files.staging import place, stage


@dataclass(frozen=True, slots=True)
class DirfdPath:
    """A place in an open folder: where a file is or will be.

    Attributes:
        folder: descriptor of the folder, closed by whoever got it.
        name: the last component.
        target: as effects name it: workspace-relative, or absolute outside.
        path: the same as an absolute path.
    """

    folder: int
    name: str
    target: str
    path: str

    def lstat(self) -> os.stat_result | None:
        """What is there, links not followed; None where nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """As DirfdPath, for looking: `missing` names the folders between `folder` and the name that are not there."""

    folder: int
    name: str
    target: str
    path: str
    missing: tuple[str, ...] = ()


def exact(path: str) -> str:
    """A target as a path that means just that: a leading `~` is a name here, not a home."""
    return "./" + path if path.startswith("~") else path


class PathOpener:
    """Descriptors of what is there, and places for what will be; every error says what to do.

    Args:
        roots: the folders that may be used.
        rules: what is refused within them.
        simple: nothing is masked or denied, so that a folder need not be asked about.
    """

    def __init__(self, roots: Roots, rules: AccessRules, *, simple: bool) -> None:
        self._roots = roots
        self._rules = rules
        self._simple = simple

    def open(self, path: str, flags: int, *, noun: str = "File") -> int:
        """A descriptor of what a path names, not yet asked about; the caller closes it."""
        try:
            return self._roots.open(path, flags)
        except OSError as error:
            raise self._refusal(error, path, noun) from None

    def _refusal(self, error: OSError, path: str, noun: str = "File") -> ToolError:
        return (
            self.missing(path, noun) if error.errno == errno.ENOENT else from_os_error(error, path, noun=noun)
        )

    def open_folder(self, path: str) -> int:
        """A descriptor of a folder that may be read; the caller closes it."""
        descriptor = self.open(path, FOLDER_FLAGS, noun="Directory")
        if self._simple:
            return descriptor
        try:
            self._rules.authorise("read", self.real_path(descriptor, path), path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def refuse_special(self, path: str) -> None:
        """With the whole system open, even opening a device can act (a tape, a watchdog): look first."""
        descriptor = self.open(path, LOOK_FLAGS)
        try:
            mode = os.fstat(descriptor).st_mode
        finally:
            os.close(descriptor)
        if not stat.S_ISREG(mode):
            raise no_regular_file(mode, path)

    def find_parent(self, path: str, access: Access, follow: bool, missing_ok: bool) -> PlannedPath:
        """The place that a path names, asked about; the caller closes its folder (see Jail.open_parent, Jail.find_parent)."""
        if not path.strip():
            raise InvalidArguments("The path is empty.", hint="Name a file.")
        root, relative = self._roots.relative(path)
        parent, _, name = relative.rpartition("/")
        if name in ("", ".", ".."):
            if self._roots.root_of(os.path.realpath(f"{root.path}/{relative}")) is None:
                raise leaves(path)
            raise is_folder(path)
        try:
            folder, missing = self._roots.deepest(root, parent, path, missing_ok=missing_ok)
        except OSError as error:
            raise self._refusal(error, path) from None
        try:
            absolute = os.path.join(self.real_path(folder, path), *missing, name)
            if not (follow and not missing and is_link(folder, name)):
                self._rules.authorise(access, absolute, path)
                return PlannedPath(folder, name, self._roots.target(absolute), absolute, tuple(missing))
            real = os.path.realpath(absolute)
            if self._roots.root_of(real) is None:
                raise outside_workspace(path)
            if real == absolute or is_link(None, real):
                raise from_os_error(OSError(errno.ELOOP, ""), path)
        except BaseException:
            os.close(folder)
            raise
        os.close(folder)
        return self.find_parent(real, access, False, missing_ok)

    def make(self, dir_fd: int, names: Iterable[str], path: str) -> int:
        """Make folders one below the other; takes over `folder`, gives the last one."""
        for name in names:
            try:
                check_new_name(name, path)
                with suppress(FileExistsError):
                    os.mkdir(name, 0o777, dir_fd=dir_fd)
                deeper = self._roots.open_below(dir_fd, name)
            except OSError as error:
                os.close(dir_fd)
                raise from_os_error(error, path) from None
            except InvalidArguments:
                os.close(dir_fd)
                raise
            os.close(dir_fd)
            dir_fd = deeper
        return dir_fd

    def names(self, path: str) -> list[str]:
        """The names in a folder as the disk has them, less those that are kept from agents."""
        descriptor = self.open_folder(path)
        try:
            names = os.listdir(descriptor)
            if not self._simple:
                base = self.real_path(descriptor, path)
                names = [name for name in names if self._rules.visible(os.path.join(base, name))]
        except OSError as error:
            raise from_os_error(error, path, noun="Directory") from None
        finally:
            os.close(descriptor)
        return names

    def missing(self, path: str, noun: str = "File") -> NotFound:
        """NotFound for `path`, with the other spelling's name where one is there."""
        folder, _, name = path.rstrip("/").rpartition("/")
        try:
            other = case_variant(
                name, map(as_text, self.names(folder or ("/" if path.startswith("/") else ".")))
            )
        except ToolError:
            other = None
        hint = "List the folder to see what is there."
        if other is not None:
            hint = f"There is {shown(other)}, which differs by case or Unicode form only."
        elif path.startswith("file:"):
            hint = "Send a path, not a URL."
        return NotFound(f"{noun} not found: {shown(path)}", hint=hint)

    def real_path(self, fd: int, path: str) -> str:
        """Where an open descriptor lies now.

        Raises:
            NotFound: it was removed or replaced meanwhile.
        """
        try:
            real = real_path(fd)
        except OSError:
            # No /proc: ask by name, and believe it only where it is the same file.
            real = os.path.realpath(self._roots.absolute(path))
            if not os.path.samestat(os.fstat(fd), os.lstat(real)):
                real = None
        if real is None:
            raise self.missing(path)
        return real


READ_LIMIT_BYTES: Final = 256 * 1024 * 1024
_LIST_LIMIT: Final = 100_000


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did: the canonical target, whether it is new, and what to warn about."""

    target: str
    created: bool
    warnings: tuple[str, ...] = ()


class Jail:
    """Plain file access that cannot leave the workspace and the folders that were allowed.

    Args:
        root: the workspace; must exist.
        allowed_dirs: further folders for reading and writing.
        read_only_dirs: further folders for reading; one inside the workspace makes it read-only.
        protected: names that are never changed, at any depth (see core.protected).
        full_access: the whole file system is allowed; protected and masked names still hold.
        masked: absolute folders and files that are neither read nor changed nor listed.
        deny: asked at each open with access and canonical target.
        home: what a leading `~` means; None = the password database's entry.
        opener: how paths are opened; the best that this system has by default.
        read_limit_bytes: largest file that is read whole.

    Raises:
        NotFound, Unsupported: `root` or an allowed folder is missing or no folder.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        allowed_dirs: Iterable[str | os.PathLike[str]] = (),
        read_only_dirs: Iterable[str | os.PathLike[str]] = (),
        protected: Iterable[str] = PROTECTED,
        full_access: bool = False,
        masked: Iterable[str | os.PathLike[str]] = (),
        deny: Deny | None = None,
        home: str | os.PathLike[str] | None = None,
        opener: Opener | None = None,
        read_limit_bytes: int = READ_LIMIT_BYTES,
    ) -> None:
        self._roots = Roots(
            path_text(root),
            allowed=[*_texts(allowed_dirs), *(("/",) if full_access else ())],
            read_only=_texts(read_only_dirs),
            home=None if home is None else os.fspath(home),
            opener=opener or process_opener(),
        )
        # A mask that no allowed folder holds or lies in can never be met; without any, nobody need ask.
        hidden = tuple(real for real in map(os.path.realpath, _texts(masked)) if self._roots.concerns(real))
        self._rules = AccessRules(self._roots, protected_names(tuple(protected)), hidden, deny)
        self._limit = read_limit_bytes
        self._full = full_access
        # With nothing to ask about, a read is an open, a stat, a read and a close.
        self._simple = self._rules.all_readable and not full_access
        self._opener = PathOpener(self._roots, self._rules, simple=self._simple)

    # ------------------------------------------------------------------ the surface

    def read_bytes(self, path: str | os.PathLike[str], *, limit: int | None = None) -> bytes:
        """The file's bytes, whole.

        Raises:
            NotFound, OutsideWorkspace, PermissionDenied, InvalidArguments: as the names say.
            Unsupported: a folder, device, FIFO or socket.
            TooLarge: over `limit` bytes (default: the jail's read limit).
        """
        path = path_text(path)
        most = self._limit if limit is None else limit
        descriptor = self.open_read(path)
        try:
            return read_descriptor(descriptor, most, path)
        finally:
            os.close(descriptor)

    def write_bytes(self, path: str | os.PathLike[str], data: bytes) -> WriteResult:
        """Replace the file's content as a whole, or create it with its parents.

        The name changes over in one step, synced to the disk; mode, owner and extended
        attributes stay; a link inside the workspace is followed, other names of a hard-linked
        file keep the old content and a warning says so.

        Raises:
            As read_bytes; PermissionDenied also for protected names, read-only folders and
            read-only files; Conflict for a new name that differs from a neighbour's by case only.
        """
        path = path_text(path)
        if not isinstance(cast(object, data), bytes | bytearray | memoryview):
            raise InvalidArguments(
                f"What is written to a file is bytes, not {format_value(data)}.", hint="Encode the text."
            )
        with self.open_parent(path, "write", make_parents=True) as parent:
            before = parent.lstat()
            check_replaceable(before, path)
            if before is None:
                check_new(parent.folder, parent.name, path)
            try:
                place(
                    stage(parent.folder, data, like=before, copy_from=parent.name), parent.folder, parent.name
                )
            except OSError as error:
                raise from_os_error(error, path) from None
            links = before.st_nlink if before is not None else 1
            return WriteResult(parent.target, before is None, hard_link_warning(parent.target, links))

    def delete(self, path: str | os.PathLike[str]) -> None:
        """Remove one file, or one symbolic link (never what it points to).

        Raises:
            As write_bytes; Unsupported for a folder.
        """
        path = path_text(path)
        with self.open_parent(path, "delete", follow=False) as parent:
            there = parent.lstat()
            if there is None:
                raise self._opener.missing(path)
            if stat.S_ISDIR(there.st_mode):
                raise is_folder(path)
            try:
                os.unlink(parent.name, dir_fd=parent.folder)
            except OSError as error:
                raise from_os_error(error, path) from None

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Make a folder with its parents; one that is there already is fine.

        Raises:
            As write_bytes; Conflict where a file is in the way.
        """
        path = path_text(path)
        if not path.strip():
            raise InvalidArguments("The path is empty.", hint="Name a folder.")
        if not path.strip("/. "):
            os.close(self._opener.open_folder(path))
            return
        with self.open_parent(path.rstrip("/"), "write", make_parents=True) as parent:
            there = parent.lstat()
            if there is not None and not stat.S_ISDIR(there.st_mode):
                raise Conflict(f"{shown(path)} is a file.", hint="Choose another name.")
            if there is None:
                self._rules.refuse_protected(parent.target, path, is_dir=True)
                check_new_name(parent.name, path)
                try:
                    os.mkdir(parent.name, 0o777, dir_fd=parent.folder)
                except FileExistsError:
                    pass
                except OSError as error:
                    raise from_os_error(error, path, noun="Directory") from None

    def list(self, path: str | os.PathLike[str] = ".") -> list[str]:
        """The names in a folder, sorted; links are not followed.

        Raises:
            NotFound, OutsideWorkspace, PermissionDenied: as the names say.
            Unsupported: it is no folder.
        """
        path = path_text(path)
        names = self._opener.names(path)
        return sorted(as_text(name) for name in names)

    def glob(self, pattern: str) -> list[str]:
        """Workspace-relative paths that match (`*`, `?`, `[…]`, `**`), sorted; no link is followed.

        Protected and hidden files are among them. The walk stops after 100,000 entries.

        Raises:
            OutsideWorkspace: the pattern climbs with `..` or is absolute, unless it begins with the workspace.
        """
        pattern = path_text(pattern)
        check_path(pattern)
        inside = os.path.join(self._roots.workspace.path, "")
        if pattern.startswith(inside):
            pattern = pattern[len(inside) :]
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise outside_workspace(pattern)
        plain = "/".join(part for part in pattern.split("/") if part not in ("", "."))
        matches = re.compile(wildmatch(plain, pathname=True, forgiving=True)).fullmatch
        found = [path for path in self._walk() if matches(path)]
        return sorted(as_text(path) for path in found)

    # ------------------------------------------------------------------ for the rest of files/

    @property
    def root(self) -> Path:
        """The workspace's real path."""
        return Path(self._roots.workspace.path)

    @property
    def identity(self) -> tuple[int, int, str]:
        """Device, inode and real path: what makes this workspace this one."""
        there = os.fstat(self._roots.workspace.descriptor)
        return there.st_dev, there.st_ino, self._roots.workspace.path

    def close(self) -> None:
        """Close the folders' descriptors; the jail is of no use afterwards."""
        self._roots.close()

    def open_read(self, path: str) -> int:
        """A descriptor of a regular file, opened for reading; the caller closes it."""
        if not path.strip():
            raise InvalidArguments("The path is empty.", hint="Name a file.")
        if self._full:
            self._opener.refuse_special(path)
        descriptor = self._opener.open(path, READ_FLAGS)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise no_regular_file(mode, path)
            if not self._simple:
                self._rules.authorise("read", self._opener.real_path(descriptor, path), path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextmanager
    def open_parent(
        self, path: str, access: Access, *, make_parents: bool = False, follow: bool = True
    ) -> Generator[DirfdPath]:
        """The place that `path` names, its folder held open while it is used.

        Args:
            path: as the model sent it.
            access: write or delete; checked against roots, protected names and `deny`.
            make_parents: missing folders are made, after every check.
            follow: a link in the last place is followed to its target inside.

        Raises:
            NotFound: a folder is missing and `make_parents` is False.
        """
        parent = self._opener.find_parent(path, access, follow, make_parents)
        folder = self._opener.make(parent.folder, parent.missing, path)
        try:
            yield DirfdPath(folder, parent.name, parent.target, parent.path)
        finally:
            os.close(folder)

    @contextmanager
    def find_parent(self, path: str, access: Access, *, follow: bool = True) -> Generator[PlannedPath]:
        """As `open_parent`, but nothing is made: folders that are missing are named."""
        parent = self._opener.find_parent(path, access, follow, missing_ok=True)
        try:
            yield parent
        finally:
            os.close(parent.folder)

    def authorise(self, access: Access, absolute: str, path: str) -> None:
        """Refuse a canonical place that this jail keeps closed; for places reached before."""
        self._rules.authorise(access, absolute, path)

    def target(self, absolute: str) -> str:
        """An absolute real path as effects name it: workspace-relative inside, else absolute."""
        return self._roots.target(absolute)

    def inside(self, absolute: str, *, write: bool) -> bool:
        """Whether a real path lies in a folder that is allowed for this access."""
        root = self._roots.root_of(absolute)
        return root is not None and (root.writable or not write) and not self._rules.is_masked(absolute)

    def readable(self, target: str) -> bool:
        """Whether a target (as effects name it) may be opened or listed: not masked, not denied."""
        return self._simple or self._rules.visible(os.path.join(self._roots.workspace.path, target))

    def check_readable(self, path: str, *, folder: bool) -> str:
        """The real path of a folder (or of a folder or file) that may be read; refuses as `list` does."""
        flags, noun = (FOLDER_FLAGS, "Directory") if folder else (LOOK_FLAGS, "File")
        descriptor = self._opener.open(path, flags, noun=noun)
        try:
            real = self._opener.real_path(descriptor, path)
            self._rules.authorise("read", real, path)
            return real
        finally:
            os.close(descriptor)

    def all_readable_below(self, real: str) -> bool:
        """Whether nothing in a readable folder is masked or denied, so that walkers need not ask."""
        return self._rules.all_readable_below(real)

    def missing(self, path: str) -> NotFound:
        """See PathOpener."""
        return self._opener.missing(path)

    def real_path(self, fd: int, path: str) -> str:
        """See PathOpener."""
        return self._opener.real_path(fd, path)

    def locate(self, path: str) -> str:
        """The real path that `path` names, as far as it exists; for naming, never for opening.

        Raises:
            InvalidArguments: it is no path.
        """
        check_path(path)
        return self._roots.real(self._roots.absolute(self._roots.spelled(path)))

    def _walk(self) -> Iterator[str]:
        """Every file, link and folder below the workspace by descriptor, no link followed."""
        pending = [""]
        seen = 0
        while pending:
            folder = pending.pop()
            try:
                descriptor = self._roots.open_below(self._roots.workspace.descriptor, folder)
            except OSError:
                continue
            try:
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        seen += 1
                        if seen > _LIST_LIMIT:
                            return
                        if not self._simple and not self._rules.visible(
                            f"{self._roots.workspace.path}/{path}"
                        ):
                            continue
                        yield path
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(path)
            finally:
                os.close(descriptor)


def _texts(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    return [os.fspath(path) for path in paths]


def read_descriptor(fd: int, most: int, path: str) -> bytes:
    """A file's bytes from an open descriptor to its end.

    Raises:
        TooLarge: over `most` bytes.
    """
    size = os.fstat(fd).st_size
    if size > most:
        raise TooLarge(
            f"{shown(path)} is {size} bytes; the limit is {most}.",
            hint="Read part of it with offset and limit, or search it with grep.",
            details={"size": size, "limit": most},
        )
    # One byte more than the size: a read that ends there needs no second one to see the end.
    data = os.read(fd, size + 1)
    if len(data) == size and size:
        return data
    parts = [data]
    total = len(data)
    while data:
        if total > most:
            raise TooLarge(
                f"{shown(path)} is over {most} bytes.", hint="Read a part of it.", details={"limit": most}
            )
        data = os.read(fd, min(1 << 20, most - total + 1))
        parts.append(data)
        total += len(data)
    return b"".join(parts)
