"""AnthropicModel: Claude through the Messages API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, Final

from pegboard.dialects.anthropic import Anthropic
from pegboard.dialects.protocol import ToolkitView
from pegboard.models.conversation import RetryTiming
from pegboard.models.failures import endpoint_of
from pegboard.models.remote import RemoteModel, client_options, sdk

ANTHROPIC_URL: Final = "https://api.anthropic.com"
ANSWER_TOKENS: Final = 16_000
"""The API wants a limit for every answer."""

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}


class AnthropicModel(RemoteModel):
    """A model behind the Messages API.

    The end of the tools and instructions and the last two user messages carry prompt-cache
    markers: what is before them is the same in the next request, byte for byte.

    Args:
        model: the model's name.
        api_key: the key of this very server.
        base_url: another server that speaks Messages; None = Anthropic.
        options: further request fields (`max_tokens`, `thinking`, `temperature` …).
        timeout_s: seconds without a byte after which a request has failed.
        waiting: retry policy, clock and sleep.

    Raises:
        ModelError: no key for Anthropic itself.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        options: Mapping[str, Any] | None = None,
        timeout_s: float = 600.0,
        waiting: RetryTiming | None = None,
    ) -> None:
        self.dialect = Anthropic()
        endpoint = endpoint_of(
            "anthropic", model, api_key, base_url, own=ANTHROPIC_URL, variable="ANTHROPIC_API_KEY"
        )
        super().__init__(
            # The SDK adds /v1 itself; users write the URL as for the other families.
            endpoint=replace(endpoint, url=endpoint.url.removesuffix("/v1")),
            base_url=base_url,
            make=self._make_client,
            opens=lambda instructions, schema: _Wire(self, instructions, schema),
            options=options,
            waiting=waiting,
        )
        self.answer_tokens = int(self.options.pop("max_tokens", ANSWER_TOKENS))
        self._timeout_s = timeout_s

    def _make_client(self) -> Any:
        anthropic = sdk("anthropic", "anthropic")
        return anthropic.AsyncAnthropic(
            # Always given: else the SDK would look for keys, profiles and addresses of its own.
            api_key=self.endpoint.key or "none",
            base_url=self.endpoint.url,
            max_retries=0,
            timeout=self._timeout_s,
            http_client=anthropic.DefaultAsyncHttpxClient(**client_options(self.endpoint, self._timeout_s)),
        )


class _Wire:
    def __init__(
        self, model: AnthropicModel, instructions: str, output_schema: Mapping[str, Any] | None
    ) -> None:
        self._model = model
        self._head: dict[str, Any] = {}
        if instructions:
            self._head["system"] = [{"type": "text", "text": instructions, **_CACHED}]
        if output_schema is not None:
            self._head["output_config"] = {"format": {"type": "json_schema", "schema": dict(output_schema)}}
        self.endpoint = model.endpoint
        self.dialect = model.dialect

    async def send(
        self, messages: list[dict[str, Any]], *, tools: ToolkitView, allow_tools: bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        request: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": with_cache_markers(messages),
            "max_tokens": self._model.answer_tokens,
            "extra_body": self._model.options,
            **self._head,
        }
        rendered = self.dialect.render_tools(tools)
        if rendered:
            # Without instructions the tools are the end of the standing prefix.
            last = rendered[-1] if "system" in request else {**rendered[-1], **_CACHED}
            request["tools"] = [*rendered[:-1], last]
            if not allow_tools:
                request["tool_choice"] = {"type": "none"}
        async with await self._model.client.messages.create(**request, stream=True) as stream:
            async for event in stream:
                yield event.to_dict(warnings=False)

    def ends(self, chunk: Mapping[str, Any]) -> bool:
        return chunk.get("type") == "message_stop"


def with_cache_markers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with cache markers on the last two of the user's; only those are copied."""
    out = list(messages)
    left = 2
    for place in range(len(out) - 1, -1, -1):
        message = out[place]
        if message["role"] == "user" and message["content"]:
            *before, last = message["content"]
            out[place] = {**message, "content": [*before, {**last, **_CACHED}]}
            left -= 1
            if left == 0:
                break
    return out
