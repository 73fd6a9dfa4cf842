"""Content blocks on the wire: what every provider shares."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Final

from pegboard.core.content import Audio, Block, File, Image, Text, describe
from pegboard.core.result import ToolResult
from pegboard.dialects.wire import clean_text

IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What OpenAI and Anthropic take; any other image is only named."""

EMPTY: Final = "(no output)"
"""Stands for an empty result: several servers refuse an empty tool message."""


def base64_text(data: bytes) -> str:
    """Standard base64."""
    return base64.b64encode(data).decode("ascii")


def data_uri(data: bytes, mime_type: str) -> str:
    """`data:` URI (RFC 2397)."""
    return f"data:{mime_type};base64,{base64_text(data)}"


def block_text(block: Block) -> str:
    """A block as text: its text, a text file's content, else one line that names it."""
    if isinstance(block, Text):
        return clean_text(block.text)
    if isinstance(block, File) and block.data is not None and block.mime_type.startswith("text/"):
        return clean_text(f"{block.name}:\n{block.data.decode('utf-8', 'replace')}")
    if isinstance(block, File) and block.data is None and block.uri:
        return clean_text(f"[file {block.name} {block.mime_type}, {block.uri}]")
    return clean_text(describe(block))


def blocks_text(blocks: Iterable[Block]) -> str:
    """All blocks as text, one below the other."""
    return "\n".join(block_text(block) for block in blocks)


def result_text(result: ToolResult) -> str:
    """What a model reads of a result, never empty."""
    return blocks_text(result.content) or EMPTY


def is_sendable_image(block: Block) -> bool:
    """Whether this is an image of a type that the common providers decode."""
    return isinstance(block, Image) and block.mime_type in IMAGE_TYPES and bool(block.data)


def is_pdf(block: Block) -> bool:
    """Whether this is a PDF with its bytes."""
    return isinstance(block, File) and block.mime_type == "application/pdf" and block.data is not None


def audio_format(block: Audio) -> str | None:
    """OpenAI's word for the sound's format, None where it takes no such sound."""
    return {
        "audio/wav": "wav",
        "audio/x-wav": "wav",
        "audio/wave": "wav",
        "audio/mpeg": "mp3",
        "audio/mp3": "mp3",
    }.get(block.mime_type)
