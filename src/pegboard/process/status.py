"""Exit statuses as a shell tells them: 128 + n where signal n ended the command (POSIX sh, 2.8.2)."""

from __future__ import annotations

import signal
from typing import Final

KILLED: Final = 128 + signal.SIGKILL


def shell_status(returncode: int) -> int:
    """The status that a shell would tell of a process's return code; negative codes are signals."""
    return 128 - returncode if returncode < 0 else returncode


def shown_status(status: int) -> str:
    """`143 (SIGTERM)`; the number alone where it stands for no signal."""
    try:
        return f"{status} ({signal.Signals(status - 128).name})"
    except ValueError:
        return str(status)
