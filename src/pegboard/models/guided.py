"""GuidedConversation: tool calls by constrained output, for models that are never shown their tools.

The router chooses the one tool that is offered and finds what the request says for each parameter;
the model writes the call inside a JSON schema of these; its answer is checked against the result.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, cast

from pegboard.core.content import Text, ToolCall
from pegboard.core.result import HINT, ToolResult
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, ResultsMessage, UserMessage
from pegboard.models.grounding import is_grounded
from pegboard.models.local import READ_CHARACTERS, choose, quote
from pegboard.models.router.rank import CandidateCall
from pegboard.models.router.request import ParsedRequest, read_request
from pegboard.models.router.steps import first_step
from pegboard.models.scripted import events_of
from pegboard.ports.model import ModelEvent

Complete = Callable[..., Awaitable[AssistantMessage]]
"""One request, not streamed: takes `messages` and further request fields."""

NOT_COVERED: Final = "[not covered by the tool's result]"
UNCHECKED: Final = "[from the model alone; no tool was used]"

_CALL_TOKENS: Final = 400
_ANSWER_TOKENS: Final = 160
_REFUTED_CHARACTERS: Final = 300
_SHOWN_CHARACTERS: Final = 1_500
"""So much of a result is shown to the model: a small one loses the thread in more."""


class GuidedConversation:
    """A talk in which each turn is one question to the model about one request."""

    def __init__(
        self, complete: Complete, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> None:
        self._complete = complete
        self._tools = tools
        self._output_schema = output_schema
        self._request = ""
        self._results: tuple[ToolResult, ...] | None = None
        self._calls = 0

    def append(self, message: Message) -> None:
        """Add a message; the last request and its results count."""
        match message:
            case UserMessage():
                self._request, self._results = message.text, None
            case ResultsMessage(results):
                self._results = results
            case AssistantMessage():
                pass

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn, in one piece: an answer is shown only after it was checked.

        Raises:
            ModelError: the server failed.
        """
        first, rest = first_step(self._request.strip()[:READ_CHARACTERS])
        request = read_request(first)
        choice = choose(request, self._tools) if allow_tools and self._results is None else None
        if self._results is not None:
            message = await self._answer(request, self._results, rest)
        elif choice is not None:
            message = await self._call(request, choice)
        else:
            message = await self._plain(request)
        for event in events_of(message):
            yield event

    async def _call(self, request: ParsedRequest, choice: CandidateCall) -> AssistantMessage:
        tool = next(tool for tool in self._tools if tool.name == choice.tool)
        said = await self._complete(
            messages=[
                _system(
                    f"Fill in the arguments of the tool {tool.name}: {tool.description}\nAnswer with JSON only."
                ),
                _user(request.text),
            ],
            max_tokens=_CALL_TOKENS,
            response_format=_form(call_schema(tool.schema, choice)),
        )
        self._calls += 1
        # The text passes on as it came: where it was cut off, the decode stage refuses it.
        call = ToolCall(f"guided_{self._calls}", tool.name, said.text)
        return AssistantMessage(content=(call,), stop="tools", usage=said.usage, model=said.model)

    async def _answer(
        self, request: ParsedRequest, results: tuple[ToolResult, ...], rest: str
    ) -> AssistantMessage:
        text = "\n".join(result.text.removesuffix(HINT) for result in results)
        quoted = "\n\n".join(_quoted(request, result) for result in results)
        said = await self._complete(
            messages=[
                _system(
                    "Answer the request in one or two sentences, with the result only. Do not add anything."
                ),
                _user(f"Request: {request.text}\n\nResult:\n{text[:_SHOWN_CHARACTERS]}"),
            ],
            max_tokens=_ANSWER_TOKENS,
            **({} if self._output_schema is None else {"response_format": _form(self._output_schema)}),
        )
        if self._output_schema is not None:
            return said
        words = said.text.strip()
        if any(not result.ok for result in results):
            body = quoted
        elif words and said.stop != "length" and is_grounded(words, text, request.text):
            body = f"{words}\n\n{quoted}"
        elif words:
            body = f"{quoted}\n\n{NOT_COVERED} The model said: {words[:_REFUTED_CHARACTERS]}"
        else:
            body = quoted
        if rest:
            body += f"\n\n(Only the first step was done. Still to do: {rest})"
        return AssistantMessage(content=(Text(body),), usage=said.usage, model=said.model)

    async def _plain(self, request: ParsedRequest) -> AssistantMessage:
        said = await self._complete(messages=[_user(request.text)], max_tokens=_ANSWER_TOKENS)
        body = f"{said.text.strip()}\n\n{UNCHECKED}"
        return AssistantMessage(content=(Text(body),), stop=said.stop, usage=said.usage, model=said.model)


def call_schema(schema: Mapping[str, Any], choice: CandidateCall) -> dict[str, Any]:
    """The tool's schema narrowed to what the request can mean.

    What the router found in the request is fixed; a required parameter that it did not find is
    left to the model; other optional ones are left out, since a small model fills every field
    that it is shown.
    """
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
    required = [str(name) for name in cast("Iterable[object]", schema.get("required", []))]
    kept: dict[str, Any] = {}
    for name, spec in properties.items():
        if name in choice.arguments:
            kept[name] = {"const": choice.arguments[name]}
        elif name in required:
            kept[name] = dict(spec)
    out = {"type": "object", "properties": kept, "required": list(kept), "additionalProperties": False}
    if "$defs" in schema:
        out["$defs"] = schema["$defs"]
    return out


def _quoted(request: ParsedRequest, result: ToolResult) -> str:
    text = result.text.removesuffix(HINT).strip("\n")
    tool = result.tool or "the tool"
    if result.error is not None:
        return f"{tool} failed: {text.removeprefix('Error: ')}"
    return f"{tool} says:\n{quote(request, text)}" if text.strip() else f"{tool} is done; it gave no output."


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    # A copy through JSON: schemas may hold tuples and read-only mappings.
    return {
        "type": "json_schema",
        "json_schema": {"name": "arguments", "schema": json.loads(json.dumps(dict(schema)))},
    }


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
