"""Pictures and speech: what a tool may have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pegboard.core.content import Audio, Image

ImageSize: TypeAlias = Literal["1024x1024", "1792x1024", "1024x1792"]
ImageFormat: TypeAlias = Literal["png", "jpeg", "webp"]
AudioFormat: TypeAlias = Literal["wav", "mp3"]
ShapeType: TypeAlias = Literal["rect", "circle", "ellipse", "line", "polygon", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """A picture to make.

    Attributes:
        prompt: what it shows, or how `sources` are to be changed.
        size: width x height in pixels; a provider that has no such size makes the nearest.
        format: of the file.
        sources: pictures to change or to combine; empty = a new picture.
    """

    prompt: str
    size: ImageSize = "1024x1024"
    format: ImageFormat = "png"
    sources: Sequence[Image] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedImage:
    """A picture, who made it, and what of the request was not possible; `note` may be empty.

    Attributes:
        cost_usd: what it cost, None where no price is known.
    """

    provider: str
    model: str
    image: Image
    note: str = ""
    cost_usd: float | None = None


class ImageGenerator(Protocol):
    """Makes pictures."""

    def hosts(self) -> Sequence[str]:
        """The hosts that a request is sent to.

        Raises:
            Unavailable: see `generate`.
        """
        ...

    async def generate(self, request: ImageRequest) -> GeneratedImage:
        """Make a picture.

        Raises:
            Unavailable: no provider has a key, or it refused the key, cannot be reached, or sent no picture.
            InvalidArguments: the provider does not make such a picture; the message has its words.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """A text to speak.

    Attributes:
        text: what to say.
        voice: as the provider names it; empty = the usual one of the language.
        language: two or three letters (ISO 639), perhaps with a region; empty = by the script of the text.
        speed: 1 is usual, 2 twice as fast.
        format: of the file.
    """

    text: str
    voice: str = ""
    language: str = ""
    speed: float = 1.0
    format: AudioFormat = "wav"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenText:
    """A spoken text, who spoke it, and how long it takes in seconds (None = not known).

    Attributes:
        cost_usd: what it cost, None where no price is known.
    """

    provider: str
    voice: str
    audio: Audio
    duration_s: float | None = None
    cost_usd: float | None = None


class Speech(Protocol):
    """Speaks texts."""

    def hosts(self) -> Sequence[str]:
        """The hosts that a text is sent to; none where it stays on this machine.

        Raises:
            Unavailable: see `speak`.
        """
        ...

    async def speak(self, request: SpeechRequest) -> SpokenText:
        """Speak a text.

        Raises:
            Unavailable: nothing here speaks, or the provider refused; the message says which.
            InvalidArguments: there is no such voice, or the text is too long for the provider.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One thing to draw; which fields count depends on `type`. Lengths in pixels, from the top left.

    Attributes:
        type: rect (x, y, width, height), circle (centre x, y, radius), ellipse (centre x, y, width, height),
            line (x, y to x2, y2), polygon (points) or text (x, y is its top left, text, size).
        fill: colour of the inside, of a line and of text; `none` = empty.
        stroke: colour of the outline; empty = no outline.
        line_width: of a line or an outline.
    """

    type: ShapeType
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0
    radius: float = 0
    x2: float = 0
    y2: float = 0
    points: Sequence[tuple[float, float]] = ()
    text: str = ""
    size: float = 16
    fill: str = "black"
    stroke: str = ""
    line_width: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Shapes on a background, the first at the bottom."""

    width: int
    height: int
    shapes: Sequence[Shape]
    background: str = "white"


class Canvas(Protocol):
    """Draws shapes."""

    async def draw(self, sketch: Sketch, format: Literal["png", "svg"]) -> bytes:
        """The file of a sketch.

        Raises:
            InvalidArguments: a colour is not known, or a shape lacks a size.
            Unavailable: Pillow is missing.
        """
        ...
