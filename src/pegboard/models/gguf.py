"""GgufModel: a language model from a GGUF file, run on this machine by llama.cpp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import ModelError
from pegboard.core.limits import SystemClock
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message
from pegboard.models.conversation import ProviderConversation, RetryTiming
from pegboard.models.failures import failure_of
from pegboard.models.guided import GuidedConversation
from pegboard.models.llama import CONTEXT_TOKENS, LlamaProcess
from pegboard.models.openai import OpenAIModel
from pegboard.models.weights import WEIGHTS, fetch
from pegboard.ports.model import ModelEvent

ANSWER_TOKENS: Final = 2_048
"""A small model may never stop by itself."""
_PROBE: Final = [{"role": "user", "content": "hi"}]


@dataclass(frozen=True, slots=True)
class _Running:
    process: LlamaProcess
    model: OpenAIModel


class GgufModel:
    """A GGUF model behind llama.cpp's own server, which ends with us.

    Whether the model's chat template shows tools to the model is found out once. Where it does,
    the conversation is that of the openai adapter. Where it drops them, calls are made by
    constrained output (`guided`).

    Args:
        source: a path, or a name of `weights.WEIGHTS`.
        data_dir: where named weights are kept; they are fetched on first use.
        context: tokens of context.
        options: request fields; by default `temperature` 0, a fixed seed and ANSWER_TOKENS.
        waiting: retry policy, clock and sleep.
    """

    @classmethod
    def open_named(cls, name: str, sources: Any) -> GgufModel:
        """`--model gguf:NAME`."""
        return cls(name, data_dir=sources.data_dir, waiting=sources.waiting)

    def __init__(
        self,
        source: str,
        *,
        data_dir: Path | None = None,
        context: int = CONTEXT_TOKENS,
        options: Mapping[str, Any] | None = None,
        waiting: RetryTiming | None = None,
    ) -> None:
        if source in WEIGHTS and data_dir is None:
            raise ModelError(f"gguf:{source} needs a data folder to keep its weights in")
        self._source = source
        self._data_dir = data_dir
        self._context = context
        self._options = {"temperature": 0, "seed": 1, "max_tokens": ANSWER_TOKENS, **(options or {})}
        self._waiting = waiting or RetryTiming()
        self._running: _Running | None = None
        self._shows_tools: bool | None = None
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        """`gguf:PATH` or `gguf:NAME`."""
        return f"gguf:{self._source}"

    @property
    def destination(self) -> str:
        """`this machine`."""
        return "this machine"

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> GgufConversation:
        """Open a conversation; the server is started by the first reply."""
        return GgufConversation(self, instructions, tools, output_schema)

    async def aclose(self) -> None:
        """End the server."""
        running, self._running = self._running, None
        if running is not None:
            await running.model.aclose()
            await running.process.aclose()

    async def server(self) -> OpenAIModel:
        """The running server as an OpenAI-compatible model, started where it is not running.

        Raises:
            ModelError: the weights cannot be had or llama.cpp cannot load them.
        """
        async with self._starting:
            if self._running is not None and not self._running.process.alive:
                await self.aclose()
            if self._running is None:
                path = await self._weights()
                process = await LlamaProcess.start(path, context=self._context)
                model = OpenAIModel(
                    path.stem,
                    api_key=process.token,
                    base_url=f"{process.url}/v1",
                    options=self._options,
                    waiting=self._waiting,
                )
                self._running = _Running(process, model)
            return self._running.model

    async def shows_tools(self, tools: Toolkit) -> bool:
        """Whether the chat template shows these tools to the model: then the prompt grows with them."""
        model = await self.server()
        rendered = model.dialect.render_tools(tools)
        if not rendered:
            return True
        if self._shows_tools is None:
            without = await self._prompt_tokens(model, [])
            self._shows_tools = await self._prompt_tokens(model, rendered) != without
        return self._shows_tools

    async def _prompt_tokens(self, model: OpenAIModel, tools: list[dict[str, Any]]) -> int:
        fields: dict[str, Any] = {"tools": tools} if tools else {}
        answer = await ask(model, messages=_PROBE, max_tokens=1, **fields)
        return answer.usage.input_tokens + answer.usage.cache_read_tokens

    async def _weights(self) -> Path:
        if self._source in WEIGHTS:
            return await fetch(self._source, cast("Path", self._data_dir))
        return Path(self._source).expanduser()


class GgufConversation:
    """One conversation; how it is held is decided by the first reply."""

    def __init__(
        self,
        model: GgufModel,
        instructions: str,
        tools: Toolkit,
        output_schema: Mapping[str, Any] | None,
    ) -> None:
        self._model = model
        self._instructions = instructions
        self._tools = tools
        self._output_schema = output_schema
        self._early: list[Message] = []
        self._held: ProviderConversation | GuidedConversation | None = None

    def append(self, message: Message) -> None:
        """Add a message."""
        if self._held is None:
            self._early.append(message)
        else:
            self._held.append(message)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn.

        Raises:
            ModelError: the model cannot be started or its server fails.
        """
        held = self._held or await self._hold()
        async for event in held.reply(allow_tools=allow_tools):
            yield event

    async def _hold(self) -> ProviderConversation | GuidedConversation:
        server = await self._model.server()
        held: ProviderConversation | GuidedConversation
        if await self._model.shows_tools(self._tools):
            held = server.converse(
                instructions=self._instructions, tools=self._tools, output_schema=self._output_schema
            )
        else:

            async def complete(**fields: Any) -> AssistantMessage:
                return await ask(await self._model.server(), **fields)

            held = GuidedConversation(complete, self._tools, self._output_schema)
        for message in self._early:
            held.append(message)
        self._early.clear()
        self._held = held
        return held


async def ask(model: OpenAIModel, *, messages: list[dict[str, Any]], **fields: Any) -> AssistantMessage:
    """One request outside a conversation, not streamed.

    Raises:
        ModelError: it failed.
    """
    request = model.request(messages, [], allow_tools=True)
    del request["stream_options"]
    request["extra_body"] = {**request["extra_body"], **fields}
    try:
        reply = await model.client.chat.completions.create(**request)
    except Exception as error:
        raise failure_of(error, model.endpoint, SystemClock().now()) from error
    return model.dialect.decode_message(reply.to_dict(warnings=False))
