"""ChatFiles: what comes with messages, kept in the workspace."""

from __future__ import annotations

import asyncio
import os
import re
from mimetypes import guess_extension, guess_type
from pathlib import Path
from typing import Final

from pegboard.core.errors import OutsideWorkspace
from pegboard.ports.channel import ChatChannel, ChatFile, ChatMessage
from pegboard.ports.messages import Attachment
from pegboard.services.runtime import Runtime

FOLDER: Final = "received"
"""The folder of the workspace in which files from chats lie."""
MAX_BYTES: Final = 20 << 20
_UNSAFE: Final = re.compile(r"[^\w.() -]+")


class ChatFiles:
    """Files between chats and the workspace.

    Args:
        runtime: the workspace and its tools.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def keep(self, channel: ChatChannel, message: ChatMessage, file: ChatFile) -> Attachment:
        """Fetch a file that came, and keep it in the workspace; its `path` there.

        Raises:
            TooLarge: it is over 20 MB.
            ToolError, OSError: it cannot be had, or not be written.
        """
        data = await channel.download(file, MAX_BYTES)
        return await self.keep_bytes(
            channel.name, message.id, Attachment(name=file.name, media_type=file.media_type, data=data)
        )

    async def keep_bytes(self, source: str, message: str, file: Attachment) -> Attachment:
        """Keep a file that came with a message in the workspace; its `path` there.

        Args:
            source: where it came from, such as a channel's name; a folder of its own.
            message: the message's id. The same message that comes again has the same file.
            file: its name and content.

        Raises:
            ToolError, OSError: it cannot be written.
        """
        kind = file.media_type or guess_type(file.name)[0] or "application/octet-stream"
        name = _UNSAFE.sub("_", file.name).strip(". ")[-80:] or f"file{guess_extension(kind) or ''}"
        path = f"{FOLDER}/{_UNSAFE.sub('_', source)}/{_UNSAFE.sub('_', message)[-60:]}-{name}"
        await asyncio.to_thread(_write, self._runtime.workspace, path, file.data)
        return Attachment(name=name, media_type=kind, size=len(file.data), path=path)


def file_note(file: Attachment) -> str:
    """How a message tells the model of a file that came with it."""
    return f'<file path="{file.path}" type="{file.media_type}" bytes="{file.size}" />'


def _write(root: Path, path: str, data: bytes) -> None:
    """Write a new file below a folder; one that is there stays.

    Raises:
        OutsideWorkspace: a link leads out of the folder.
        OSError: it cannot be written.
    """
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(root.resolve()):
        raise OutsideWorkspace(f"{FOLDER} leads out of the workspace")
    try:
        descriptor = os.open(
            target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
        )
    except FileExistsError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
