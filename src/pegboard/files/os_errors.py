"""Operating-system errors as errors that a model can act on, without system details (ledger N-121)."""

from __future__ import annotations

import errno
import stat

from pegboard.core.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    TooLarge,
    ToolError,
    Unavailable,
    Unsupported,
)
from pegboard.files.names import shown


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
