"""GeminiModel: Gemini through generateContent."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pegboard.dialects.gemini import Gemini
from pegboard.dialects.protocol import ToolkitView
from pegboard.models.conversation import RetryTiming
from pegboard.models.failures import endpoint_of
from pegboard.models.remote import RemoteModel, client_options, sdk

GEMINI_URL: Final = "https://generativelanguage.googleapis.com"


class GeminiModel(RemoteModel):
    """A model behind the Gemini API.

    Args:
        model: the model's name.
        api_key: the key of this very server.
        base_url: another server that speaks generateContent; None = Google.
        options: further fields of GenerateContentConfig, wire spelling (`maxOutputTokens`, `thinkingConfig` …).
        timeout_s: seconds after which a request has failed.
        waiting: retry policy, clock and sleep.

    Raises:
        ModelError: no key for Google itself.
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
        self.dialect = Gemini()
        super().__init__(
            endpoint=endpoint_of(
                "gemini", model, api_key, base_url, own=GEMINI_URL, variable="GEMINI_API_KEY"
            ),
            base_url=base_url,
            make=self._make_client,
            opens=lambda instructions, schema: _Wire(self, instructions, schema),
            close=_close,
            options=options,
            waiting=waiting,
        )
        self._timeout_s = timeout_s

    def _make_client(self) -> Any:
        genai = sdk("google.genai", "gemini")
        types = sdk("google.genai.types", "gemini")
        return genai.Client(
            # Always given: else the SDK would look for keys, projects and addresses of its own.
            api_key=self.endpoint.key or "none",
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=self.endpoint.url,
                api_version="v1beta" if not urlsplit(self.endpoint.url).path.strip("/") else "",
                timeout=int(self._timeout_s * 1000),
                retry_options=types.HttpRetryOptions(attempts=1),
                async_client_args=client_options(self.endpoint, self._timeout_s, named=False),
            ),
        )


async def _close(client: Any) -> None:
    await client.aio.aclose()
    client.close()


class _Wire:
    def __init__(
        self, model: GeminiModel, instructions: str, output_schema: Mapping[str, Any] | None
    ) -> None:
        self._model = model
        self._config: dict[str, Any] = {"automaticFunctionCalling": {"disable": True}, **model.options}
        if instructions:
            self._config["systemInstruction"] = {"parts": [{"text": instructions}]}
        if output_schema is not None:
            self._config |= {
                "responseMimeType": "application/json",
                "responseJsonSchema": dict(output_schema),
            }
        # The SDK's own objects of a list's messages so far: each is made once.
        self._contents: list[Any] = []
        self._messages: list[dict[str, Any]] | None = None
        self.endpoint = model.endpoint
        self.dialect = model.dialect

    async def send(
        self, messages: list[dict[str, Any]], *, tools: ToolkitView, allow_tools: bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        types = sdk("google.genai.types", "gemini")
        if self._messages is not messages:
            self._messages, self._contents = messages, []
        for message in messages[len(self._contents) :]:
            self._contents.append(_typed(types.Content, message))
        config = dict(self._config)
        rendered = self.dialect.render_tools(tools)
        if rendered:
            config["tools"] = rendered
            if not allow_tools:
                config["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
        stream = await self._model.client.aio.models.generate_content_stream(
            model=self.endpoint.model,
            contents=self._contents,
            config=_typed(types.GenerateContentConfig, config),
        )
        async for chunk in stream:
            yield _plain(chunk.model_dump(by_alias=True, exclude_none=True, exclude={"sdk_http_response"}))

    def ends(self, chunk: Mapping[str, Any]) -> bool:
        candidates: list[dict[str, Any]] = chunk.get("candidates") or []
        feedback: Mapping[str, Any] = chunk.get("promptFeedback") or {}
        return any(c.get("finishReason") for c in candidates) or bool(feedback.get("blockReason"))


def _typed(kind: Any, value: Mapping[str, Any]) -> Any:
    """A wire object as the SDK's type. Through JSON, since only there base64 text becomes bytes."""
    return kind.model_validate_json(json.dumps(value))


def _plain(value: Any) -> Any:
    """JSON-able again: bytes as base64 (the standard alphabet, as on the wire), members as their words."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return getattr(value, "value", value)
