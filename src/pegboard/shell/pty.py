"""Pseudo-terminals for background commands, and the byte sequences of keys."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from typing import Final

from pegboard.core.errors import InvalidArguments

COLUMNS: Final = 120
ROWS: Final = 40

# xterm's sequences; what terminfo calls kcuu1, kf1 and so on.
_KEYS: Final = {
    "enter": "\r", "return": "\r", "tab": "\t", "space": " ", "escape": "\x1b", "esc": "\x1b",
    "backspace": "\x7f", "bspace": "\x7f", "delete": "\x1b[3~", "insert": "\x1b[2~",
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
    "home": "\x1b[H", "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
    "backtab": "\x1b[Z", "shift-tab": "\x1b[Z",
    "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~",
    "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~",
    "f12": "\x1b[24~",
}  # fmt: skip
_MODIFIED: Final = re.compile(r"(?:(control|ctrl|c|\^)|(meta|alt|m))[-+]?(.+)", re.IGNORECASE)
PASTE_START: Final = b"\x1b[200~"
PASTE_END: Final = b"\x1b[201~"


def open_terminal(columns: int = COLUMNS, rows: int = ROWS) -> tuple[int, str, int]:
    """A pseudo-terminal: master descriptor, slave path, and a slave descriptor that keeps it alive
    until the command has opened its own."""
    master, slave = os.openpty()
    os.set_inheritable(master, False)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return master, os.ttyname(slave), slave


def key_bytes(key: str) -> bytes:
    """What a terminal sends for a key: `Enter`, `Up`, `C-c`, `M-x`, `F5`, or one character.

    Raises:
        InvalidArguments: no such key.
    """
    if len(key) == 1:
        return key.encode()
    named = _KEYS.get(key.lower().replace("_", ""))
    if named is not None:
        return named.encode()
    modified = _MODIFIED.fullmatch(key)
    if modified is not None:
        control, _, rest = modified.groups()
        if control is None:
            return b"\x1b" + key_bytes(rest)
        if len(rest) == 1 and (rest.isalpha() or rest in "@[\\]^_?"):
            return b"\x7f" if rest == "?" else bytes((ord(rest.upper()) & 0x1F,))
        if rest.lower() == "space":
            return b"\x00"
    raise InvalidArguments(
        f"unknown key {key!r}",
        hint="Keys are Enter, Tab, Escape, Up, Down, Left, Right, PageUp, F1 … F12, C-c, M-x or one character.",
    )
