"""canvas: what Pillow and an XML parser find in the pictures it draws."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image as Pillow

from pegboard import Executor, builtin
from pegboard.compat.moltbot import create_canvas_tool
from pegboard.core.content import Image
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.media.drawing import Drawing
from pegboard.ports.media import Shape, Sketch
from tests.ledger import owes

SVG = "{http://www.w3.org/2000/svg}"


async def pixels(*shapes: Shape, background: str = "white") -> Any:
    sketch = Sketch(width=40, height=30, shapes=shapes, background=background)
    return Pillow.open(io.BytesIO(await Drawing().draw(sketch, "png"))).load()


async def call(folder: Path, **arguments: Any) -> ToolResult:
    async with Executor(builtin("canvas"), workspace=folder, mode="workspace") as executor:
        return await executor.call("canvas", arguments)


@owes("M-36", "X-48")
async def test_the_documents_shapes_are_drawn_where_they_say(tmp_path: Path) -> None:
    result = await call(
        tmp_path,
        width=40,
        height=30,
        commands=[
            {"type": "rect", "x": 2, "y": 3, "width": 10, "height": 5, "color": "#ff0000"},
            {"type": "circle", "x": 25, "y": 15, "r": 6, "fill": "blue"},
            {"type": "text", "x": 2, "y": 12, "text": "H", "fontSize": 14},
        ],
    )

    shown = next(b for b in result.content if isinstance(b, Image))
    drawn: Any = Pillow.open(io.BytesIO(shown.data))
    assert drawn.size == (40, 30)
    red = [(x, y) for x in range(40) for y in range(30) if drawn.getpixel((x, y)) == (255, 0, 0)]
    assert (min(red), max(red), len(red)) == ((2, 3), (11, 7), 50)
    assert drawn.getpixel((25, 15)) == drawn.getpixel((25, 10)) == (0, 0, 255)
    assert drawn.getpixel((25, 22)) == (255, 255, 255)
    assert any(drawn.getpixel((x, y)) == (0, 0, 0) for x in range(2, 20) for y in range(12, 30))
    assert "kept as artifact 'canvas-1'" in result.text


async def test_later_shapes_cover_earlier_ones_and_half_a_colour_blends() -> None:
    square = Shape(type="rect", width=40, height=30, fill="red")
    half = Shape(type="rect", width=20, height=30, fill="#0000ff80")
    at = await pixels(square, half)

    assert at[30, 5] == (255, 0, 0)
    assert at[5, 5] == pytest.approx((127, 0, 128), abs=1)


async def test_lines_polygons_ellipses_and_outlines_are_drawn() -> None:
    line = Shape(type="line", x=0, y=5, x2=39, y2=5, stroke="green")
    triangle = Shape(type="polygon", points=((0, 29), (10, 29), (0, 19)), fill="blue")
    ellipse = Shape(type="ellipse", x=30, y=20, width=10, height=6, fill="none", stroke="red")
    at = await pixels(line, triangle, ellipse, background="#eeeeee")

    assert at[20, 5] == (0, 128, 0)
    assert at[2, 27] == (0, 0, 255)
    assert at[30, 20] == at[39, 29] == (238, 238, 238)
    assert at[25, 20] == (255, 0, 0)


@owes("X-48")
async def test_an_svg_is_well_formed_whatever_the_text_and_lies_in_the_file(tmp_path: Path) -> None:
    shapes = [
        {"type": "circle", "x": 5, "y": 6, "radius": 2.5, "fill": "rgb(0, 128, 0)"},
        {"type": "text", "x": 1, "y": 2, "text": "</text><script>1 & 2"},
    ]
    result = await call(tmp_path, width=40, height=30, commands=shapes, path="out/a.svg")

    root = ElementTree.fromstring((tmp_path / "out/a.svg").read_text())
    circle, text = root.find(f"{SVG}circle"), root.find(f"{SVG}text")
    assert (root.get("width"), root.get("height")) == ("40", "30")
    assert circle is not None
    assert (circle.get("cx"), circle.get("r"), circle.get("fill")) == ("5", "2.5", "#008000")
    assert text is not None
    assert text.text == "</text><script>1 & 2"
    assert root.find(f".//{SVG}script") is None
    assert result.data["mime_type"] == "image/svg+xml"


@owes("X-48")
async def test_a_page_of_html_is_kept_as_an_artifact(tmp_path: Path) -> None:
    async with Executor(builtin("canvas", "read_artifact"), workspace=tmp_path, mode="workspace") as executor:
        await executor.call("canvas", {"html": "<h1>Otters</h1>", "title": "Page"})
        kept = await executor.call("read_artifact", {"id": "canvas-1"})

    assert "<h1>Otters</h1>" in kept.text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"commands": [{"type": "rect", "x": 1, "y": 1}]}, "commands[0]: a rect needs width and height"),
        ({"commands": [{"type": "circle", "x": 1, "y": 1}]}, "a circle needs radius"),
        ({"commands": [{"type": "text", "text": "a", "fill": "url(#x)"}]}, "is not a colour"),
        ({"commands": [{"type": "text", "text": "a", "rotate": 3}]}, "'rotate' is not known"),
        ({"commands": [{"type": "star", "x": 1}]}, "star"),
        ({"commands": [], "width": 10}, "nothing to draw"),
        ({"commands": [{"type": "text", "text": "a"}], "width": 100_000}, "width"),
        ({"commands": [{"type": "text", "text": "a"}], "html": "<p>"}, "either commands or html"),
    ],
)
async def test_what_cannot_be_drawn_says_where(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    result = await call(tmp_path, **arguments)

    assert not result.ok
    assert problem in str(result)
    assert list(tmp_path.iterdir()) == []


async def test_a_colour_of_the_background_is_checked_too() -> None:
    with pytest.raises(InvalidArguments, match="background: 'bluish' is not a colour"):
        await pixels(background="bluish")


@owes("M-36")
async def test_moltbots_canvas_takes_the_documents_parameters(tmp_path: Path) -> None:
    tool = create_canvas_tool()
    assert tool is not None
    assert list(tool.schema["properties"]) == ["width", "height", "commands"]
    async with Executor([tool], workspace=tmp_path, mode="workspace") as executor:
        rect = {"type": "rect", "x": 0, "y": 0, "width": 4, "height": 4}
        result = await executor.call("canvas", {"width": 10, "height": 10, "commands": [rect]})

    assert result.ok
