"""Reach: opening what a path names, and aiming at where something will be, within roots and permits."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from pegboard.core.errors import InvalidArguments, NotFound, ToolError
from pegboard.files.access_rules import Access, AccessRules
from pegboard.files.dirfd_paths import PlannedPath
from pegboard.files.names import as_text, case_variant, check_new_name, shown
from pegboard.files.openat import FOLDER_FLAGS, LOOK_FLAGS, real_path
from pegboard.files.os_errors import from_os_error, is_folder, no_regular_file, outside_workspace
from pegboard.files.roots import Roots, is_link, leaves


class PathOpener:
    """Descriptors of what is there, and places for what will be; every error says what to do.

    Args:
        roots: the folders that may be used.
        permits: what is refused within them.
        simple: nothing is masked or denied, so that a folder need not be asked about.
    """

    def __init__(self, roots: Roots, permits: AccessRules, *, simple: bool) -> None:
        self._roots = roots
        self._permits = permits
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
            self._permits.authorise("read", self.real_path(descriptor, path), path)
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
        """The place that a path names, asked about; the caller closes its folder (see Jail.spot, Jail.aim)."""
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
                self._permits.authorise(access, absolute, path)
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
                names = [name for name in names if self._permits.visible(os.path.join(base, name))]
        except OSError as error:
            raise from_os_error(error, path, noun="Directory") from None
        finally:
            os.close(descriptor)
        return names

    def missing(self, path: str, noun: str = "File") -> NotFound:
        """NotFound for `path`, with the twin's name where one is there."""
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
