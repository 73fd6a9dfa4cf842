"""image_describe: ask the session's model about a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from pegboard.core.content import Image, Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments, Unavailable, Unsupported
from pegboard.core.result import ToolResult, notes_of_cost
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.net.urls import host_of
from pegboard.ports.documents import Documents
from pegboard.ports.files import Files
from pegboard.ports.session_model import SessionModel
from pegboard.ports.web import Web
from pegboard.tools.image_generate import picture_of


async def effects_of_describing(given: Mapping[str, Any], context: Context) -> list[Effect]:
    """The file that is read, or the host that the picture comes from."""
    image: str = given["image"]
    if _is_url(image):
        return [Effect("connect", host_of(image))]
    return [Effect("read", (await context.port(Files).resolve(image)).reachable())]


async def plan_describe(call: ValidCall, context: Context) -> Plan:
    """See `effects_of_describing`."""
    return Plan(tuple(await effects_of_describing(call.arguments, context)))


@tool(
    plan=plan_describe,
    touches=("connect", "read"),
    timeout_s=180.0,
    hints=(
        "describe an image",
        "what is in this picture",
        "read text in a screenshot",
        "analyse a photo",
        "识别图片",
    ),
    example={"image": "photo.jpg", "prompt": "What does the sign say?"},
)
async def image_describe(
    image: Annotated[str, Field(min_length=1), Alias("path", "url", "file", "image_path", "image_url")],
    prompt: Annotated[str, Alias("question")] = "",
    *,
    files: Inject[Files],
    documents: Inject[Documents],
    web: Inject[Web],
    model: Inject[SessionModel],
) -> ToolResult:
    """Describe a picture, or answer a question about it: the model of this session looks at it.

    To see a picture of the workspace yourself, use read_file.

    Args:
        image: Path of a picture in the workspace, or its http or https URL.
        prompt: What you want to know; a description by default.

    Raises:
        Unsupported: it is not a picture.
        Unavailable: there is no model here that can look at it.
    """
    found = await _looked_up(image, files, documents, web)
    question = prompt or "Describe this picture: what it shows, and the text in it word for word."
    try:
        answer = await model.answer(question, (found,))
    except Unavailable as error:
        raise Unavailable(
            f"nobody can look at {image} here: {error.message}",
            hint="Call it from an agent whose model takes pictures.",
            retryable=error.retryable,
        ) from None
    return ToolResult(
        content=(Text(answer.text),),
        data={"image": image, "prompt": prompt, "text": answer.text},
        notes=notes_of_cost(answer.cost_usd),
    )


async def _looked_up(image: str, files: Files, documents: Documents, web: Web) -> Image:
    if not _is_url(image):
        if "://" in image or image.startswith("data:"):
            raise InvalidArguments(f"{image[:60]!r} is not a path and not an http or https URL")
        return await picture_of(image, await files.read_bytes(image), documents)
    page = await web.fetch(image)
    if page.image is None:
        raise Unsupported(f"{image} is not a picture, but {page.mime_type or 'of no type'}")
    return page.image


def _is_url(image: str) -> bool:
    return image.lower().startswith(("http://", "https://"))
