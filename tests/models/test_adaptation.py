"""What a model or server refuses costs one request: left out of what is sent, kept in the session, said in a note."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from pegboard import Agent, tool
from pegboard.core.content import Audio, File, Image, ToolCall
from pegboard.core.effects import PURE
from pegboard.core.events import ModelReplied, Notice
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.dialects import dialect
from pegboard.runtime.fold import fold
from tests.models.test_contract import PROVIDERS, Spoken, every, model_at
from tests.models.test_openai import chunk
from tests.models.test_providers import a_block, a_end, a_reply, a_start, a_text, r_last, r_reply, r_response
from tests.models.wire import Reply, answer, failed, serving

CHAT, RESPONSES, ANTHROPIC, GEMINI = PROVIDERS
PICTURE = Image(data=b"\x89PNG-picture", mime_type="image/png")
SOUND = Audio(data=b"RIFF-sound--", mime_type="audio/wav")
PAPER = File(name="a.pdf", mime_type="application/pdf", data=b"%PDF-1.4 paper")


@tool(effects=PURE)
async def look() -> ToolResult:
    """Look."""
    return ToolResult(content=(PICTURE,))


@tool(effects=PURE)
async def hear() -> ToolResult:
    """Listen."""
    return ToolResult(content=(SOUND,))


@tool(effects=PURE)
async def read() -> ToolResult:
    """Read."""
    return ToolResult(content=(PAPER,))


@tool(effects=PURE)
async def name(city: str, pattern: str = "") -> str:
    """Say a name."""
    return f"{city}!"


def notes(answered: Any) -> list[str]:
    return [e.text for e in answered.events if isinstance(e, Notice)]


async def runs(provider: Spoken, *replies: Reply, tasks: Sequence[str] = ("go",), tools: Any = (look, hear, read, name)):  # fmt: skip
    """These tasks in one session against these answers; the runs, the requests' texts and what was slept."""
    async with serving(*replies) as server:
        model, slept = model_at(provider, server)
        agent = Agent(tools=list(tools), model=model)
        done = [await agent.run(task, session="s") for task in tasks]
        history = fold(agent.session("s")).messages
    assert slept == []
    return done, [json.dumps(asked.body, ensure_ascii=False) for asked in server.asked], history


PICTURES_REFUSED = [
    (404, "No endpoints found that support image input"),
    (400, "this model does not support image input"),
    (400, "messages[2]: unknown variant `image_url`, expected `text` at line 1"),
    (422, "messages.2.content: Input should be a valid string, not a list with an image"),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (400, "Invalid content type. image_url is only supported by certain models."),
    (400, "该模型不支持图片输入"),
]


@every
@pytest.mark.parametrize(("status", "words"), PICTURES_REFUSED, ids=lambda v: str(v)[:30])
async def test_a_model_without_pictures_costs_one_request_and_the_session_goes_on(
    provider: Spoken, status: int, words: str
) -> None:
    (first, second), asked, history = await runs(
        provider,
        provider.calls([("c1", "look", "{}")]),
        failed(status, provider.error_body(words)),
        provider.text("seen"),
        provider.calls([("c2", "look", "{}")]),
        provider.text("again"),
        tasks=("go", "more"),
    )

    assert [(r.status, r.answer) for r in (first, second)] == [("done", "seen"), ("done", "again")]
    assert len(asked) == 5
    assert ["takes no pictures" in note for note in notes(first)] == [True]
    assert notes(second) == []
    assert [text.count("[picture left out: the model takes none]") for text in asked] == [0, 0, 1, 1, 2]
    held = [b for m in history if isinstance(m, ResultsMessage) for r in m.results for b in r.content]
    assert held == [PICTURE, PICTURE]


@pytest.mark.parametrize(
    ("called", "words", "instead"),
    [
        ("hear", "Invalid content type: input_audio is not supported by this model", "[sound, audio/wav, 12 bytes: not sent]"),
        ("read", "file inputs are not supported by this model", "[file a.pdf, application/pdf, 14 bytes: not sent]"),
    ],
)  # fmt: skip
async def test_sound_and_files_are_left_out_alike(called: str, words: str, instead: str) -> None:
    (done,), asked, _ = await runs(
        CHAT,
        CHAT.calls([("c1", called, "{}")]),
        failed(400, CHAT.error_body(words)),
        CHAT.text("well"),
    )

    assert (done.status, done.answer, len(asked)) == ("done", "well", 3)
    assert instead in asked[2]
    assert "not supported" not in asked[2]


async def test_one_picture_that_is_refused_for_its_size_does_not_cost_the_next_one() -> None:
    (done,), asked, _ = await runs(
        ANTHROPIC,
        ANTHROPIC.calls([("c1", "look", "{}")]),
        failed(400, ANTHROPIC.error_body("messages.2.content.0.image.source.base64: image exceeds 5 MB maximum")),
        ANTHROPIC.text("well"),
    )  # fmt: skip

    assert (done.status, len(asked)) == ("done", 3)
    assert "the model did not take it" in asked[2]


async def test_an_error_that_names_nothing_of_the_request_is_told_as_before() -> None:
    (done,), asked, _ = await runs(
        CHAT,
        failed(400, CHAT.error_body("this model does not support image input")),
    )

    assert (done.status, len(asked)) == ("failed", 1)


@every
async def test_a_schema_keyword_is_left_out_after_its_refusal_and_still_checked(provider: Spoken) -> None:
    from typing import Annotated

    from pydantic import Field

    @tool(effects=PURE)
    async def find(word: Annotated[str, Field(pattern="[a-z]+$", max_length=9)]) -> str:
        """Find."""
        return f"found {word}"

    (done,), asked, _ = await runs(
        provider,
        failed(400, provider.error_body("Pattern must start with '^' and end with '$'")),
        provider.calls([("c1", "find", '{"word": "UP"}'), ("c2", "find", '{"word": "up"}')]),
        provider.text("well"),
        tools=[find],
    )

    assert (done.status, len(asked)) == ("done", 3)
    assert ['"pattern"' in text for text in asked[:2]] == [True, False]
    # Google's SDK spells it its own way.
    assert '"maxLength"' in asked[1] or '"max_length"' in asked[1]
    assert "found up" in asked[2]
    assert "found UP" not in asked[2]


async def test_schemas_that_stay_refused_are_sent_plain_then_free_and_the_end_is_the_servers_word() -> None:
    refused = failed(400, CHAT.error_body("Invalid schema for function 'name': it is not valid"))
    (done,), asked, _ = await runs(CHAT, *[refused] * 5, CHAT.text("well"))

    assert (done.status, len(asked)) == ("failed", 3)
    assert "Invalid schema" in done.error
    sent = {t["function"]["name"]: t["function"]["parameters"] for t in json.loads(asked[2])["tools"]}
    assert sent["name"] == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ("Tool call id was call_7 but must be a-z, A-Z, 0-9, with a length of 9.", 9),
        ("Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 30", 30),
    ],
)  # fmt: skip
async def test_ids_are_fitted_to_what_a_server_asks_for(words: str, length: int) -> None:
    (done,), asked, _ = await runs(
        CHAT,
        CHAT.calls([("call_7", "name", '{"city": "a"}'), ("call_8", "name", '{"city": "b"}')]),
        failed(400, CHAT.error_body(words)),
        CHAT.text("well"),
    )

    messages = json.loads(asked[2])["messages"]
    ids = [c["id"] for m in messages for c in m.get("tool_calls", ())]
    assert done.status == "done"
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ids
    assert len(set(ids)) == 2
    assert all(len(i) == length and i.isalnum() for i in ids)


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_ids_of_one_provider_are_valid_at_the_next_and_stay_distinct(form: str) -> None:
    long = ["x" * 94, "x" * 93 + "y", "functions.add:0", "a b/ü"]
    calls = AssistantMessage(content=tuple(ToolCall(i, "add", "{}") for i in long))
    results = ResultsMessage(tuple(ToolResult(call_id=i, tool="add") for i in long))

    def ids(sent: Any) -> list[str]:
        return re.findall(r'"(?:id|call_id|tool_call_id|tool_use_id)": "([^"]*)"', json.dumps(sent))

    encode = dialect(form).encode
    sent = ids(encode(calls))
    assert sent == ids(encode(results))
    assert len(set(sent)) == 4
    most = 40 if form == "openai-chat" else 64
    assert all(len(i) <= most and i.replace("-", "").replace("_", "").isalnum() and i.isascii() for i in sent)


# -- what a provider attached goes back to it ---------------------------------------------------


@pytest.mark.parametrize("pieces", [["hm ", "so"], [""]], ids=["some", "empty"])
async def test_reasoning_goes_back_to_the_server_that_sent_it_and_to_no_other(pieces: list[str]) -> None:
    call: dict[str, Any] = {
        "index": 0,
        "id": "c1",
        "function": {"name": "name", "arguments": '{"city": "a"}'},
    }
    call["extra_content"] = {"google": {"thought_signature": "sig"}}
    calling = answer(
        *(chunk({"reasoning_content": p}) for p in pieces), chunk({"tool_calls": [call]}), chunk({}, "tool_calls")
    )  # fmt: skip
    async with serving(calling, CHAT.text("well")) as server, serving(CHAT.text("else")) as other:
        agent = Agent(tools=[name], model=model_at(CHAT, server)[0])
        first = await agent.run("go", session="s")
        talk = model_at(CHAT, other)[0].converse(instructions="", tools=agent.executor.toolkit)
        for message in fold(agent.session("s")).messages:
            talk.append(message)
        _ = [e async for e in talk.reply()]

    said = server.asked[1].body["messages"][-2]
    assert first.status == "done"
    assert said["reasoning_content"] == "".join(pieces)
    assert said["tool_calls"][0]["extra_content"] == call["extra_content"]
    assert "extra_content" not in json.dumps(other.asked[0].body)
    assert "reasoning_content" not in json.dumps(other.asked[0].body)


async def test_a_server_that_refuses_its_own_field_is_asked_without_it() -> None:
    reasoned = answer(chunk({"reasoning": "hm"}), chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "name", "arguments": '{"city": "a"}'}}]}), chunk({}, "tool_calls"))  # fmt: skip
    (done,), asked, _ = await runs(
        CHAT,
        reasoned,
        failed(400, CHAT.error_body("'messages.2': property 'reasoning' is unsupported")),
        CHAT.text("well"),
    )

    assert done.status == "done"
    assert ['"reasoning"' in text for text in asked] == [False, True, False]


async def test_reasoning_that_cannot_be_read_at_the_provider_is_left_out_and_the_call_stays() -> None:
    def thought(id: str, **more: Any) -> dict[str, Any]:
        return {"type": "reasoning", "id": id, "summary": [], **more}

    call = {"type": "function_call", "id": "f", "call_id": "c1", "name": "name", "arguments": '{"city": "a"}', "status": "completed"}  # fmt: skip
    output = [thought("rs_3"), thought("rs_4", encrypted_content="sealed"), call]
    (done,), asked, _ = await runs(
        RESPONSES, r_reply(r_last("completed", r_response("completed", output))), RESPONSES.text("well")
    )

    items = json.loads(asked[1])["input"]
    assert done.status == "done"
    assert [i.get("id") or i["type"] for i in items[1:]] == ["rs_4", "function_call", "function_call_output"]


async def test_a_paused_turn_is_sent_back_as_it_came_and_both_parts_are_the_answer() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    paused = a_reply(a_start(), *a_text(0, "part"), *a_block(1, search), *a_end("pause_turn"))
    (done,), asked, _ = await runs(ANTHROPIC, paused, ANTHROPIC.text(" two"))

    assert (done.status, done.answer) == ("done", "part two")
    assert json.loads(asked[1])["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "part"}, search]}
    ]


# -- replies in other forms ---------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "openai": {"choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]},
    "openai-responses": r_response("completed", [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "whole"}]}]),
    "anthropic": {"type": "message", "content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn"},
    "gemini": [{"candidates": [{"content": {"parts": [{"text": "who"}]}}]}, {"candidates": [{"content": {"parts": [{"text": "le"}]}, "finishReason": "STOP"}]}],
}  # fmt: skip


@every
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_a_whole_json_reply_in_the_place_of_a_stream_is_the_answer(
    provider: Spoken, packed: bool
) -> None:
    import gzip

    body = json.dumps(WHOLE[provider.name]).encode()
    headers = {
        "content-type": "application/json; charset=utf-8",
        **({"content-encoding": "gzip"} if packed else {}),
    }
    reply = Reply(headers=headers, pieces=[gzip.compress(body) if packed else body])
    (done,), asked, _ = await runs(provider, reply)

    assert (done.status, done.answer, len(asked)) == ("done", "whole", 1)


async def test_a_call_that_the_server_could_not_read_ends_within_three_requests() -> None:
    words = {"message": "Failed to call a function. See 'failed_generation'.", "code": "tool_use_failed"}
    (inside,), asked, _ = await runs(CHAT, *[answer({"error": words})] * 9)
    (before,), refused, _ = await runs(CHAT, *[failed(400, {"error": words})] * 9)

    assert (inside.status, len(asked)) == ("failed", 3)
    assert (before.status, len(refused)) == ("failed", 3)
    assert "could not be read" in before.error


async def test_a_second_overflow_is_shortened_again() -> None:
    @tool(effects=PURE)
    async def page(number: int) -> str:
        """Read a page."""
        return f"{number} " + "word " * 4000

    words = "This model's maximum context length is 30000 tokens. However, your messages resulted in 45000 tokens."
    full = failed(400, {"error": {"message": words, "code": "context_length_exceeded"}})
    calls = [CHAT.calls([(f"c{n}", "page", f'{{"number": {n}}}')]) for n in range(6)]
    (done,), asked, _ = await runs(CHAT, *calls, full, full, CHAT.text("well"), tools=[page])

    assert (done.status, done.answer, len(asked)) == ("done", "well", 9)
    assert len(asked[6]) > len(asked[7]) > len(asked[8])


async def test_a_partial_reply_is_one_turn_of_the_history() -> None:
    half = answer(chunk({"content": "Hel"}), done=False, cut=True)
    async with serving(half, CHAT.text("whole")) as server:
        answered = await Agent(model=model_at(CHAT, server)[0]).run("go")

    assert (answered.status, answered.answer, len(server.asked)) == ("done", "whole", 2)
    assert [e.message.text for e in answered.events if isinstance(e, ModelReplied)] == ["whole"]
    assert UserMessage.of("go") in fold(answered.events).messages
