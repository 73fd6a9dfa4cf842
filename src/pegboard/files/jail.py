"""Jail: the workspace's files by descriptor, so that no name leads out (security.md, Files)."""

from __future__ import annotations

import errno
import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pegboard.core.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    TooLarge,
    ToolError,
)
from pegboard.files.jailglob import glob_regex
from pegboard.files.names import PROTECTED, ProtectedNames, as_text, check_new_name, check_path, shown, twin
from pegboard.files.openat import FOLDER_FLAGS, O_PATH, READ_FLAGS, Opener, best_opener, real_path
from pegboard.files.refusals import is_folder, no_regular_file, outside, refusal
from pegboard.files.staging import place, stage

Access: TypeAlias = Literal["read", "write", "delete"]
Deny: TypeAlias = Callable[[Access, str], str | None]
"""Asked with access and canonical target at each open; a text is the reason for a refusal."""

READ_LIMIT_BYTES: Final = 256 * 1024 * 1024
_LIST_LIMIT: Final = 100_000


@dataclass(frozen=True, slots=True)
class Root:
    """One folder that may be used: its real path and an open descriptor."""

    path: str
    descriptor: int
    writable: bool
    is_workspace: bool = False


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in an open folder: where a file is or will be.

    Attributes:
        folder: descriptor of the folder, closed by whoever got the Spot.
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
class Written:
    """What a write did: the canonical target, whether it is new, and what to warn about."""

    target: str
    created: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aim:
    """As Spot, for looking: `missing` names the folders between `folder` and the name that are not there."""

    folder: int
    name: str
    target: str
    path: str
    missing: tuple[str, ...] = ()


class Jail:
    """Plain file access that cannot leave the workspace and the folders that were allowed.

    Args:
        root: the workspace; must exist.
        allowed_dirs: further folders for reading and writing (ledger X-44).
        read_only_dirs: further folders for reading; one inside the workspace makes it read-only.
        protected: names that are never changed, at any depth (see names.PROTECTED).
        full_access: the whole file system is allowed; protected and masked names still hold.
        masked: absolute folders and files that are neither read nor changed nor listed.
        deny: asked at each open with access and canonical target (decisions 4).
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
        self._opener = opener or best_opener()
        self._given = os.path.abspath(os.fspath(root))
        self._protected = ProtectedNames(protected)
        self._masked = tuple(os.path.realpath(os.fspath(path)) for path in masked)
        self._deny = deny
        self._home = None if home is None else os.fspath(home)
        self._limit = read_limit_bytes
        self._full = full_access
        descriptors: list[int] = []
        self._finalizer = weakref.finalize(self, _close_all, descriptors)
        self._workspace = _root(root, descriptors, writable=True, is_workspace=True)
        extra = [_root(path, descriptors, writable=True) for path in allowed_dirs]
        extra += [_root(path, descriptors, writable=False) for path in read_only_dirs]
        if full_access:
            extra.append(_root("/", descriptors, writable=True))
        # Deepest first: the most special folder decides about a path.
        self._roots = tuple(sorted((self._workspace, *extra), key=lambda r: -len(r.path)))
        self._simple = not (self._masked or deny or full_access)

    # ------------------------------------------------------------------ the surface

    def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        """The file's bytes, whole.

        Raises:
            NotFound, OutsideWorkspace, PermissionDenied, InvalidArguments: as the names say.
            Unsupported: a folder, device, FIFO or socket.
            TooLarge: over `limit` bytes (default: the jail's read limit).
        """
        most = self._limit if limit is None else limit
        descriptor = self.open_read(path)
        try:
            return read_descriptor(descriptor, most, path)
        finally:
            os.close(descriptor)

    def write_bytes(self, path: str, data: bytes) -> Written:
        """Replace the file's content as a whole, or create it with its parents.

        The name changes over in one step, synced to the disk; mode, owner and extended
        attributes stay; a link inside the workspace is followed, other names of a hard-linked
        file keep the old content and a warning says so.

        Raises:
            As read_bytes; PermissionDenied also for protected names, read-only folders and
            read-only files; Conflict for a new name that differs from a neighbour's by case only.
        """
        with self.spot(path, "write", make_parents=True) as spot:
            before = spot.lstat()
            self.check_replaceable(before, path)
            if before is None:
                self.check_new(spot.folder, spot.name, path)
            try:
                place(stage(spot.folder, data, like=before), spot.folder, spot.name)
            except OSError as error:
                raise refusal(error, path) from None
            links = before.st_nlink if before is not None else 1
            return Written(spot.target, before is None, hard_link_warning(spot.target, links))

    def delete(self, path: str) -> None:
        """Remove one file, or one symbolic link (never what it points to).

        Raises:
            As write_bytes; Unsupported for a folder.
        """
        with self.spot(path, "delete", follow=False) as spot:
            there = spot.lstat()
            if there is None:
                raise self.missing(path)
            if stat.S_ISDIR(there.st_mode):
                raise is_folder(path)
            try:
                os.unlink(spot.name, dir_fd=spot.folder)
            except OSError as error:
                raise refusal(error, path) from None

    def mkdir(self, path: str) -> None:
        """Make a folder with its parents; one that is there already is fine.

        Raises:
            As write_bytes; Conflict where a file is in the way.
        """
        if not path.strip("/. "):
            os.close(self._open_folder(path))
            return
        with self.spot(path.rstrip("/"), "write", make_parents=True) as spot:
            there = spot.lstat()
            if there is not None and not stat.S_ISDIR(there.st_mode):
                raise Conflict(f"{shown(path)} is a file.", hint="Choose another name.")
            if there is None:
                self._refuse_protected(spot.target, path, is_dir=True)
                check_new_name(spot.name, path)
                try:
                    os.mkdir(spot.name, 0o777, dir_fd=spot.folder)
                except FileExistsError:
                    pass
                except OSError as error:
                    raise refusal(error, path, noun="Directory") from None

    def list(self, path: str = ".") -> list[str]:
        """The names in a folder, sorted; links are not followed.

        Raises:
            NotFound, OutsideWorkspace, PermissionDenied: as the names say.
            Unsupported: it is no folder.
        """
        descriptor = self._open_folder(path)
        try:
            names = os.listdir(descriptor)
            if not self._simple:
                base = self.real_path(descriptor, path)
                names = [name for name in names if self._visible(os.path.join(base, name))]
        except OSError as error:
            raise refusal(error, path, noun="Directory") from None
        finally:
            os.close(descriptor)
        return sorted(as_text(name) for name in names)

    def glob(self, pattern: str) -> list[str]:
        """Workspace-relative paths that match (`*`, `?`, `[…]`, `**`), sorted; no link is followed.

        Protected and hidden files are among them. The walk stops after 100,000 entries.

        Raises:
            OutsideWorkspace: the pattern is absolute or climbs with `..`.
        """
        check_path(pattern)
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise outside(pattern)
        matches = glob_regex(pattern)
        found = [path for path in self._walk() if matches(path)]
        return sorted(as_text(path) for path in found)

    # ------------------------------------------------------------------ for the rest of files/

    @property
    def root(self) -> Path:
        """The workspace's real path."""
        return Path(self._workspace.path)

    @property
    def identity(self) -> tuple[int, int, str]:
        """Device, inode and real path: what makes this workspace this one (decisions 7)."""
        there = os.fstat(self._workspace.descriptor)
        return there.st_dev, there.st_ino, self._workspace.path

    def close(self) -> None:
        """Close the folders' descriptors; the jail is of no use afterwards."""
        self._finalizer()

    def open_read(self, path: str) -> int:
        """A descriptor of a regular file, opened for reading; the caller closes it."""
        if not path.strip():
            raise InvalidArguments("The path is empty.", hint="Name a file.")
        if self._full:
            self._refuse_special(path)
        descriptor = self._open(path, READ_FLAGS)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise no_regular_file(mode, path)
            if not self._simple:
                self._authorise("read", self.real_path(descriptor, path), path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextmanager
    def spot(
        self, path: str, access: Access, *, make_parents: bool = False, follow: bool = True
    ) -> Iterator[Spot]:
        """The place that `path` names, its folder held open while it is used.

        Args:
            path: as the model sent it.
            access: write or delete; checked against roots, protected names and `deny`.
            make_parents: missing folders are made, after every check.
            follow: a link in the last place is followed to its target inside.

        Raises:
            NotFound: a folder is missing and `make_parents` is False.
        """
        aim = self._aim(path, access, follow, make_parents)
        folder = self._make(aim.folder, aim.missing, path)
        try:
            yield Spot(folder, aim.name, aim.target, aim.path)
        finally:
            os.close(folder)

    @contextmanager
    def aim(self, path: str, access: Access, *, follow: bool = True) -> Iterator[Aim]:
        """As `spot`, but nothing is made: folders that are missing are named."""
        aim = self._aim(path, access, follow, missing_ok=True)
        try:
            yield aim
        finally:
            os.close(aim.folder)

    def target(self, absolute: str) -> str:
        """An absolute real path as effects name it: workspace-relative inside, else absolute."""
        root = self._workspace.path
        if absolute == root:
            return "."
        return absolute[len(root) + 1 :] if _beneath(absolute, root) else absolute

    def inside(self, absolute: str, *, write: bool) -> bool:
        """Whether a real path lies in a folder that is allowed for this access."""
        root = self._root_of(absolute)
        return root is not None and (root.writable or not write) and not self._is_masked(absolute)

    def readable(self, target: str) -> bool:
        """Whether a target (as effects name it) may be opened or listed: not masked, not denied."""
        return self._simple or self._visible(os.path.join(self._workspace.path, target))

    def check_readable(self, path: str, *, folder: bool) -> str:
        """The real path of a folder (or of a folder or file) that may be read; refuses as `list` does."""
        descriptor = self._open(path, FOLDER_FLAGS if folder else O_PATH | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            real = self.real_path(descriptor, path)
            self._authorise("read", real, path)
            return real
        finally:
            os.close(descriptor)

    @property
    def all_readable(self) -> bool:
        """Whether nothing inside is masked or denied, so that walkers need not ask."""
        return not self._masked and self._deny is None

    def protected_by(self, target: str) -> str | None:
        """The protected name that covers a target, None where none does."""
        return self._protected.match(target)

    def check_replaceable(self, there: os.stat_result | None, path: str) -> None:
        """Refuse to replace what is no regular file, or a file without any write permission."""
        if there is None:
            return
        if not stat.S_ISREG(there.st_mode):
            raise no_regular_file(there.st_mode, path)
        # A rename does not ask the file's own mode, and root never fails: ask it here.
        if not there.st_mode & 0o222:
            raise PermissionDenied(
                f"{shown(path)} is read-only (mode {stat.S_IMODE(there.st_mode):o}).",
                hint="Ask the person to make it writable.",
            )

    def check_new(self, folder: int, name: str, path: str, names: Iterable[str] | None = None) -> None:
        """Refuse a new name that cannot be seen, or that a neighbour has in another spelling.

        `names` are those in the folder, where they are known already.
        """
        check_new_name(name, path)
        other = twin(name, os.listdir(folder) if names is None else names)
        if other is not None:
            raise Conflict(
                f"{shown(path)} differs from the existing {shown(as_text(other))} by case or Unicode form only.",
                hint="Use the existing name, or a clearly different one.",
                details={"existing": as_text(other)},
            )

    def missing(self, path: str, noun: str = "File") -> NotFound:
        """NotFound for `path`, with the twin's name where one is there."""
        folder, _, name = path.rstrip("/").rpartition("/")
        try:
            other = twin(name, self.list(folder or ("/" if path.startswith("/") else ".")))
        except ToolError:
            other = None
        hint = "List the folder to see what is there."
        if other is not None:
            hint = f"There is {shown(other)}, which differs by case or Unicode form only."
        elif path.startswith("file:"):
            hint = "Send a path, not a URL."
        return NotFound(f"{noun} not found: {shown(path)}", hint=hint)

    def real_path(self, descriptor: int, path: str) -> str:
        """Where an open descriptor lies now.

        Raises:
            NotFound: it was removed or replaced meanwhile.
        """
        try:
            real = real_path(descriptor)
        except OSError:
            # No /proc: ask by name, and believe it only where it is the same file.
            real = os.path.realpath(self._absolute(path))
            if not os.path.samestat(os.fstat(descriptor), os.lstat(real)):
                real = None
        if real is None:
            raise self.missing(path)
        return real

    def locate(self, path: str) -> str:
        """The real path that `path` names, as far as it exists; for naming, never for opening.

        Raises:
            InvalidArguments: it is no path.
        """
        check_path(path)
        return os.path.realpath(self._absolute(path))

    # ------------------------------------------------------------------ opening

    def _absolute(self, path: str) -> str:
        """Joined to the workspace, `~` expanded; not normalised: `..` is the kernel's to judge."""
        if path.startswith("~"):
            path = self._expand(path)
        return path if path.startswith("/") else f"{self._workspace.path}/{path}"

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

    def _relative(self, path: str) -> tuple[Root, str]:
        """The root that `path` is beneath by its text, and the rest."""
        check_path(path)
        if path[:1] not in ("/", "~"):
            return self._workspace, path
        absolute = self._absolute(path)
        if not absolute.startswith("/"):
            return self._workspace, path
        absolute = "/" + absolute.lstrip("/")
        given = self._given
        if absolute == given or absolute.startswith(given + "/"):
            return self._workspace, absolute[len(given) + 1 :]
        for root in self._roots:
            if _beneath(absolute, root.path) or absolute == root.path:
                return root, absolute[len(root.path.rstrip("/")) + 1 :]
        return self._by_real_path(absolute, path)

    def _by_real_path(self, absolute: str, path: str) -> tuple[Root, str]:
        real = os.path.realpath(absolute)
        root = self._root_of(real)
        if root is None:
            raise self._leaves(path)
        return root, real[len(root.path.rstrip("/")) + 1 :]

    def _leaves(self, path: str) -> OutsideWorkspace:
        error = outside(path)
        if path.startswith("~"):
            error.hint = "`~` is the home folder; a file of that name in the workspace is ./" + shown(path)
        return error

    def _open(self, path: str, flags: int, *, noun: str = "File") -> int:
        """Open `path` beneath its root; an absolute link that leads back inside is followed once."""
        root, relative = self._relative(path)
        try:
            try:
                return self._opener.open(root.descriptor, relative, flags)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            root, relative = self._by_real_path(f"{root.path}/{relative}", path)
            return self._opener.open(root.descriptor, relative, flags, links=False)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise self.missing(path, noun) from None
            raise refusal(error, path, noun=noun) from None

    def _open_folder(self, path: str) -> int:
        descriptor = self._open(path, FOLDER_FLAGS, noun="Directory")
        if self._simple:
            return descriptor
        try:
            self._authorise("read", self.real_path(descriptor, path), path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _refuse_special(self, path: str) -> None:
        """With the whole system open, even opening a device can act (a tape, a watchdog): look first."""
        descriptor = self._open(path, O_PATH | os.O_CLOEXEC) if O_PATH else None
        if descriptor is None:
            return
        try:
            mode = os.fstat(descriptor).st_mode
        finally:
            os.close(descriptor)
        if not stat.S_ISREG(mode):
            raise no_regular_file(mode, path)

    # ------------------------------------------------------------------ places to write

    def _aim(self, path: str, access: Access, follow: bool, missing_ok: bool) -> Aim:
        if not path.strip():
            raise InvalidArguments("The path is empty.", hint="Name a file.")
        root, relative = self._relative(path)
        parent, _, name = relative.rpartition("/")
        if name in ("", ".", ".."):
            if self._is_escape(root, relative):
                raise self._leaves(path)
            raise is_folder(path)
        folder, missing = self._deepest(root, parent, path, missing_ok)
        try:
            absolute = os.path.join(self.real_path(folder, path), *missing, name)
            if not (follow and not missing and self._is_link(folder, name)):
                self._authorise(access, absolute, path)
                return Aim(folder, name, self.target(absolute), absolute, tuple(missing))
            real = os.path.realpath(absolute)
            if self._root_of(real) is None:
                raise outside(path)
            if real == absolute or self._is_link(None, real):
                raise refusal(OSError(errno.ELOOP, ""), path)
        except BaseException:
            os.close(folder)
            raise
        os.close(folder)
        return self._aim(real, access, False, missing_ok)

    def _is_escape(self, root: Root, relative: str) -> bool:
        return self._root_of(os.path.realpath(f"{root.path}/{relative}")) is None

    @staticmethod
    def _is_link(folder: int | None, name: str) -> bool:
        try:
            return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def _deepest(self, root: Root, parent: str, path: str, make: bool) -> tuple[int, list[str]]:
        """The deepest folder of `parent` that exists, and the names that are to be made below it."""
        parts = [part for part in parent.split("/") if part not in ("", ".")]
        links = True
        kept = len(parts)
        while True:
            try:
                folder = self._opener.open(root.descriptor, "/".join(parts[:kept]), FOLDER_FLAGS, links=links)
                break
            except OSError as error:
                if error.errno == errno.EXDEV and links:
                    root, real = self._by_real_path("/".join((root.path, *parts)), path)
                    parts, links = [part for part in real.split("/") if part], False
                    kept = len(parts)
                elif error.errno == errno.ENOENT and make and kept and parts[kept - 1] != "..":
                    kept -= 1
                elif error.errno == errno.ENOENT:
                    raise self.missing(path) from None
                elif error.errno == errno.ENOTDIR and make:
                    raise Conflict(
                        f"A part of the path {shown(path)} is a file.", hint="Choose another folder."
                    ) from None
                else:
                    raise refusal(error, path) from None
        rest = parts[kept:]
        # The name may exist as a dangling link, which must not be created through.
        if rest and (".." in rest or self._is_link(folder, rest[0])):
            os.close(folder)
            raise outside(path)
        return folder, rest

    def _make(self, folder: int, names: Iterable[str], path: str) -> int:
        """Make folders one below the other; takes over `folder`, gives the last one."""
        for name in names:
            try:
                check_new_name(name, path)
                with suppress(FileExistsError):
                    os.mkdir(name, 0o777, dir_fd=folder)
                deeper = self._opener.open(folder, name, FOLDER_FLAGS, links=False)
            except OSError as error:
                os.close(folder)
                raise refusal(error, path) from None
            except InvalidArguments:
                os.close(folder)
                raise
            os.close(folder)
            folder = deeper
        return folder

    # ------------------------------------------------------------------ what is allowed

    def _root_of(self, absolute: str) -> Root | None:
        return next((r for r in self._roots if absolute == r.path or _beneath(absolute, r.path)), None)

    def _authorise(self, access: Access, absolute: str, path: str) -> None:
        """Refuse a canonical place that is masked, denied, protected or read-only."""
        root = self._root_of(absolute)
        if root is None:
            raise outside(path)
        if self._is_masked(absolute):
            raise PermissionDenied(
                f"{shown(path)} lies in a folder that is kept from agents.", hint="Use another file."
            )
        if access != "read":
            if not root.writable:
                raise PermissionDenied(
                    f"{shown(path)} lies in a folder that is open for reading only.", hint="Write elsewhere."
                )
            self._refuse_protected(self.target(absolute), path)
        reason = self._deny(access, self.target(absolute)) if self._deny is not None else None
        if reason is not None:
            raise PermissionDenied(f"{access} {shown(path)} is denied: {reason}", hint="Use another file.")

    def _refuse_protected(self, target: str, path: str, *, is_dir: bool = False) -> None:
        entry = self._protected.match(target, is_dir=is_dir)
        if entry is not None:
            raise PermissionDenied(
                f"{shown(path)} is protected ({entry}): other programs obey it with the person's rights.",
                hint="Tell the person what to change there.",
                details={"protected": entry},
            )

    def _is_masked(self, absolute: str) -> bool:
        return any(absolute == mask or _beneath(absolute, mask) for mask in self._masked)

    def _visible(self, absolute: str) -> bool:
        if self._is_masked(absolute):
            return False
        return self._deny is None or self._deny("read", self.target(absolute)) is None

    def _walk(self) -> Iterator[str]:
        """Every file, link and folder below the workspace by descriptor, no link followed."""
        pending = [""]
        seen = 0
        while pending:
            folder = pending.pop()
            try:
                descriptor = self._opener.open(self._workspace.descriptor, folder, FOLDER_FLAGS, links=False)
            except OSError:
                continue
            try:
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        seen += 1
                        if seen > _LIST_LIMIT:
                            return
                        if not self._simple and not self._visible(f"{self._workspace.path}/{path}"):
                            continue
                        yield path
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(path)
            finally:
                os.close(descriptor)


def hard_link_warning(target: str, links: int) -> tuple[str, ...]:
    """What to say after a file with `links` names was replaced under one of them."""
    if links < 2:
        return ()
    names = "1 other name" if links == 2 else f"{links - 1} other names"
    return (f"{shown(target)} was a hard link; its {names} keep the old content.",)


def _beneath(path: str, folder: str) -> bool:
    return path.startswith(folder if folder.endswith("/") else folder + "/")


def _root(
    path: str | os.PathLike[str], opened: list[int], *, writable: bool, is_workspace: bool = False
) -> Root:
    real = os.path.realpath(os.fspath(path))
    try:
        descriptor = os.open(real, FOLDER_FLAGS)
    except OSError as error:
        raise refusal(error, os.fspath(path), noun="Directory") from None
    opened.append(descriptor)
    return Root(real, descriptor, writable, is_workspace)


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def read_descriptor(descriptor: int, most: int, path: str) -> bytes:
    """A file's bytes from an open descriptor to its end.

    Raises:
        TooLarge: over `most` bytes.
    """
    size = os.fstat(descriptor).st_size
    if size > most:
        raise TooLarge(
            f"{shown(path)} is {size} bytes; the limit is {most}.",
            hint="Read a part of it by offset and limit, or search in it.",
            details={"size": size, "limit": most},
        )
    # One byte more than the size: a read that ends there needs no second one to see the end.
    data = os.read(descriptor, size + 1)
    if len(data) == size and size:
        return data
    parts = [data]
    total = len(data)
    while data:
        if total > most:
            raise TooLarge(
                f"{shown(path)} is over {most} bytes.", hint="Read a part of it.", details={"limit": most}
            )
        data = os.read(descriptor, min(1 << 20, most - total + 1))
        parts.append(data)
        total += len(data)
    return b"".join(parts)
