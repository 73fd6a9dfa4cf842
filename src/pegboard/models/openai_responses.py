"""OpenAIResponsesModel: OpenAI's Responses API, nothing kept at the provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from pegboard.core.errors import ModelError
from pegboard.dialects.openai_responses import PASSING, OpenAIResponses
from pegboard.dialects.protocol import ToolkitView
from pegboard.models.conversation import RetryTiming
from pegboard.models.failures import endpoint_of
from pegboard.models.openai import KEY_VARIABLE, OPENAI_URL, make_client
from pegboard.models.remote import RemoteModel

_LAST = ("response.completed", "response.incomplete", "response.failed")


class OpenAIResponsesModel(RemoteModel):
    """A model behind the Responses API.

    Requests say `store: false` and ask for encrypted reasoning, so that the transcript is ours
    alone and reasoning items go back as they came.

    Args:
        model: the model's name.
        api_key: the key of this very server.
        base_url: another server that speaks Responses; None = OpenAI.
        strict: send tools with `strict: true` where their schema allows.
        options: further request fields (`reasoning`, `max_output_tokens` …).
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
        self.dialect = OpenAIResponses(strict=strict)
        super().__init__(
            endpoint=endpoint_of(
                "openai-responses", model, api_key, base_url, own=OPENAI_URL, variable=KEY_VARIABLE
            ),
            base_url=base_url,
            make=lambda: make_client(self.endpoint, timeout_s),
            opens=lambda instructions, schema: _Wire(self, instructions, schema),
            options=options,
            waiting=waiting,
        )


class _Wire:
    def __init__(
        self, model: OpenAIResponsesModel, instructions: str, output_schema: Mapping[str, Any] | None
    ) -> None:
        self._model = model
        self._head: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
        if instructions:
            self._head["instructions"] = instructions
        if output_schema is not None:
            form = {"type": "json_schema", "name": "answer", "schema": dict(output_schema), "strict": False}
            self._head["text"] = {"format": form}
        self.endpoint = model.endpoint
        self.dialect = model.dialect

    async def send(
        self, messages: list[dict[str, Any]], *, tools: ToolkitView, allow_tools: bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        # The list is given as it is: the SDK only reads it.
        request: dict[str, Any] = {
            "model": self.endpoint.model,
            "input": messages,
            **self._head,
            "extra_body": self._model.options,
        }
        rendered = self.dialect.render_tools(tools)
        if rendered:
            request["tools"] = rendered
            if not allow_tools:
                request["tool_choice"] = "none"
        async with await self._model.client.responses.create(**request, stream=True) as stream:
            async for event in stream:
                chunk: dict[str, Any] = event.to_dict(warnings=False)
                if chunk.get("type") == "response.failed":
                    raise _failed(chunk, self.endpoint.host)
                yield chunk

    def ends(self, chunk: Mapping[str, Any]) -> bool:
        return chunk.get("type") in _LAST


def _failed(chunk: Mapping[str, Any], host: str) -> ModelError:
    response: Mapping[str, Any] = chunk.get("response") or {}
    error: Mapping[str, Any] = response.get("error") or {}
    code = str(error.get("code") or "unknown")
    return ModelError(
        f"{host} broke off: {error.get('message') or 'no reason given'} ({code})",
        retryable=code == "unknown" or code in PASSING,
    )
