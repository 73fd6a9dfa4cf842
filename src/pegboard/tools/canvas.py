"""canvas: draw shapes and text, or show a page on a node and look at it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

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
from pegboard.ports.nodes import Nodes
from pegboard.tools._nodes import node_effects, picture_of

Action: TypeAlias = Literal["draw", "present", "hide", "snapshot", "eval"]

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


_REASONS: Final = {
    "present": "it shows a page to whoever holds it",
    "hide": "it takes away what is shown",
    "snapshot": "it takes a picture of what is shown",
    "eval": "it runs JavaScript in what is shown",
}


async def plan_canvas(call: ValidCall, context: Context) -> Plan:
    """The file that is written, if one is, or the node whose canvas is used."""
    given = call.arguments
    action: str = given["action"]
    if action != "draw":
        if given["path"]:
            raise InvalidArguments(f"action {action} writes no file", hint="Leave path out.")
        if action == "eval" and not given["script"].strip():
            raise InvalidArguments("action eval needs script")
        node = await context.port(Nodes).find_node(given["node"], "canvas")
        return Plan(node_effects(node.name, "canvas", _REASONS[action]), private=node.name)
    if not (path := given["path"]):
        return Plan(())
    return Plan((Effect("write", (await context.port(Files).resolve(path, write=True)).reachable()),))


@tool(
    plan=plan_canvas,
    touches=("write", "connect", "control"),
    timeout_s=60,
    hints=("draw a diagram", "draw shapes", "make an svg", "show html", "show a page on my phone", "画图"),
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
    action: Action = "draw",
    node: Annotated[str, Alias("node_id", "node_name", "device", "target")] = "",
    script: Annotated[
        str, Field(max_length=100_000), Alias("javascript", "java_script", "code", "expression")
    ] = "",
    *,
    drawing: Inject[Canvas],
    files: Inject[Files],
    nodes: Inject[Nodes],
    planned: Inject[Plan | None] = None,
) -> ToolResult:
    """Draw shapes and text as a PNG or SVG, or make a page of HTML; kept as an artifact, and as a file if path says so.

    With action present it is shown on a paired phone or machine, or in the user's web console (node
    console), where a page can neither load nor send anything; snapshot, eval and hide are about what is
    shown there.

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
        action: draw; present commands or html on a node; snapshot: a picture of what it shows; eval: run script
            in it; hide it.
        node: The node's name; may be left out where only one has a canvas.
        script: JavaScript for eval; its value is returned.

    Raises:
        InvalidArguments: a shape lacks its size, or a colour is not known.
        Unavailable: no node with a canvas is connected.
    """
    if action in ("hide", "snapshot", "eval"):
        name = planned.private if planned is not None else (await nodes.find_node(node, "canvas")).name
        values = await nodes.call_node(name, action, {"script": script} if script else {}, timeout_s=30)
        return _node_result(action, name, values)
    if bool(html) == bool(commands):
        raise InvalidArguments(
            "send either commands or html" if html else "there is nothing to draw",
            hint="Send commands, a list of shapes, or html.",
        )
    if action == "present":
        name = planned.private if planned is not None else (await nodes.find_node(node, "canvas")).name
        if commands:
            sketch = Sketch(width=width, height=height, shapes=commands, background=background)
            html = f"<!doctype html><body style='margin:0'>{(await drawing.draw(sketch, 'svg')).decode()}"
        await nodes.call_node(name, action, {"html": html, "title": title}, timeout_s=30)
        return ToolResult.from_text(f"Shown on {name}.", data={"node": name, "action": action})
    if html:
        kind, data = "text/html", html.encode("utf-8", "replace")
    else:
        sketch = Sketch(width=width, height=height, shapes=commands or (), background=background)
        # A path that ends in .svg or .png says the format better than a default does.
        suffix = path.rpartition(".")[2].lower()
        form: Literal["png", "svg"] = format if suffix not in ("png", "svg") else suffix
        kind = "image/png" if form == "png" else "image/svg+xml"
        data = await drawing.draw(sketch, form)
    lines = [
        "Made a page of HTML."
        if html
        else f"Drew {len(commands or ())} shape{'' if len(commands or ()) == 1 else 's'}, {width} x {height}."
    ]
    if path:
        changes = await files.commit(await files.propose([Write(path=path, data=data)]))
        lines += [f"Saved {len(data):,} bytes to {path}.", *([changes.note] if changes.note else [])]
    content: list[Block] = [Text("\n".join(lines))]
    if kind == "image/png":
        content.append(Image(data=data, mime_type=kind, label=title or "canvas"))
    kept = NewArtifact(content=data if kind == "image/png" else data.decode(), title=title, content_type=kind)
    facts = {"width": width, "height": height, "mime_type": kind, "bytes": len(data), "path": path}
    return ToolResult(content=tuple(content), data=facts, artifacts=(kept,))


def _node_result(action: str, name: str, values: Mapping[str, Any]) -> ToolResult:
    data: dict[str, Any] = {"node": name, "action": action}
    if action == "snapshot":
        picture = picture_of(name, values, f"canvas of {name}")
        data |= {"mime_type": picture.mime_type, "bytes": len(picture.data)}
        return ToolResult(content=(Text(f"The canvas of {name}."), picture), data=data)
    if action == "hide":
        return ToolResult.from_text(f"{name} shows nothing any more.", data=data)
    data["value"] = values.get("value")
    shown = json.dumps(data["value"], ensure_ascii=False)
    return ToolResult.from_text(f"The script returned {shown}", data=data)
