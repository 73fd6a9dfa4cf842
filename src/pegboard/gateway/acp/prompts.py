"""Prompts: what a person sends from an editor, as a message with files and pictures beside it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from pegboard.core.content import Image, Text, media_type_of, within_limits
from pegboard.core.secrets.clip import clip
from pegboard.gateway.acp.connection import Json
from pegboard.mcp.wire import INVALID_PARAMS, RpcError

MAX_ATTACHED: Final = 100_000
"""Characters of one embedded resource that a model is sent."""
_MAX_IMAGE: Final = 20_000_000
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A text that the editor sent along.

    Attributes:
        source: where it comes from: a path relative to the workspace, or an address.
        text: the text as the editor has it, saved or not.
        path: the same path where it is one of the workspace, else empty.
    """

    source: str
    text: str
    path: str = ""


@dataclass(slots=True)
class Prompt:
    """A message.

    Attributes:
        text: what the person wrote, with the names of the files in their places.
        links: files of the workspace that are to be read.
        embedded: texts that came along.
        images: pictures that came along.
    """

    text: str = ""
    links: list[str] = field(default_factory=list[str])
    embedded: list[Embedded] = field(default_factory=list[Embedded])
    images: list[Image] = field(default_factory=list[Image])


def read_prompt(blocks: Sequence[Json], workspace: Path) -> Prompt:
    """The message of some content blocks.

    Raises:
        RpcError: a block is of a kind that was not offered, or is damaged.
    """
    prompt = Prompt()
    for block in blocks:
        match block.get("type"):
            case "text":
                prompt.text += str(block.get("text", ""))
            case "image":
                prompt.images.append(_image(block))
            case "resource_link":
                uri = str(block.get("uri", ""))
                path = workspace_path(uri, workspace)
                if path:
                    prompt.links.append(path)
                prompt.text += path + _lines_of(uri) if path else uri
            case "resource":
                _add_resource(prompt, block.get("resource"), workspace)
            case other:
                raise RpcError(INVALID_PARAMS, f"content of the type {str(other)[:40]!r} is not supported")
    return prompt


def workspace_path(uri: str, workspace: Path) -> str:
    """The path of a `file:` address relative to the workspace; empty where it lies elsewhere."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ""
    try:
        found = Path(unquote(parts.path)).resolve().relative_to(workspace)
    except (ValueError, OSError):
        return ""
    return found.as_posix()


def _lines_of(uri: str) -> str:
    """Which lines an address means, as it says it: `#L10:20`."""
    fragment = urlsplit(uri).fragment
    return f"#{fragment}" if fragment else ""


def _add_resource(prompt: Prompt, value: Any, workspace: Path) -> None:
    resource = cast("Json", value) if isinstance(value, dict) else {}
    uri = str(resource.get("uri", ""))
    path = workspace_path(uri, workspace)
    name = path + _lines_of(uri) if path else uri
    if isinstance(resource.get("text"), str):
        text: str = resource["text"]
        if len(text) > MAX_ATTACHED:
            text = f"{clip(text, 0, MAX_ATTACHED)}\n[cut here: {len(text)} characters]"
        prompt.embedded.append(Embedded(source=name, text=text, path=path))
        prompt.text += name
    elif str(resource.get("mimeType", "")).startswith("image/"):
        prompt.images.append(_image({"data": resource.get("blob"), "mimeType": resource.get("mimeType")}))
    else:
        if path:
            prompt.links.append(path)
        prompt.text += name


def _image(block: Json) -> Image:
    """A picture.

    Raises:
        RpcError: it is none, is damaged, or is too large.
    """
    encoded = block.get("data")
    try:
        data = base64.b64decode(encoded if isinstance(encoded, str) else "", validate=True)
    except (binascii.Error, ValueError):
        raise RpcError(INVALID_PARAMS, "the data of a picture is not base64") from None
    kind = media_type_of(data)
    if kind not in _PICTURES:
        raise RpcError(INVALID_PARAMS, "a picture must be PNG, JPEG, GIF or WebP")
    image = Image(data=data, mime_type=kind)
    if len(data) > _MAX_IMAGE or isinstance(within_limits(image), Text):
        raise RpcError(
            INVALID_PARAMS,
            f"a picture may have {_MAX_IMAGE >> 20} MiB; this one has too many bytes or pixels",
        )
    return image
