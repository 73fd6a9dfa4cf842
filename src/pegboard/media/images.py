"""Images: pictures by providers, each in its own words."""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from pegboard.core.content import Image
from pegboard.core.errors import InvalidArguments, ToolError, Unavailable
from pegboard.media.drawing import pillow
from pegboard.net.client import HttpClient, HttpReply
from pegboard.ports.media import GeneratedImage, ImageFormat, ImageRequest

_MAX_BYTES: Final = 50 << 20
_NEAREST: Final = {"1792x1024": "1536x1024", "1024x1792": "1024x1536"}
"""The sizes of the GPT image models for those of DALL-E 3."""
_RATIOS: Final = {"1024x1024": "1:1", "1792x1024": "16:9", "1024x1792": "9:16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaService:
    """Where a provider is, and with what it is asked.

    Attributes:
        name: as the settings name it.
        url: the base address, without the path of a request.
        model: the provider's name of it.
        client: may reach `url`.
        key: the key, read at each request; empty = there is none.
        cost: dollars of what a provider counted, by names of genai-prices (`input_tokens`, `output_image_tokens`, …),
            or of one picture or so many `input_characters`; None where no price is known.
    """

    name: str
    url: str
    model: str
    client: HttpClient
    key: Callable[[], str]
    cost: Callable[[Mapping[str, int]], float | None] = field(default=lambda counted: None)

    @property
    def host(self) -> str:
        """`host` or `host:port`, as an effect names it."""
        return urlsplit(self.url).netloc.rpartition("@")[2].lower()

    async def post(self, path: str, headers: Mapping[str, str], **body: Any) -> HttpReply:
        """The answer to a request.

        Raises:
            Unavailable, InvalidArguments: the provider refused; the message has its words.
        """
        sent = {name: value for name, value in headers.items() if self.key()}
        sent |= body.pop("more_headers", {})
        url = f"{self.url.rstrip('/')}/{path}"
        reply = await self.client.request("POST", url, headers=sent, max_bytes=_MAX_BYTES, **body)
        if reply.status >= 400:
            raise refusal(self.name, reply)
        return reply


def refusal(name: str, reply: HttpReply) -> ToolError:
    """What a provider's error status means, with its own words."""
    said = " ".join(reply.body[:4000].decode("utf-8", "replace").split())
    with contextlib.suppress(ValueError, KeyError, TypeError):  # In another form: the text itself.
        said = str(json.loads(reply.body)["error"]["message"])
    said = said[:300]
    match reply.status:
        case 401 | 403:
            hint = "Check the key in the settings."
            return Unavailable(f"{name} refused the key ({reply.status}): {said}", hint=hint)
        case 429:
            return Unavailable(f"{name} limits its requests (429): {said}", retryable=True)
        case 400 | 413 | 422:
            hint = "Change what the message names."
            return InvalidArguments(f"{name} refused the request ({reply.status}): {said}", hint=hint)
        case status:
            return Unavailable(f"{name} answered {status}: {said}", retryable=status >= 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaintedImage:
    """What a provider sent.

    Attributes:
        data: the file, in any format.
        note: what of the request was not possible.
        counted: what it counted, by the names of `MediaService.cost`.
    """

    data: bytes
    note: str = ""
    counted: Mapping[str, int] = field(default_factory=dict[str, int])


class ImageProvider(Protocol):
    """One provider of pictures."""

    async def generate(self, service: MediaService, request: ImageRequest) -> PaintedImage:
        """Ask for a picture.

        Raises:
            Unavailable, InvalidArguments: see ImageGenerator.
        """
        ...


class OpenAIImages:
    """`/images/generations` and `/images/edits`, as OpenAI and many others have them."""

    async def generate(self, service: MediaService, request: ImageRequest) -> PaintedImage:
        """See ImageProvider."""
        size, note = str(request.size), ""
        fields = {"model": service.model, "prompt": request.prompt, "n": 1}
        if service.model.startswith("gpt-image"):
            size = _NEAREST.get(size, size)
            note = "" if size == request.size else f"{service.model} makes {size} in place of {request.size}."
        else:
            # The GPT image models send nothing else and refuse the field; others send an address without it.
            fields["response_format"] = "b64_json"
        fields["size"] = size
        headers = {"authorization": f"Bearer {service.key()}"}
        if request.sources:
            content, content_type = _form(fields, request.sources)
            more = {"content-type": content_type}
            reply = await service.post("images/edits", headers, content=content, more_headers=more)
        else:
            reply = await service.post("images/generations", headers, json=fields)
        answer = _json(service.name, reply)
        rows = answer.get("data")
        row = cast("dict[str, Any]", rows[0]) if isinstance(rows, list) and rows else {}
        counted = _counts(
            input_tokens=_at(answer, "usage", "input_tokens"),
            input_image_tokens=_at(answer, "usage", "input_tokens_details", "image_tokens"),
            output_tokens=_at(answer, "usage", "output_tokens"),
        )
        if row.get("b64_json"):
            return PaintedImage(data=_decoded(service.name, row["b64_json"]), note=note, counted=counted)
        if not row.get("url"):
            raise Unavailable(f"{service.name} answered without a picture")
        found = await service.client.request("GET", str(row["url"]), max_bytes=_MAX_BYTES)
        if found.status >= 400:
            raise Unavailable(f"the picture of {service.name} cannot be fetched: status {found.status}")
        return PaintedImage(data=found.body, note=note, counted=counted)


class GeminiImages:
    """`generateContent` of the Gemini API with a model that answers with pictures."""

    async def generate(self, service: MediaService, request: ImageRequest) -> PaintedImage:
        """See ImageProvider."""
        parts: list[dict[str, Any]] = [{"text": request.prompt}]
        for one in request.sources:
            data = base64.b64encode(one.data).decode("ascii")
            parts.append({"inlineData": {"mimeType": one.mime_type, "data": data}})
        config = {
            "responseModalities": ["TEXT", "IMAGE"],
            "imageConfig": {"aspectRatio": _RATIOS[request.size]},
        }
        body = {"contents": [{"role": "user", "parts": parts}], "generationConfig": config}
        path = f"models/{service.model}:generateContent"
        reply = await service.post(path, {"x-goog-api-key": service.key()}, json=body)
        answer = _json(service.name, reply)
        words: list[str] = [str(_at(answer, "promptFeedback", "blockReason") or "")]
        for candidate in cast("list[Any]", answer.get("candidates") or []):
            words.append(str(_at(candidate, "finishMessage") or _at(candidate, "finishReason") or ""))
            for part in cast("list[Any]", _at(candidate, "content", "parts") or []):
                if data := _at(part, "inlineData", "data"):
                    return PaintedImage(
                        data=_decoded(service.name, data),
                        note=_ratio_note(service, request),
                        counted=_counts_of_gemini(_at(answer, "usageMetadata")),
                    )
                words.append(str(_at(part, "text") or ""))
        why = " ".join(filter(None, words))[:300]
        raise InvalidArguments(
            f"{service.name} made no picture: {why or 'it does not say why'}",
            hint="Word the prompt otherwise.",
        )


def _ratio_note(service: MediaService, request: ImageRequest) -> str:
    if request.size == "1024x1024":
        return ""
    return f"{service.model} makes the shape {_RATIOS[request.size]} in place of {request.size}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The ImageGenerator port.

    Attributes:
        choose: the provider to ask now, since keys may change while this runs; raises Unavailable if there is none.
    """

    choose: Callable[[], tuple[ImageProvider, MediaService]]

    def hosts(self) -> Sequence[str]:
        """See ImageGenerator."""
        return [self.choose()[1].host]

    async def generate(self, request: ImageRequest) -> GeneratedImage:
        """See ImageGenerator."""
        provider, service = self.choose()
        made = await provider.generate(service, request)
        return GeneratedImage(
            provider=service.name, model=service.model, image=_in_format(service.name, made.data, request.format),
            note=made.note, cost_usd=service.cost(made.counted),
        )  # fmt: skip


def _in_format(name: str, data: bytes, wanted: ImageFormat) -> Image:
    """The picture as a file of a format.

    Raises:
        Unavailable: it is no picture.
    """
    try:
        picture = pillow("Image").open(io.BytesIO(data))
        if picture.width * picture.height > 100_000_000:
            raise Unavailable(f"{name} sent a picture of {picture.width} x {picture.height} pixels")
        if str(picture.format).lower() != wanted:
            out = io.BytesIO()
            (picture.convert("RGB") if wanted == "jpeg" else picture).save(out, wanted.upper())
            data = out.getvalue()
    except (OSError, ValueError, SyntaxError) as error:
        raise Unavailable(f"{name} sent something that is not a picture ({type(error).__name__})") from None
    return Image(data=data, mime_type=f"image/{wanted}")


def _form(fields: Mapping[str, Any], sources: Sequence[Image]) -> tuple[bytes, str]:
    """A body of type multipart/form-data, and that type with its boundary."""
    import httpx2

    files = [
        ("image[]", (f"image{i}.{s.mime_type.partition('/')[2]}", s.data, s.mime_type))
        for i, s in enumerate(sources)
    ]
    if len(files) == 1:
        files = [("image", files[0][1])]
    texts = {key: str(value) for key, value in fields.items()}
    request = httpx2.Request("POST", "http://form", data=texts, files=files)
    return request.read(), request.headers["content-type"]


def _json(name: str, reply: HttpReply) -> dict[str, Any]:
    try:
        found: Any = json.loads(reply.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable(f"{name} answered with something that is not a JSON object")
    return cast("dict[str, Any]", found)


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def _counts(**given: Any) -> dict[str, int]:
    return {name: n for name, n in given.items() if isinstance(n, int) and n > 0}


def _counts_of_gemini(usage: Any) -> dict[str, int]:
    """`usageMetadata`; what thinking took is counted apart there, and is paid as an answer."""
    made: list[Any] = [
        _at(one, "tokenCount")
        for one in cast("list[Any]", _at(usage, "candidatesTokensDetails") or [])
        if _at(one, "modality") == "IMAGE"
    ]
    out = [_at(usage, "candidatesTokenCount"), _at(usage, "thoughtsTokenCount")]
    return _counts(
        input_tokens=_at(usage, "promptTokenCount"),
        output_tokens=sum(n for n in out if isinstance(n, int)),
        output_image_tokens=sum(n for n in made if isinstance(n, int)),
    )


def _decoded(name: str, data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Unavailable(f"{name} sent a picture whose base64 is broken") from None
