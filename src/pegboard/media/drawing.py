"""Drawing: shapes as a PNG by Pillow, or as an SVG."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal
from xml.sax.saxutils import escape

from pegboard.core.errors import InvalidArguments, Unavailable
from pegboard.ports.media import Shape, Sketch

_FONTS: Final = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial.ttf")
_CJK_FONTS: Final = ("NotoSansCJK-Regular.ttc", "wqy-zenhei.ttc", "msyh.ttc", "PingFang.ttc")

Colour = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Painted:
    """A shape with its colours read; None = not painted."""

    shape: Shape
    fill: Colour | None
    stroke: Colour | None


class Drawing:
    """The Canvas port."""

    async def draw(self, sketch: Sketch, format: Literal["png", "svg"]) -> bytes:
        """See Canvas."""
        shapes = [_painted(number, shape) for number, shape in enumerate(sketch.shapes)]
        background = _colour("background", sketch.background) or (255, 255, 255, 0)
        return await asyncio.to_thread(_svg if format == "svg" else _png, sketch, shapes, background)


def pillow(module: str) -> Any:
    """A module of Pillow.

    Raises:
        Unavailable: it is not installed.
    """
    try:
        return import_module(f"PIL.{module}")
    except ImportError:
        raise Unavailable(
            "pictures need Pillow, which is not installed",
            hint="Ask the user to run: pip install 'pegboard[documents]'",
        ) from None


def _colour(where: str, name: str) -> Colour | None:
    """A colour by CSS name, `#rrggbb`, `#rrggbbaa`, `rgb(…)` or `hsl(…)`; None for none.

    Raises:
        InvalidArguments: it is none of these.
    """
    if name.strip().lower() in ("", "none", "transparent"):
        return None
    try:
        found = pillow("ImageColor").getrgb(name.strip())
    except ValueError:
        raise InvalidArguments(
            f"{where}: {name[:60]!r} is not a colour", hint="Use a name such as red, or #rrggbb."
        ) from None
    return (*found[:3], found[3] if len(found) > 3 else 255)


def _painted(number: int, shape: Shape) -> _Painted:
    where = f"commands[{number}]"
    needed: dict[str, bool] = {
        "rect": shape.width > 0 and shape.height > 0,
        "ellipse": shape.width > 0 and shape.height > 0,
        "circle": shape.radius > 0,
        "polygon": len(shape.points) >= 3,
        "text": bool(shape.text) and shape.size > 0,
    }
    if not needed.get(shape.type, True):
        wants = {"circle": "radius", "polygon": "at least three points", "text": "text and size"}
        raise InvalidArguments(f"{where}: a {shape.type} needs {wants.get(shape.type, 'width and height')}")
    return _Painted(
        shape=shape,
        fill=_colour(f"{where}.fill", shape.fill),
        stroke=_colour(f"{where}.stroke", shape.stroke),
    )


def _png(sketch: Sketch, shapes: Sequence[_Painted], background: Colour) -> bytes:
    # On RGB, a brush with alpha blends; on RGBA it would replace.
    picture = pillow("Image").new("RGB", (sketch.width, sketch.height), background[:3])
    brush = pillow("ImageDraw").Draw(picture, "RGBA")
    for one in shapes:
        s = one.shape
        colours: dict[str, Any] = {"fill": one.fill, "outline": one.stroke, "width": round(s.line_width)}
        match s.type:
            case "rect":
                brush.rectangle(_box(s.x, s.y, s.width, s.height), **colours)
            case "circle":
                r = s.radius
                brush.ellipse(_box(s.x - r, s.y - r, 2 * r, 2 * r), **colours)
            case "ellipse":
                brush.ellipse(_box(s.x - s.width / 2, s.y - s.height / 2, s.width, s.height), **colours)
            case "line":
                ends = [(s.x, s.y), (s.x2, s.y2)]
                brush.line(ends, fill=one.stroke or one.fill, width=round(s.line_width) or 1)
            case "polygon":
                brush.polygon([tuple(p) for p in s.points], **colours)
            case "text":
                brush.text((s.x, s.y), s.text, fill=one.fill, font=_font(s.text, s.size))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def _box(x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    """The corners as Pillow counts them: the last pixel belongs to the shape."""
    return x, y, max(x, x + width - 1), max(y, y + height - 1)


def _font(text: str, size: float) -> Any:
    fonts = pillow("ImageFont")
    wide = any("\u2e80" <= char <= "\uffdc" for char in text)
    for name in (*(_CJK_FONTS if wide else ()), *_FONTS):
        try:
            return fonts.truetype(name, size)
        except OSError:
            continue
    return fonts.load_default(size)


def _svg(sketch: Sketch, shapes: Sequence[_Painted], background: Colour) -> bytes:
    size = f'width="{sketch.width}" height="{sketch.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {sketch.width} {sketch.height}">',
        f"  <rect {size}{_paint('fill', background)}/>",
    ]
    for one in shapes:
        s = one.shape
        paint = _paint("fill", one.fill)
        if one.stroke is not None:
            paint += f'{_paint("stroke", one.stroke)} stroke-width="{s.line_width:g}"'
        at = f'x="{s.x:g}" y="{s.y:g}"'
        match s.type:
            case "rect":
                lines.append(f'  <rect {at} width="{s.width:g}" height="{s.height:g}"{paint}/>')
            case "circle":
                lines.append(f'  <circle cx="{s.x:g}" cy="{s.y:g}" r="{s.radius:g}"{paint}/>')
            case "ellipse":
                radii = f'rx="{s.width / 2:g}" ry="{s.height / 2:g}"'
                lines.append(f'  <ellipse cx="{s.x:g}" cy="{s.y:g}" {radii}{paint}/>')
            case "line":
                line = f'{_paint("stroke", one.stroke or one.fill)} stroke-width="{s.line_width:g}"'
                lines.append(f'  <line x1="{s.x:g}" y1="{s.y:g}" x2="{s.x2:g}" y2="{s.y2:g}"{line}/>')
            case "polygon":
                points = " ".join(f"{x:g},{y:g}" for x, y in s.points)
                lines.append(f'  <polygon points="{points}"{paint}/>')
            case "text":
                style = (
                    f'font-family="sans-serif" font-size="{s.size:g}" dominant-baseline="text-before-edge"'
                )
                lines.append(f"  <text {at} {style}{paint}>{escape(s.text)}</text>")
    return ("\n".join([*lines, "</svg>"]) + "\n").encode()


def _paint(attribute: str, colour: Colour | None) -> str:
    if colour is None:
        return f' {attribute}="none"'
    alpha = "" if colour[3] == 255 else f' {attribute}-opacity="{colour[3] / 255:.3g}"'
    return f' {attribute}="#{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}"{alpha}'
