"""image: make a picture, or look at one."""

from __future__ import annotations

from typing import Annotated

from pegboard.core.context import Context
from pegboard.core.effects import Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.documents import Documents
from pegboard.ports.files import Files
from pegboard.ports.media import ImageGenerator, ImageSize
from pegboard.ports.session_model import SessionModel
from pegboard.ports.web import Web
from pegboard.tools.image_describe import effects_of_describing, image_describe
from pegboard.tools.image_generate import effects_of_generating, image_generate


async def plan_image(call: ValidCall, context: Context) -> Plan:
    """The effects of the tool that the call is handed on to."""
    effects = effects_of_describing if call.arguments["image"] else effects_of_generating
    return Plan(tuple(await effects(call.arguments, context)))


@tool(
    plan=plan_image,
    touches=("connect", "read", "write"),
    timeout_s=300.0,
    hints=("generate or describe an image", "图片"),
    example={"prompt": "a lighthouse in fog"},
)
async def image(
    prompt: Annotated[str, Alias("description", "question")] = "",
    image: Annotated[str, Alias("image_path", "image_url", "url")] = "",
    size: ImageSize = "1024x1024",
    path: Annotated[str, Alias("output", "file", "filename")] = "",
    *,
    generator: Inject[ImageGenerator],
    files: Inject[Files],
    documents: Inject[Documents],
    web: Inject[Web],
    model: Inject[SessionModel],
) -> ToolResult:
    """Make a picture from a prompt; or, where image names a picture, describe it or answer the prompt about it.

    Args:
        prompt: What the new picture shows, or the question about image.
        image: Path or URL of a picture to look at; leave it out to make a new one.
        size: Width x height of a new picture in pixels.
        path: Where to save a new picture, .png, .jpg or .webp; a name of its own by default.
    """
    if image:
        return await image_describe(
            image, prompt=prompt, files=files, documents=documents, web=web, model=model
        )
    if not prompt:
        raise InvalidArguments("neither prompt nor image is there", hint="Send prompt to make a picture.")
    return await image_generate(
        prompt, size=size, path=path, generator=generator, files=files, documents=documents
    )
