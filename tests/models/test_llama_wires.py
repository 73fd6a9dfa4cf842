"""Our adapters against a real server: llama.cpp speaks Chat Completions, Responses and Messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from pegboard.core.transcript import AssistantMessage, UserMessage
from pegboard.models.anthropic import AnthropicModel
from pegboard.models.llama import LlamaProcess
from pegboard.models.openai import OpenAIModel
from pegboard.models.openai_responses import OpenAIResponsesModel
from pegboard.models.weights import fetch
from pegboard.ports.model import TextDelta, TurnEnd
from tests.models.kit import Kit
from tests.models.test_gguf import DATA

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture(loop_scope="function")
async def server() -> AsyncIterator[LlamaProcess]:
    process = await LlamaProcess.start(await fetch("smollm2", DATA), context=1024)
    yield process
    await process.aclose()


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (OpenAIModel, "max_tokens"),
        (OpenAIResponsesModel, "max_output_tokens"),
        (AnthropicModel, "max_tokens"),
    ],
)
async def test_each_wire_streams_a_real_models_answer_over_two_turns(
    server: LlamaProcess, make: Any, limit: str
) -> None:
    model = make("m", base_url=f"{server.url}/v1", api_key=server.token, options={limit: 8, "temperature": 0})
    talk = model.converse(instructions="Be brief.", tools=Kit())
    replies: list[AssistantMessage] = []
    for said in ("Say hello.", "Once more."):
        talk.append(UserMessage.of(said))
        events = [event async for event in talk.reply()]
        assert isinstance(events[-1], TurnEnd)
        message = events[-1].message
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == message.text
        talk.append(message)
        replies.append(message)
    await model.aclose()

    for reply in replies:
        assert reply.text
        assert 0 < reply.usage.output_tokens <= 8
    first, second = (r.usage.input_tokens + r.usage.cache_read_tokens for r in replies)
    assert second > first
