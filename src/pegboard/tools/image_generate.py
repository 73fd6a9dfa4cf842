"""image_generate: make a picture from words, or change one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from pegboard.core.content import Image, Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments, Unsupported
from pegboard.core.result import ToolResult, notes_of_cost
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.documents import Documents
from pegboard.ports.files import Files, Write
from pegboard.ports.media import ImageFormat, ImageGenerator, ImageRequest, ImageSize

Prompt = Annotated[str, Field(min_length=1, max_length=32_000), Alias("description", "text")]

_FORMATS: Final[Mapping[str, ImageFormat]] = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "webp": "webp"}


async def effects_of_generating(given: Mapping[str, Any], context: Context) -> list[Effect]:
    """The provider's host, the pictures that are sent to it, and the file that is written."""
    files = context.port(Files)
    path = path_of(given["prompt"], given["size"], given.get("images") or (), given["path"])
    return [
        *(Effect("connect", host) for host in context.port(ImageGenerator).hosts()),
        *[Effect("read", (await files.resolve(p)).reachable()) for p in given.get("images") or ()],
        Effect("write", (await files.resolve(path, write=True)).reachable()),
    ]


async def plan_generate(call: ValidCall, context: Context) -> Plan:
    """See `effects_of_generating`."""
    return Plan(tuple(await effects_of_generating(call.arguments, context)))


@tool(
    plan=plan_generate,
    touches=("connect", "read", "write"),
    timeout_s=300.0,
    hints=("generate an image", "draw a picture of", "make an illustration", "edit a photo", "生成图片"),
    example={"prompt": "an otter asleep on its back, watercolour"},
)
async def image_generate(
    prompt: Prompt,
    size: ImageSize = "1024x1024",
    images: Annotated[
        list[str] | None, Field(max_length=16), Alias("sources", "image", "input_images")
    ] = None,
    path: Annotated[str, Alias("output", "file", "filename")] = "",
    *,
    generator: Inject[ImageGenerator],
    files: Inject[Files],
    documents: Inject[Documents],
) -> ToolResult:
    """Make a picture from a description, or change pictures of the workspace; it is saved as a file.

    For charts and diagrams of simple shapes use canvas.

    Args:
        prompt: What the picture shows, or what to change in images.
        size: Width x height in pixels.
        images: Paths of pictures to change or to combine.
        path: Where to save it, .png, .jpg or .webp; a name of its own by default.

    Raises:
        Unavailable: no provider has a key, or it cannot be reached.
        InvalidArguments: the provider refuses such a picture.
    """
    path = path_of(prompt, size, images or (), path)
    sources = [await picture_of(p, await files.read_bytes(p), documents) for p in images or ()]
    form = _FORMATS[path.rpartition(".")[2].lower()]
    made = await generator.generate(ImageRequest(prompt=prompt, size=size, format=form, sources=sources))
    shown = await picture_of(path, made.image.data, documents)
    changes = await files.commit(await files.propose([Write(path=path, data=made.image.data)]))
    lines = [f"Saved the picture as {path} ({len(made.image.data):,} bytes, {made.provider} {made.model})."]
    lines += filter(None, [made.note, changes.note])
    data = {
        "path": path, "bytes": len(made.image.data), "mime_type": made.image.mime_type, "provider": made.provider,
        "model": made.model, "note": made.note,
    }  # fmt: skip
    notes = notes_of_cost(made.cost_usd)
    return ToolResult(content=(Text("\n".join(lines)), shown), data=data, notes=notes)


def path_of(prompt: str, size: str, images: Sequence[str], path: str) -> str:
    """Where a picture is saved: the path that was named, or a name that the request makes.

    Raises:
        InvalidArguments: the path does not end as a picture's.
    """
    if not path:
        request = json.dumps([prompt, size, list(images)])
        return f"image-{hashlib.sha256(request.encode('utf-8', 'replace')).hexdigest()[:8]}.png"
    if path.rpartition(".")[2].lower() not in _FORMATS:
        raise InvalidArguments(
            f"path {path!r} does not name a picture", hint="End it with .png, .jpg or .webp."
        )
    return path


async def picture_of(name: str, data: bytes, documents: Documents) -> Image:
    """A picture as models take it: small enough, and no other file.

    Raises:
        Unsupported: the data is no picture.
    """
    image = (await documents.read("image", data)).image
    if image is None:
        raise Unsupported(f"{name} is not a picture")
    return image
