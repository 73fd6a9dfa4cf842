"""LocalModel: a deterministic keyword router that looks like a model; no language model, no download."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from pegboard.core.content import Text, ToolCall
from pegboard.core.result import HINT, ToolResult
from pegboard.core.tool_search import rank
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, ResultsMessage, Usage, UserMessage
from pegboard.models.router.rank import THRESHOLD, CandidateCall, choices
from pegboard.models.router.request import ParsedRequest, read_request
from pegboard.models.router.steps import first_step
from pegboard.models.scripted import events_of
from pegboard.ports.model import ModelEvent

NOTICE: Final = "no language model: keyword router"
QUOTED_CHARACTERS: Final = 4_000
"""Of a result's text the answer quotes at most this many characters."""
READ_CHARACTERS: Final = 2_000
"""Of a request at most this many characters are looked at."""


class LocalModel:
    """Chooses one tool by words, copies its arguments from the request, quotes its result.

    English and Chinese. The same request gives the same call. It understands no language:
    below a threshold it makes no call and says how to ask more plainly.
    """

    @property
    def name(self) -> str:
        """`local`."""
        return "local"

    @property
    def destination(self) -> str:
        """`nowhere`: nothing leaves the process."""
        return "nowhere"

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> LocalConversation:
        """Open a conversation. Instructions are not understood and `output_schema` is not met."""
        return LocalConversation(tools)

    async def aclose(self) -> None:
        """Nothing was started."""


class LocalConversation:
    """One conversation with the router: a request, one call, its result quoted."""

    def __init__(self, tools: Toolkit) -> None:
        self._tools = tools
        self._request = ""
        self._results: tuple[ToolResult, ...] | None = None
        self._note = ""
        self._calls = 0

    def append(self, message: Message) -> None:
        """Add a message; the last request and its results count."""
        match message:
            case UserMessage():
                self._request, self._results, self._note = message.text, None, ""
            case ResultsMessage(results):
                self._results = results
            case AssistantMessage():
                pass

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """One call where the request is plain enough and has no result yet, else text."""
        for event in events_of(self._turn(allow_tools)):
            yield event

    def _turn(self, allow_tools: bool) -> AssistantMessage:
        first, rest = first_step(self._request.strip()[:READ_CHARACTERS])
        request = read_request(first)
        if self._results is not None:
            return _said(answer(request, self._results, rest))
        choice = choose(request, self._tools) if allow_tools else None
        if choice is None:
            return _said(_declined(request, self._tools, allow_tools))
        self._calls += 1
        call = ToolCall(f"local_{self._calls}", choice.tool, choice.arguments)
        return AssistantMessage(content=(call,), stop="tools", usage=Usage(requests=1), model="local")


def choose(request: ParsedRequest, tools: Toolkit) -> CandidateCall | None:
    """The call that the request plainly asks for, or None."""
    found = choices(request, tools)
    return found[0] if found and found[0].score >= THRESHOLD else None


def answer(request: ParsedRequest, results: tuple[ToolResult, ...], rest: str = "") -> str:
    """The results, quoted and bounded, under a line that says who answers."""
    parts: list[str] = []
    for result in results:
        text = result.text.removesuffix(HINT)
        tool = result.tool or "the tool"
        if result.error is not None:
            said = f"{tool} 失败了：" if request.chinese else f"{tool} failed: "
            parts.append(said + text.removeprefix("Error: "))
        elif not text.strip():
            parts.append(
                f"{tool} 成功，没有输出。" if request.chinese else f"{tool} is done; it gave no output."
            )
        else:
            said = f"{tool} 返回：" if request.chinese else f"{tool} says:"
            parts.append(f"{said}\n{quote(request, text)}")
    if rest:
        parts.append(
            f"（只做了第一步；还没有做：{rest}）"
            if request.chinese
            else f"(Only the first step was done. Still to do: {rest})"
        )
    return "\n\n".join([f"[{NOTICE}]", *parts])


def quote(request: ParsedRequest, text: str) -> str:
    """The text where it is short; else its beginning, and the lines that share most words with the request."""
    text = text.rstrip()
    if len(text) <= QUOTED_CHARACTERS:
        return text
    lines = text.split("\n")
    picked: list[int] = []
    room = QUOTED_CHARACTERS // 2
    for index, _ in rank(request.text, [line[:400] for line in lines]):
        room -= min(len(lines[index]), 400) + 1
        if room < 0:
            break
        picked.append(index)
    shown = "\n".join(lines[index][:400] for index in sorted(picked))
    head = text[: QUOTED_CHARACTERS // 2].rstrip()
    left = len(text) - len(head)
    return (
        f"{head}\n[… {left} characters more; the lines closest to the request:]\n{shown}"
        if shown
        else f"{head}\n[… {left} characters more]"
    )


def _declined(request: ParsedRequest, tools: Toolkit, allow_tools: bool) -> str:
    names = ", ".join(tool.name for tool in tools)
    if not allow_tools or not names:
        body = (
            "这里没有可用的工具。"
            if request.chinese
            else "No tool may be called here, and without one there is nothing to answer from."
        )
    elif request.chinese:
        body = f"没有看懂要用哪个工具（{names}）。请说得更直接，例如“读取文件 notes.txt”，或者用 --model 指定一个语言模型。"
    else:
        body = (
            f"I only match words to tools ({names}), and none fits this request. Rephrase it,  "
            'for example "read notes.txt" or "search for TODO in src", or choose a language model with --model.'
        )
    return f"[{NOTICE}]\n\n{body}"


def _said(text: str) -> AssistantMessage:
    return AssistantMessage(content=(Text(text),), stop="end", usage=Usage(requests=1), model="local")
