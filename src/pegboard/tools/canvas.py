"""canvas: draw shapes and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BeforeValidator, Field

from pegboard.core.content import Block, Image, NewArtifact, Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, Verbatim
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.files import Files, Write
from pegboard.ports.media import Canvas, Shape, Sketch

_FIELDS: Final = frozenset(f.name for f in fields(Shape))
_SPELLINGS: Final = {
    "r": "radius", "w": "width", "h": "height", "color": "fill", "colour": "fill", "fontsize": "size", "cx": "x",
    "cy": "y", "x1": "x", "y1": "y", "strokewidth": "line_width", "linewidth": "line_width", "content": "text",
    "fontcolor": "fill", "strokecolor": "stroke", "fillcolor": "fill", "kind": "type", "shape": "type",
}  # fmt: skip
"""What other drawing interfaces call the same."""


def _spelled(value: Any) -> Any:
    """The shapes with our names.

    Raises:
        ValueError: a name that is not known; it would be left out of the picture in silence.
    """
    if not isinstance(value, list):
        return value
    out: list[Any] = []
    for number, one in enumerate(cast("list[Any]", value)):
        if not isinstance(one, Mapping):
            return cast("Any", value)
        row: dict[str, Any] = {}
        for key, given in cast("Mapping[str, Any]", one).items():
            name = key if key in _FIELDS else _SPELLINGS.get(key.lower().replace("_", ""), key)
            if name not in _FIELDS:
                raise ValueError(f"[{number}]: {key!r} is not known; known: {', '.join(sorted(_FIELDS))}")
            row[name] = given
        out.append(row)
    return out


async def plan_canvas(call: ValidCall, context: Context) -> Plan:
    """The file that is written, if one is."""
    if not (path := call.arguments["path"]):
        return Plan(())
    return Plan((Effect("write", (await context.port(Files).resolve(path, write=True)).reachable()),))


@tool(
    plan=plan_canvas,
    touches=("write",),
    hints=("draw a diagram", "draw shapes", "make an svg", "show html", "画图"),
    example={
        "width": 200,
        "height": 100,
        "commands": [{"type": "rect", "x": 10, "y": 10, "width": 50, "height": 30}],
    },
)
async def canvas(
    width: Annotated[int, Field(ge=1, le=4096)] = 800,
    height: Annotated[int, Field(ge=1, le=4096)] = 600,
    commands: Annotated[
        list[Shape] | None, Field(max_length=2000), BeforeValidator(_spelled), Alias("shapes")
    ] = None,
    html: Annotated[str, Verbatim()] = "",
    background: str = "white",
    format: Literal["png", "svg"] = "png",
    title: str = "",
    path: Annotated[str, Alias("output", "filename")] = "",
    *,
    drawing: Inject[Canvas],
    files: Inject[Files],
) -> ToolResult:
    """Draw shapes and text as a PNG or SVG, or show a page of HTML; kept as an artifact, and as a file if path says so.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        commands: Shapes in order, each with type and fill, stroke, line_width: rect (x, y, width, height), circle
            (centre x, y, radius), ellipse (centre x, y, width, height), line (x, y, x2, y2), polygon (points),
            text (top left x, y, text, size).
        html: A whole HTML page in place of commands.
        background: Colour behind the shapes.
        format: png is also shown to you; svg is text that scales.
        title: What it is called.
        path: A file of the workspace to write too.

    Raises:
        InvalidArguments: a shape lacks its size, or a colour is not known.
    """
    if bool(html) == bool(commands):
        raise InvalidArguments(
            "send either commands or html" if html else "there is nothing to draw",
            hint="Send commands, a list of shapes, or html.",
        )
    if html:
        kind, data = "text/html", html.encode("utf-8", "replace")
    else:
        sketch = Sketch(width=width, height=height, shapes=commands or (), background=background)
        # A path that ends in .svg or .png says the format better than a default does.
        suffix = path.rpartition(".")[2].lower()
        form: Literal["png", "svg"] = format if suffix not in ("png", "svg") else suffix
        kind = "image/png" if form == "png" else "image/svg+xml"
        data = await drawing.draw(sketch, form)
    lines = ["Made a page of HTML." if html else f"Drew {len(commands or ())} shapes, {width} x {height}."]
    if path:
        changes = await files.commit(await files.propose([Write(path=path, data=data)]))
        lines += [f"Saved {len(data):,} bytes to {path}.", *([changes.note] if changes.note else [])]
    content: list[Block] = [Text("\n".join(lines))]
    if kind == "image/png":
        content.append(Image(data=data, mime_type=kind, label=title or "canvas"))
    kept = NewArtifact(content=data if kind == "image/png" else data.decode(), title=title, content_type=kind)
    facts = {"width": width, "height": height, "mime_type": kind, "bytes": len(data), "path": path}
    return ToolResult(content=tuple(content), data=facts, artifacts=(kept,))
