"""OpenAIModel: Chat Completions, of OpenAI and of every server that speaks it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from pegboard.dialects.openai_chat import OpenAIChat
from pegboard.dialects.protocol import ToolkitView
from pegboard.models.conversation import RetryTiming
from pegboard.models.failures import Endpoint, endpoint_of
from pegboard.models.remote import RemoteModel, client_options, sdk

OPENAI_URL: Final = "https://api.openai.com/v1"
KEY_VARIABLE: Final = "OPENAI_API_KEY"
NO_KEY: Final = "none"
"""Sent to servers that want no key: the SDK insists on one."""


class OpenAIModel(RemoteModel):
    """A model behind Chat Completions.

    Args:
        model: the model's name at the server.
        api_key: the server's key. It must be the key of this very server: a key of another
            origin is never sent here. None sends a placeholder.
        base_url: where the API begins, `https://api.openai.com/v1` by default.
        strict: send tools with `strict: true` where their schema allows.
        options: further request fields (`temperature`, `max_completion_tokens` …).
        timeout_s: seconds without a byte after which a request has failed.
        waiting: retry policy, clock and sleep.

    Raises:
        ModelError: no key for OpenAI itself.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        strict: bool = False,
        options: Mapping[str, Any] | None = None,
        timeout_s: float = 600.0,
        waiting: RetryTiming | None = None,
    ) -> None:
        self.dialect = OpenAIChat(strict=strict)
        super().__init__(
            endpoint=endpoint_of("openai", model, api_key, base_url, own=OPENAI_URL, variable=KEY_VARIABLE),
            base_url=base_url,
            make=lambda: make_client(self.endpoint, timeout_s),
            opens=lambda instructions, schema: _ChatWire(self, instructions, schema),
            options=options,
            waiting=waiting,
        )

    def request(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, allow_tools: bool
    ) -> dict[str, Any]:
        """The request's fields, without the transport's."""
        out: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": messages,
            "stream_options": {"include_usage": True},
            # As part of the body: servers know fields that the SDK does not.
            "extra_body": self.options,
        }
        if tools:
            out["tools"] = tools
            if not allow_tools:
                # Tools stay in the request: without them the prompt's prefix would change and no
                # longer be cached.
                out["tool_choice"] = "none"
        return out


def make_client(endpoint: Endpoint, timeout_s: float) -> Any:
    """A client bound to one origin: environment, redirects and the SDK's own retries are off."""
    openai = sdk("openai", "openai")
    client = openai.AsyncOpenAI(
        api_key=endpoint.key or NO_KEY,
        # Always given: else the SDK would take OPENAI_BASE_URL and send the key there.
        base_url=endpoint.url,
        max_retries=0,
        timeout=timeout_s,
        http_client=openai.DefaultAsyncHttpxClient(**client_options(endpoint, timeout_s)),
    )
    if endpoint.url != OPENAI_URL:
        # Taken from the environment by the SDK; another server has no business with them.
        client.organization = None
        client.project = None
    return client


class _ChatWire:
    def __init__(
        self, model: OpenAIModel, instructions: str, output_schema: Mapping[str, Any] | None
    ) -> None:
        self._model = model
        self._head: list[dict[str, Any]] = (
            [{"role": "system", "content": instructions}] if instructions else []
        )
        self._form = (
            {}
            if output_schema is None
            else {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": dict(output_schema)},
                }
            }
        )
        self.endpoint = model.endpoint
        self.dialect = model.dialect

    async def send(
        self, messages: list[dict[str, Any]], *, tools: ToolkitView, allow_tools: bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        request = self._model.request(
            [*self._head, *messages], self.dialect.render_tools(tools), allow_tools=allow_tools
        )
        async with await self._model.client.chat.completions.create(
            **request, **self._form, stream=True
        ) as stream:
            async for chunk in stream:
                yield chunk.to_dict(warnings=False)

    def ends(self, chunk: Mapping[str, Any]) -> bool:
        choices: list[dict[str, Any]] = chunk.get("choices") or []
        return any(choice.get("finish_reason") for choice in choices)
