"""GuidedConversation: tool calls by the router, for models that are never shown their tools.

The router makes the call, the model words the answer, and the answer is checked against the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from pegboard.core.content import Text, ToolCall
from pegboard.core.result import HINT, ToolResult
from pegboard.core.tool_search import words
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, ResultsMessage, UserMessage
from pegboard.models.local import quote, remainder, understood
from pegboard.models.router import Request, choose, read_request
from pegboard.models.scripted import events_of
from pegboard.ports.model import ModelEvent

Complete = Callable[..., Awaitable[AssistantMessage]]
"""One request, not streamed: takes `messages` and further request fields."""

NOT_COVERED: Final = "[not covered by the tool's result]"
UNCHECKED: Final = "[from the model alone; no tool was used]"

_ANSWER_TOKENS: Final = 160
_REFUTED_CHARACTERS: Final = 300
_SHOWN_CHARACTERS: Final = 1_500
"""So much of a result is shown to the model: a small one loses the thread in more."""
_LEAST_COVERED: Final = 0.8
"""Of an answer's content words at least this share must stand in the result or the request."""


class GuidedConversation:
    """A talk in which each turn is one question to the model about one request."""

    def __init__(
        self, complete: Complete, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> None:
        self._complete = complete
        self._tools = tools
        self._output_schema = output_schema
        self._request = read_request("")
        self._results: tuple[ToolResult, ...] | None = None
        self._calls = 0

    def append(self, message: Message) -> None:
        """Add a message; the last request and its results count."""
        match message:
            case UserMessage():
                self._request, self._results = read_request(message.text), None
            case ResultsMessage(results):
                self._results = results
            case AssistantMessage():
                pass

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn, in one piece: an answer is shown only after it was checked.

        Raises:
            ModelError: the server failed.
        """
        choice = choose(self._request, self._tools) if allow_tools and self._results is None else None
        if self._results is not None:
            message = await self._answer(self._request, self._results)
        elif choice is not None:
            self._calls += 1
            call = ToolCall(f"guided_{self._calls}", choice.tool, choice.arguments)
            said = Text(understood(self._request, choice))
            message = AssistantMessage(content=(said, call), stop="tools")
        else:
            message = await self._plain(self._request)
        for event in events_of(message):
            yield event

    async def _answer(self, request: Request, results: tuple[ToolResult, ...]) -> AssistantMessage:
        text = "\n".join(result.text.removesuffix(HINT) for result in results)
        quoted = "\n\n".join(quote(request, result) for result in results)
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
        worded = said.text.strip()
        if any(not result.ok for result in results):
            body = quoted
        elif worded and said.stop != "length" and is_grounded(worded, text, request.text):
            body = f"{worded}\n\n{quoted}"
        elif worded:
            body = f"{quoted}\n\n{NOT_COVERED} The model said: {worded[:_REFUTED_CHARACTERS]}"
        else:
            body = quoted
        if request.rest:
            body += f"\n\n{remainder(request)}"
        return AssistantMessage(content=(Text(body),), usage=said.usage, model=said.model)

    async def _plain(self, request: Request) -> AssistantMessage:
        said = await self._complete(messages=[_user(request.text)], max_tokens=_ANSWER_TOKENS)
        body = f"{said.text.strip()}\n\n{UNCHECKED}"
        return AssistantMessage(content=(Text(body),), stop=said.stop, usage=said.usage, model=said.model)


_FACT: Final = re.compile(r"\d+(?:[.,:]\d+)*|[\w./-]*[\w]\.[A-Za-z]\w*|\w+_\w+")
_GLUE: Final = frozenset(
    word
    for word in words(
        "the a an and or of to in on at for with from by is are was were be been being do does did has have had it its "
        "this that these those there here as not no yes so if then than but also only just which who what where when how "
        "can could will would should may might must about into over under out up down all any each every some such same other "
        "i you we they he she your our their my me us them said says say following contains contain content file files result "
        "results tool text line lines list listed found shows show named called output command page information answer question "
        "based given provided according name directory folder request using used use written write wrote current currently "
        "please here's include includes including one two three first second last more most"
    )
)


def is_grounded(answer: str, result: str, request: str) -> bool:
    """Whether the answer is carried by the result.

    Every number, file name and identifier must stand in the result or the request, most of its
    other words too, and at least one thing in it must come from the result alone or be all there is.
    """
    sources = f"{result}\n{request}"
    if any(fact not in sources for fact in _FACT.findall(answer)):
        return False
    said = [word for word in words(answer) if word not in _GLUE]
    known = set(words(sources))
    if not said or sum(word in known for word in said) < _LEAST_COVERED * len(said):
        return False
    from_result = set(words(result))
    asked = set(words(request))
    news = from_result - asked - _GLUE
    return not news or any(word in news for word in said)


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
