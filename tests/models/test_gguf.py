"""The real llama.cpp server with the real SmolLM2 weights, and what happens without them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pegboard.core.content import Text
from pegboard.core.errors import ModelError, NotFound
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.models.gguf import GgufModel
from pegboard.models.guided import NOT_COVERED, UNCHECKED
from pegboard.models.llama import LlamaProcess
from pegboard.models.openai import OpenAIModel
from pegboard.models.weights import fetch
from pegboard.ports.model import TextDelta, TurnEnd
from tests.models.kit import SIX, Kit
from tests.waiting import soon

# Kept between runs, for each user of the machine: 98 MB.
DATA = Path(tempfile.gettempdir()) / f"pegboard-test-data-{os.getuid()}"

slow = pytest.mark.slow
full = pytest.mark.full


@pytest_asyncio.fixture(loop_scope="function")
async def smollm2() -> AsyncIterator[GgufModel]:
    model = GgufModel("smollm2", data_dir=DATA, options={"max_tokens": 48})
    yield model
    await model.aclose()


async def turn(talk: Any, **more: Any) -> AssistantMessage:
    events = [event async for event in talk.reply(**more)]
    assert isinstance(events[-1], TurnEnd)
    return events[-1].message


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie still answers signals; it runs nothing.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


async def until_gone(pid: int) -> None:
    await soon(lambda: gone(pid), f"process {pid} is gone", within_s=10)


@full
@slow
async def test_a_request_becomes_a_call_and_its_result_an_answer_that_holds_it(smollm2: GgufModel) -> None:
    talk = smollm2.converse(instructions="You are helpful.", tools=SIX)
    talk.append(UserMessage.of("What port does the server use? It's written in app/server.toml"))

    message = await turn(talk)
    (call,) = message.calls
    talk.append(message)
    result = ToolResult(content=(Text("[server]\nport = 9321\n"),), call_id=call.id or "", tool=call.name)
    talk.append(ResultsMessage((result,)))
    final = await turn(talk)

    assert call.name == "read_file"
    assert call.params == {"path": "app/server.toml"}
    assert final.usage.output_tokens > 0
    assert "9321" in final.text
    assert not final.calls


@full
@slow
async def test_its_template_drops_tools_which_is_found_out_once(smollm2: GgufModel) -> None:
    assert not await smollm2.shows_tools(SIX)
    # Without tools there is nothing to drop: the plain adapter serves.
    assert await smollm2.shows_tools(Kit())


@full
@slow
async def test_without_tools_it_is_an_ordinary_streaming_model(smollm2: GgufModel) -> None:
    talk = smollm2.converse(instructions="", tools=Kit())
    talk.append(UserMessage.of("Say hello."))

    events = [event async for event in talk.reply()]

    assert sum(isinstance(event, TextDelta) for event in events) > 1
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].message.text
    assert smollm2.destination == "this machine"


@full
@slow
async def test_a_request_that_fits_no_tool_is_answered_and_marked(smollm2: GgufModel) -> None:
    talk = smollm2.converse(instructions="", tools=SIX)
    talk.append(UserMessage.of("Hello!"))

    assert UNCHECKED in (await turn(talk)).text


@full
@slow
async def test_an_answer_can_be_held_to_a_schema(smollm2: GgufModel) -> None:
    schema = {
        "type": "object",
        "properties": {"port": {"type": "integer"}},
        "required": ["port"],
        "additionalProperties": False,
    }
    talk = smollm2.converse(instructions="", tools=Kit(), output_schema=schema)
    talk.append(UserMessage.of("The port is 8080. Which port is it?"))

    assert isinstance(json.loads((await turn(talk)).text)["port"], int)


@full
@slow
async def test_the_server_wants_its_token_listens_on_loopback_and_ends_when_it_is_closed() -> None:
    process = await LlamaProcess.start(await fetch("smollm2", DATA), context=512)
    stranger = OpenAIModel("m", base_url=f"{process.url}/v1")
    talk = stranger.converse(instructions="", tools=Kit())
    talk.append(UserMessage.of("hi"))
    with pytest.raises(ModelError) as caught:
        await turn(talk)
    await stranger.aclose()
    arguments = (
        Path(f"/proc/{process.pid}/cmdline").read_bytes() + Path(f"/proc/{process.pid}/environ").read_bytes()
    )

    await process.aclose()

    assert caught.value.status == 401
    assert process.url.startswith("http://127.0.0.1:")
    assert process.token.encode() not in arguments
    assert not process.alive
    assert gone(process.pid)


@full
@slow
async def test_the_server_is_started_again_when_it_died(smollm2: GgufModel) -> None:
    first = await smollm2.server()
    running = smollm2._running
    assert running is not None
    os.kill(running.process.pid, signal.SIGKILL)
    await asyncio.to_thread(running.process._process.wait)

    second = await smollm2.server()

    assert second is not first


@full
@slow
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_server_dies_with_us_even_when_we_are_killed(signal_number: int) -> None:
    path = await fetch("smollm2", DATA)
    program = textwrap.dedent(f"""
        import asyncio, sys
        sys.path[:0] = {[p for p in sys.path if p]!r}
        from pathlib import Path
        from pegboard.models.llama import LlamaProcess
        async def main():
            process = await LlamaProcess.start(Path({str(path)!r}), context=512)
            print(process.pid, flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """)
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    async with asyncio.timeout(60):
        pid = int(await parent.stdout.readline())

    parent.send_signal(signal_number)
    await parent.wait()

    await until_gone(pid)


async def test_a_file_that_is_no_model_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04 not a model")

    with pytest.raises(ModelError, match="is not a GGUF file"):
        await LlamaProcess.start(tmp_path / "a.gguf")
    with pytest.raises(ModelError, match="cannot read the model"):
        await LlamaProcess.start(tmp_path / "none.gguf")


@full
@slow
async def test_a_torn_model_file_is_told_with_llamas_own_words(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + bytes(100))

    with pytest.raises(ModelError, match=r"cannot load .*a\.gguf"):
        await LlamaProcess.start(tmp_path / "a.gguf")


@full
@slow
async def test_a_model_that_takes_too_long_to_load_is_ended() -> None:
    with pytest.raises(ModelError, match=r"within 0\.01 s"):
        await LlamaProcess.start(await fetch("smollm2", DATA), timeout_s=0.01)


@full
@slow
def test_a_model_serves_one_loop_after_the_other() -> None:
    model = GgufModel("smollm2", data_dir=DATA, options={"max_tokens": 4})

    async def once() -> str:
        talk = model.converse(instructions="", tools=Kit())
        talk.append(UserMessage.of("Say hello."))
        text = (await turn(talk)).text
        await (await model.server()).aclose()
        return text

    try:
        assert asyncio.run(once())
        assert asyncio.run(once())
    finally:
        asyncio.run(model.aclose())


class Said:
    """A model that says fixed things, as GuidedConversation asks it."""

    def __init__(self, *texts: str, stop: Any = "end") -> None:
        self.texts = list(texts)
        self.stop = stop
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, **fields: Any) -> AssistantMessage:
        self.asked.append(fields)
        return AssistantMessage(content=(Text(self.texts.pop(0)),), stop=self.stop, model="m")


async def answered(text: str, result: ToolResult, request: str = "Read notes.txt", stop: Any = "end") -> str:
    from pegboard.models.guided import GuidedConversation

    talk = GuidedConversation(Said(text, stop=stop), SIX)
    talk.append(UserMessage.of(request))
    talk.append(ResultsMessage((result,)))
    return (await turn(talk)).text


NOTES = ToolResult(content=(Text("Buy milk and eggs.\nCall the plumber at 17:30."),), tool="read_file")


async def test_an_answer_that_the_result_covers_stands_above_the_result() -> None:
    said = await answered("Buy milk and eggs, and call the plumber at 17:30.", NOTES)

    assert said.startswith("Buy milk and eggs, and call")
    assert NOT_COVERED not in said
    assert "read_file says:" in said


@pytest.mark.parametrize(
    "invented",
    [
        "Buy milk and eggs. Call the plumber at 18:00.",
        "See shopping.md for milk and eggs.",
        "The capital of France is beautiful in spring.",
        "Here is the file notes.txt.",
    ],
)
async def test_an_answer_that_the_result_does_not_cover_is_marked_below_the_result(invented: str) -> None:
    said = await answered(invented, NOTES)

    assert said.startswith("read_file says:\nBuy milk")
    assert f"{NOT_COVERED} The model said: {invented}" in said


async def test_a_failed_call_is_told_in_the_tools_words_and_not_in_the_models() -> None:
    failed = ToolResult.failed(NotFound("no file at 'notes.txt'"))

    said = await answered("The notes say to buy milk.", failed)

    assert "no file at 'notes.txt'" in said
    assert "milk" not in said


async def test_an_answer_that_was_cut_off_is_not_taken_for_the_answer() -> None:
    assert NOT_COVERED in await answered("Buy milk and", NOTES, stop="length")


async def test_the_router_makes_the_call_and_the_model_is_not_asked_for_it() -> None:
    from pegboard.models.guided import GuidedConversation

    model = Said()
    talk = GuidedConversation(model, SIX)
    talk.append(UserMessage.of("Read notes.txt and then delete it"))
    message = await turn(talk)

    assert message.calls[0].params == {"path": "notes.txt"}
    assert model.asked == []
