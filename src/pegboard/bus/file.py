"""file: a channel that appends each message to a file, one JSON object a line."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from pegboard.bus.payload import payload
from pegboard.ports.channel import Capabilities, NotDelivered
from pegboard.ports.messages import OutboundMessage

_LOOKED_THROUGH: Final = 64 << 20
"""Bytes at the end of the file in which a message is looked for that may be there already."""


class FileChannel:
    """Appends to a file; media are named, and their bytes left out.

    Args:
        name: the channel's.
        path: the file; made with mode 600 if it does not exist.
    """

    settings: ClassVar[Mapping[str, str]] = {"path": "path"}
    capabilities = Capabilities(
        media=True, buttons=True, silent=True, edit=True, delete=True, react=True, poll=True, idempotent=True
    )

    def __init__(self, name: str, *, path: Path) -> None:
        self.name = name
        self._path = path

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        line = json.dumps(payload(message, key), ensure_ascii=False) + "\n"
        try:
            await asyncio.to_thread(self._append, line.encode("utf-8", "replace"), key)
        except OSError as error:
            raise NotDelivered(f"cannot write {self._path}: {error.strerror or error}") from None
        return key

    def _append(self, line: bytes, key: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(
            os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "r+b"
        ) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOOKED_THROUGH))
            before = file.read()
            if f'"id": {json.dumps(key, ensure_ascii=False)},'.encode() in before:
                return
            if before and not before.endswith(b"\n"):
                line = b"\n" + line  # A process was killed while it wrote.
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
