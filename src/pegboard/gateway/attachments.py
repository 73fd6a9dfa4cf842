"""Attachments: files that come with a message over HTTP, kept in the workspace as those of chats are."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

from pegboard.app.app import App
from pegboard.core.call.call import new_id
from pegboard.core.errors import InvalidArguments, TooLarge, Unavailable
from pegboard.gateway.bodies import NewFile
from pegboard.net.asgi.server import MAX_BODY_BYTES
from pegboard.ports.messages import Attachment
from pegboard.services.chat_files import FOLDER, MAX_BYTES, ChatFiles, file_note
from pegboard.services.principals import CHANNEL
from pegboard.services.sessions import with_attached

MAX_MESSAGE_BYTES: Final = MAX_BYTES * 4 // 3 + 1024 * 1024
"""Of a body that may hold files, which are a third larger in base64."""


async def with_files(app: App, text: str, files: Sequence[NewFile]) -> str:
    """A message that names the files that came with it, which are in the workspace then.

    Raises:
        InvalidArguments: a content is not base64.
        TooLarge: they are over 20 MB in all, or the text alone is over what a body without files may have.
        Unavailable: one cannot be written.
    """
    if len(text) > MAX_BODY_BYTES:
        raise TooLarge(
            f"the message has {len(text):,} characters; {MAX_BODY_BYTES:,} are taken",
            hint="Put long texts into a file and name it in the message.",
        )
    if not files:
        return text
    read: list[Attachment] = []
    for file in files:
        try:
            data = base64.b64decode(file.content, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArguments(f"the content of {file.name!r:.100} is not base64") from None
        read.append(Attachment(name=file.name, media_type=file.media_type, data=data))
    total = sum(len(file.data) for file in read)
    if total > MAX_BYTES:
        raise TooLarge(
            f"{len(read)} files have {total:,} bytes; a message takes {MAX_BYTES:,}",
            hint="Put large files into the workspace and name them in the message.",
        )
    kept, message = ChatFiles(app), new_id("in")
    try:
        notes = [
            file_note(await kept.keep_bytes(CHANNEL, f"{message}-{n}", file))
            for n, file in enumerate(read, 1)
        ]
    except OSError as error:
        raise Unavailable(
            f"the files cannot be kept in {app.workspace / FOLDER}: {error.strerror}",
            hint="Make that folder writable, or send the message without files.",
        ) from None
    return with_attached(text, notes)
