"""image, image_generate and image_describe against loopback servers that answer as the providers document it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from email import message_from_bytes
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from PIL import Image as Pillow

from pegboard import Agent, Executor, builtin
from pegboard.app.media import image_generator
from pegboard.app.pricing import price_of_media
from pegboard.compat.moltbot import create_image_tool
from pegboard.config.media import MediaProvider, MediaUse
from pegboard.core.content import Block, Image
from pegboard.core.errors import ConfigError, InvalidArguments, ToolError, Unavailable
from pegboard.core.events import CallFinished
from pegboard.core.policy.budgets import Budget, Meter
from pegboard.documents.child import DocumentReader
from pegboard.media.images import Images
from pegboard.models import ScriptedModel
from pegboard.net.client import HttpClient
from pegboard.ports.media import GeneratedImage, ImageRequest
from pegboard.ports.session_model import ModelAnswer
from pegboard.services.usage import UsageReport
from pegboard.web.fetch import WebReader
from tests.ledger import owes
from tests.web.site import Site, site


def picture(colour: str = "red", form: str = "PNG", size: tuple[int, int] = (4, 3)) -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", size, colour).save(out, form)
    return out.getvalue()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as one:
        yield one


def generator(here: Site, name: str = "openai", **own: Any) -> Images:
    given: dict[str, Any] = {"key": "k1", "url": here.url("/v1"), **own}
    provider = MediaProvider(**given)
    return image_generator(MediaUse(provider=name, providers={name: provider}), HttpClient())


class Painter:
    """A generator that keeps what it was asked, and paints red."""

    def __init__(self) -> None:
        self.asked: list[ImageRequest] = []

    def hosts(self) -> list[str]:
        return ["paint.example"]

    async def generate(self, request: ImageRequest) -> GeneratedImage:
        self.asked.append(request)
        image = Image(data=picture(), mime_type="image/png")
        return GeneratedImage(provider="painter", model="p1", image=image)


# Tokens as the providers' references show them; dollars by their price lists, worked out by hand: gpt-image-1 costs
# $5, $10 and $40 a million text, picture and output tokens; gemini-2.5-flash-image $0.30, $2.50 and $30.
OPENAI_USAGE = {
    "total_tokens": 100,
    "input_tokens": 50,
    "output_tokens": 50,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
}
GEMINI_USAGE = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 1300,
    "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1290}],
}


@pytest.mark.parametrize(
    ("name", "path", "answer", "dollars"),
    [
        ("openai", "/v1/images/generations", {"data": [{"b64_json": b64(picture())}], "usage": OPENAI_USAGE}, 0.00245),
        (
            "gemini", "/v1/models/gemini-2.5-flash-image:generateContent",
            {
                "candidates": [{"content": {"parts": [{"inlineData": {"data": b64(picture())}}]}}],
                "usageMetadata": GEMINI_USAGE,
            },
            0.038728,
        ),
    ],
)  # fmt: skip
async def test_a_picture_costs_what_the_provider_counted_at_its_prices(
    here: Site, name: str, path: str, answer: dict[str, Any], dollars: float
) -> None:
    here.answer(path, json.dumps(answer))
    asked = generator(here, name)
    provider, service = asked.choose()
    # The provider's own server has the prices of the tables; this one stands in its place.
    own = partial(price_of_media, name, service.model)
    counted = (await provider.generate(service, ImageRequest(prompt="an otter"))).counted

    assert own(counted) == pytest.approx(dollars)
    assert (await asked.generate(ImageRequest(prompt="an otter"))).cost_usd is None


async def test_a_picture_by_a_server_of_ones_own_costs_what_the_settings_say_and_budgets_count_it(
    here: Site, tmp_path: Path
) -> None:
    here.answer("/v1/images/generations", json.dumps({"data": [{"b64_json": b64(picture())}]}))
    priced = generator(here, price=0.04)
    policy = [f"allow connect:{here.place}"]
    async with Executor(
        builtin("image_generate"), workspace=tmp_path, mode="workspace", policy=policy, provide=[priced]
    ) as executor:
        meter = Meter([Budget(name="art", tool="image_*", money=0.07, soft=1)])
        parts = executor.pipeline.parts
        parts.guards = replace(parts.guards, meter=meter)
        results = [await executor.call("image_generate", {"prompt": f"otter {n}"}) for n in range(3)]

    assert [r.ok for r in results] == [True, True, False]
    assert results[0].notes.extra["cost_usd"] == pytest.approx(0.04)
    assert results[2].error is not None and "$0.0800 of $0.0700" in results[2].error.message


async def test_what_is_said_about_a_picture_is_paid_by_the_call(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    call = {"name": "image_describe", "arguments": {"path": "a.png"}}
    model = ScriptedModel(
        [{"calls": [call]}, {"text": "It is red.", "usage": {"cost_usd": 0.25}}, {"text": "Red."}]
    )
    agent = Agent(model=model, tools=builtin("image_describe"), workspace=tmp_path, store="memory")
    report = UsageReport()

    done = await agent.run("What is in a.png?", session="s")
    report.add(agent.session("s"), day="today", session="s")

    assert done.answer == "Red."
    assert report.tools["image_describe"].cost_usd == pytest.approx(0.25)
    assert report.sessions["s"].cost_usd == pytest.approx(0.25)


@owes("M-41")
async def test_openai_is_asked_for_a_picture_of_a_size_it_makes(here: Site) -> None:
    here.answer("/v1/images/generations", json.dumps({"created": 1, "data": [{"b64_json": b64(picture())}]}))

    made = await generator(here).generate(ImageRequest(prompt="an otter", size="1792x1024"))

    sent = json.loads(here.asked[0].body)
    assert sent == {"model": "gpt-image-1", "prompt": "an otter", "n": 1, "size": "1536x1024"}
    assert here.asked[0].headers["authorization"] == "Bearer k1"
    assert made.image.data == picture()
    assert made.note == "gpt-image-1 makes 1536x1024 in place of 1792x1024."


async def test_another_server_with_openais_paths_needs_no_key_and_may_answer_with_an_address(
    here: Site,
) -> None:
    where = here.answer("/files/1.jpg", picture(form="JPEG"), "image/jpeg")
    here.answer("/v1/images/generations", json.dumps({"data": [{"url": where}]}))

    made = await generator(here, "mine", key="", model="sdxl").generate(ImageRequest(prompt="an otter"))

    sent = json.loads(here.asked[0].body)
    assert (sent["model"], sent["size"], sent["response_format"]) == ("sdxl", "1024x1024", "b64_json")
    assert "authorization" not in here.asked[0].headers
    assert Pillow.open(io.BytesIO(made.image.data)).format == "PNG"


async def test_a_change_sends_the_pictures_as_a_form(here: Site) -> None:
    here.answer("/v1/images/edits", json.dumps({"data": [{"b64_json": b64(picture())}]}))
    sources = [Image(data=picture(c), mime_type="image/png") for c in ("blue", "green")]

    await generator(here).generate(ImageRequest(prompt="add a hat", sources=sources))

    asked = here.asked[0]
    head = f"content-type: {asked.headers['content-type']}\r\n\r\n".encode()
    parts = cast("list[Message]", message_from_bytes(head + asked.body).get_payload())
    named = [(p.get_param("name", header="content-disposition"), p.get_payload(decode=True)) for p in parts]
    assert ("prompt", b"add a hat") in named
    assert [data for name, data in named if name == "image[]"] == [picture("blue"), picture("green")]


@owes("M-41")
async def test_gemini_is_asked_for_the_shape_and_sent_the_pictures(here: Site) -> None:
    inline = {"inlineData": {"mimeType": "image/png", "data": b64(picture())}}
    answer = {"candidates": [{"content": {"parts": [{"text": "Here."}, inline]}, "finishReason": "STOP"}]}
    here.answer("/v1/models/gemini-2.5-flash-image:generateContent", json.dumps(answer))
    source = Image(data=picture("blue"), mime_type="image/png")

    made = await generator(here, "gemini").generate(
        ImageRequest(prompt="a hat", size="1024x1792", sources=[source])
    )

    sent = json.loads(here.asked[0].body)
    assert sent["generationConfig"]["imageConfig"] == {"aspectRatio": "9:16"}
    assert sent["contents"][0]["parts"][1]["inlineData"]["data"] == b64(picture("blue"))
    assert here.asked[0].headers["x-goog-api-key"] == "k1"
    assert made.image.data == picture()


@pytest.mark.parametrize(
    ("status", "body", "kind", "problem"),
    [
        ("401 No", '{"error": {"message": "bad key"}}', Unavailable, "openai refused the key (401): bad key"),
        ("400 No", '{"error": {"message": "not safe"}}', InvalidArguments, "refused the request (400): not safe"),
        ("429 No", "slow down", Unavailable, "limits its requests (429): slow down"),
        ("503 No", "", Unavailable, "answered 503"),
        ("200 OK", '{"data": []}', Unavailable, "without a picture"),
        ("200 OK", "<html>", Unavailable, "not a JSON object"),
        ("200 OK", '{"data": [{"b64_json": "%%"}]}', Unavailable, "base64 is broken"),
        ("200 OK", '{"data": [{"b64_json": "aGVsbG8="}]}', Unavailable, "not a picture"),
    ],
)  # fmt: skip
async def test_what_is_no_picture_is_an_error_that_says_why(
    here: Site, status: str, body: str, kind: type[ToolError], problem: str
) -> None:
    here.answer("/v1/images/generations", body, "application/json", status)

    with pytest.raises(kind) as caught:
        await generator(here).generate(ImageRequest(prompt="x"))

    assert problem in caught.value.message


async def test_a_picture_that_gemini_will_not_make_says_why(here: Site) -> None:
    answer = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    here.answer("/v1/models/gemini-2.5-flash-image:generateContent", json.dumps(answer))

    with pytest.raises(InvalidArguments, match="made no picture: PROHIBITED_CONTENT"):
        await generator(here, "gemini").generate(ImageRequest(prompt="x"))


def test_without_a_key_the_answer_names_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(Unavailable, match="OPENAI_API_KEY or GEMINI_API_KEY not configured"):
        image_generator(MediaUse(), HttpClient()).hosts()


def test_a_provider_that_is_not_known_needs_an_address() -> None:
    with pytest.raises(ConfigError, match=r"media\.image names 'midjorney'"):
        image_generator(MediaUse(provider="midjorney"), HttpClient())


async def test_a_generated_picture_is_a_file_and_shown(tmp_path: Path) -> None:
    kit, painter = builtin("image_generate"), Painter()
    (tmp_path / "a.png").write_bytes(picture("blue"))
    async with Executor(kit, provide=[painter], workspace=tmp_path, mode="full") as executor:
        call: dict[str, Any] = {"prompt": "a hat", "images": ["a.png"], "path": "out/hat.png"}
        effects = (await executor.preview("image_generate", call)).effects
        result = await executor.call("image_generate", call)

    assert [str(e) for e in effects] == ["connect paint.example", "read a.png", "write out/hat.png"]
    assert (tmp_path / "out/hat.png").read_bytes() == picture()
    assert Pillow.open(io.BytesIO(painter.asked[0].sources[0].data)).getpixel((0, 0)) == (0, 0, 255)
    assert [type(b) for b in result.content][1] is Image


async def test_a_picture_without_a_path_gets_a_name_and_a_path_of_another_kind_is_refused(
    tmp_path: Path,
) -> None:
    async with Executor(
        builtin("image_generate"), provide=[Painter()], workspace=tmp_path, mode="full"
    ) as ex:
        made = await ex.call("image_generate", {"prompt": "x"})
        refused = await ex.call("image_generate", {"prompt": "x", "path": "x.gif"})

    assert (tmp_path / made.data["path"]).read_bytes() == picture()
    assert not refused.ok
    assert "x.gif" in str(refused)


async def test_a_rule_keeps_prompts_from_a_provider(tmp_path: Path) -> None:
    painter = Painter()
    async with Executor(
        builtin("image_generate"), provide=[painter], workspace=tmp_path, mode="full",
        policy=["deny connect:paint.example"],
    ) as executor:  # fmt: skip
        result = await executor.call("image_generate", {"prompt": "x"})

    assert not result.ok
    assert painter.asked == []


class Eyes:
    """A session's model that keeps what it was asked, and sees red."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[Block]]] = []

    async def answer(self, prompt: str, content: Sequence[Block] = ()) -> ModelAnswer:
        self.asked.append((prompt, content))
        return ModelAnswer(text="A red field.")


@owes("X-47")
async def test_image_with_a_picture_asks_the_model_and_without_one_makes_it(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture("blue"))
    eyes, painter = Eyes(), Painter()
    async with Executor(
        builtin("image"), provide=[painter, eyes], workspace=tmp_path, mode="full"
    ) as executor:
        seen = await executor.call("image", {"image": "a.png", "prompt": "What colour?"})
        assert painter.asked == []
        made = await executor.call("image", {"prompt": "an otter", "size": "1024x1792"})
        neither = await executor.call("image", {})

    [(prompt, [shown])] = eyes.asked
    assert prompt == "What colour?"
    assert isinstance(shown, Image)
    assert Pillow.open(io.BytesIO(shown.data)).getpixel((0, 0)) == (0, 0, 255)
    assert seen.text == "A red field."
    assert [(r.prompt, r.size) for r in painter.asked] == [("an otter", "1024x1792")]
    assert (tmp_path / made.data["path"]).read_bytes() == picture()
    assert not neither.ok


@owes("X-47")
async def test_the_model_of_an_agent_looks_at_the_picture(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture("blue"))
    call = {"name": "image_describe", "arguments": {"image": "a.png"}}
    model = ScriptedModel([{"calls": [call]}, {"text": "Blue."}, {"text": "done"}])
    agent = Agent(tools=[builtin("image_describe")], model=model, workspace=tmp_path, mode="full")
    result = await agent.run("go")

    assert [e.result.text for e in result.events if isinstance(e, CallFinished)] == ["Blue."]
    assert result.answer == "done"


@owes("X-47")
async def test_what_is_said_about_a_picture_of_the_web_is_untrusted(here: Site, tmp_path: Path) -> None:
    url = here.answer("/a.png", picture(), "image/png")
    page = here.answer("/a.txt", "words", "text/plain")
    web = WebReader(HttpClient(allow=(here.place,)), DocumentReader())
    async with Executor(
        builtin("image_describe"), provide=[web, Eyes()], workspace=tmp_path, mode="full"
    ) as executor:
        effects = (await executor.preview("image_describe", {"image": url})).effects
        answer = await executor.call("image_describe", {"image": url})
        text = await executor.call("image_describe", {"image": page})

    assert [str(e) for e in effects] == [f"connect {here.place}"]
    assert answer.data["text"] == "A red field."
    assert "untrusted" in answer.notes.labels
    assert "is not a picture, but text/plain" in str(text)


async def test_what_cannot_be_looked_at_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    (tmp_path / "b.png").write_text("no picture")
    async with Executor(builtin("image_describe"), workspace=tmp_path, mode="full") as executor:
        alone = await executor.call("image_describe", {"image": "a.png"})
        text = await executor.call("image_describe", {"image": "b.png"})
        other = await executor.call("image_describe", {"image": "data:image/png;base64,AAAA"})

    assert "nobody can look at a.png here" in str(alone)
    assert "picture" in str(text)
    assert not text.ok
    assert not other.ok


@owes("M-41")
def test_moltbots_image_takes_the_documents_parameters() -> None:
    tool = create_image_tool()

    assert tool is not None
    assert tool.name == "image"
    assert tool.schema["properties"]["size"]["enum"] == ["1024x1024", "1792x1024", "1024x1792"]
