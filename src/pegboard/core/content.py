"""Content blocks: what a result, a message or a prompt is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, assert_never, cast


@dataclass(slots=True)
class Text:
    """Plain text."""

    text: str

    def to_dict(self) -> dict[str, Any]:
        """`{type: text, text}`."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image, whole.

    Attributes:
        data: the encoded file (PNG, JPEG, GIF, WebP).
        mime_type: for example `image/png`.
        label: a short name for people, may be empty.
    """

    data: bytes
    mime_type: str
    label: str = ""

    def to_dict(self) -> dict[str, Any]:
        """`{type: image, mime_type, data}` with base64 data."""
        return {"type": "image", "mime_type": self.mime_type, "data": _b64(self.data), "label": self.label}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """A sound, whole."""

    data: bytes
    mime_type: str

    def to_dict(self) -> dict[str, Any]:
        """`{type: audio, mime_type, data}` with base64 data."""
        return {"type": "audio", "mime_type": self.mime_type, "data": _b64(self.data)}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file handed on as it is (PDF, archive), or a reference where `data` is None."""

    name: str
    mime_type: str
    data: bytes | None = None
    uri: str = ""

    def to_dict(self) -> dict[str, Any]:
        """`{type: file, name, mime_type, uri, data}`; base64 data or None."""
        return {
            "type": "file",
            "name": self.name,
            "mime_type": self.mime_type,
            "uri": self.uri,
            "data": None if self.data is None else _b64(self.data),
        }


Block: TypeAlias = Text | Image | Audio | File


def block_from_dict(value: Mapping[str, Any]) -> Block:
    """The block that `to_dict` wrote.

    Raises:
        ValueError: an unknown `type`.
    """
    match value.get("type"):
        case "text":
            return Text(value["text"])
        case "image":
            return Image(data=_raw(value["data"]), mime_type=value["mime_type"], label=value.get("label", ""))
        case "audio":
            return Audio(data=_raw(value["data"]), mime_type=value["mime_type"])
        case "file":
            data = value.get("data")
            return File(
                name=value["name"],
                mime_type=value["mime_type"],
                data=None if data is None else _raw(data),
                uri=value.get("uri", ""),
            )
        case other:
            raise ValueError(f"unknown content block type {other!r}")


def describe(block: Block) -> str:
    """One line that names a block: `[image image/png, 512 bytes]`."""
    match block:
        case Text(text):
            return text
        case Image(data=data, mime_type=mime):
            return f"[image {mime}, {len(data)} bytes]"
        case Audio(data=data, mime_type=mime):
            return f"[audio {mime}, {len(data)} bytes]"
        case File(name=name, mime_type=mime, data=data):
            return f"[file {name} {mime}, {len(data or b'')} bytes]"
        case _:
            assert_never(block)


MAX_PIXELS: Final = 100_000_000
"""Of a picture, wherever it comes from: unpacked, one of some kilobytes may fill the memory of whoever opens it."""


def within_limits(block: Block) -> Block:
    """The block, or a line in its place that says why it is not shown: a picture of over MAX_PIXELS."""
    data = block.data if isinstance(block, Image | File) else None
    if data is None or not cast("Image | File", block).mime_type.startswith("image/"):
        return block
    import io
    from importlib import import_module

    imagesize: Any = import_module("imagesize")
    try:
        width, height = imagesize.get(io.BytesIO(data))  # pyright: ignore[reportUnknownMemberType]
    except Exception:  # noqa: BLE001  Bytes from elsewhere: a head that cannot be read names no size.
        return block
    if width * height <= MAX_PIXELS or width < 0:
        return block
    return Text(f"[{describe(block)[1:-1]}: {width} x {height} pixels, over {MAX_PIXELS}; it is not shown]")


def _b64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode("ascii")


def _raw(text: str) -> bytes:
    import base64

    return base64.b64decode(text, validate=True)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as a model or caller sent it: untrusted, immutable.

    Attributes:
        id: the sender's id; empty or None where it sent none (the executor makes one).
        name: the tool's name as sent, possibly noisy or an alias.
        arguments: JSON text, or an already parsed object.
        raw: the text that it was read from, for dialects in text; may be empty.
    """

    id: str | None
    name: str
    arguments: str | Mapping[str, Any] | None = None
    raw: str = ""

    @property
    def params(self) -> dict[str, Any]:
        """The arguments where they are an object already, else empty."""
        return dict(self.arguments) if isinstance(self.arguments, Mapping) else {}

    @property
    def input(self) -> dict[str, Any]:
        """The same as `params`."""
        return self.params


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """A text, picture or other file that a tool declares as an artifact, by returning it or in its ToolResult.

    Attributes:
        content: the whole text, or the bytes of a picture or another file.
        id: letters, digits, '.', '_' and '-'; one that is taken gets a new version; empty = `TOOL-1`,
            `TOOL-2` and so on.
        title: for people; empty = the id.
        content_type: `markdown`, `python`, `image/png` …; empty = markdown for text, found out for bytes.
    """

    content: str | bytes
    id: str = ""
    title: str = ""
    content_type: str = ""


KEEPER: Final = "pegboard.artifact-keeper"
"""Key in `provide` of the object that keeps declared artifacts, a Keeper."""


_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)  # fmt: skip


def media_type_of(data: bytes) -> str:
    """The media type of a picture or PDF by its first bytes, else `application/octet-stream`."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "application/octet-stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """Where a declared artifact lies now."""

    id: str
    version: int
    content_type: str


class ArtifactSaver(Protocol):
    """Keeps declared artifacts for the session of the current call."""

    async def save(self, made: NewArtifact, *, name: str) -> ArtifactRef:
        """Keep it as a new artifact, or as a new version where its id is one.

        Args:
            made: what to keep.
            name: stem of the id where `made` names none.

        Raises:
            ToolError: it cannot be kept; nothing was.
        """
        ...
