"""LocalModel: a deterministic keyword router that looks like a model; no language model, no download."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

from pegboard.core.content import Text, ToolCall
from pegboard.core.result import HINT, ToolResult
from pegboard.core.tool_search import rank
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, ResultsMessage, Usage, UserMessage
from pegboard.models.router import Choice, Request, RoutableTool, choose, read_request
from pegboard.models.scripted import events_of
from pegboard.ports.model import ModelEvent

NOTICE: Final = "no language model: keyword router"
QUOTED_CHARACTERS: Final = 4_000
"""Of a result's text the answer quotes at most this many characters."""


class LocalModel:
    """Chooses one tool by words, says so, and quotes its result.

    English and Chinese. The same request gives the same call. It understands no language: it makes no
    call on a negation or a condition, a question only reads, and it writes and runs only what stands in
    quotation marks or backticks. Where it makes no call it says how to ask more plainly.
    """

    @classmethod
    def open_named(cls, name: str, sources: object) -> LocalModel:
        """`--model local`."""
        return cls()

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
        """One call if the request is plain enough and has no result yet, else text."""
        for event in events_of(self._turn(allow_tools)):
            yield event

    def _turn(self, allow_tools: bool) -> AssistantMessage:
        request = self._request
        if self._results is not None:
            return _message(answer(request, self._results))
        choice = choose(request, self._tools) if allow_tools else None
        if choice is None:
            return _message(_declined(request, self._tools if allow_tools else ()))
        self._calls += 1
        return AssistantMessage(
            content=(
                Text(understood(request, choice)),
                ToolCall(f"local_{self._calls}", choice.tool, choice.arguments),
            ),
            stop="tools",
            usage=Usage(requests=1),
            model="local",
        )


def understood(request: Request, choice: Choice) -> str:
    """The call in words, said before it is made."""
    return f"我的理解：{choice}\n" if request.chinese else f"Understood as: {choice}\n"


def answer(request: Request, results: tuple[ToolResult, ...]) -> str:
    """The results, quoted and bounded, under a line that says who answers."""
    parts = [f"[{NOTICE}]", *(quote(request, result) for result in results)]
    if request.rest:
        parts.append(remainder(request))
    return "\n\n".join(parts)


def remainder(request: Request) -> str:
    """A line about the steps that were not done."""
    return (
        f"（只做了第一步；还没有做：{request.rest}）"
        if request.chinese
        else f"(Only the first step was done. Still to do: {request.rest})"
    )


def quote(request: Request, result: ToolResult) -> str:
    """The result under its tool's name: whole if it is short, else its beginning and the closest lines."""
    tool = result.tool or "the tool"
    text = result.text.removesuffix(HINT).rstrip()
    if result.error is not None:
        return (f"{tool} 失败了：" if request.chinese else f"{tool} failed: ") + text.removeprefix("Error: ")
    if not text.strip():
        return f"{tool} 成功，没有输出。" if request.chinese else f"{tool} ran and printed nothing."
    return (f"{tool} 返回：" if request.chinese else f"{tool} says:") + f"\n{_excerpt(request, text)}"


def _excerpt(request: Request, text: str) -> str:
    if len(text) <= QUOTED_CHARACTERS:
        return text
    half = QUOTED_CHARACTERS // 2
    lines = [line[:400] for line in text[half:].split("\n")]
    picked: list[int] = []
    room = half
    for index, _ in rank(request.text, lines):
        room -= len(lines[index]) + 1
        if room < 0:
            break
        picked.append(index)
    head = f"{text[:half].rstrip()}\n[… {len(text) - half} characters more"
    return (
        "\n".join([f"{head}; the lines closest to the request:]", *(lines[i] for i in sorted(picked))])
        if picked
        else f"{head}]"
    )


def _declined(request: Request, tools: Iterable[RoutableTool]) -> str:
    names = ", ".join(tool.name for tool in tools)
    if not names:
        body = (
            "这里没有可用的工具。"
            if request.chinese
            else "No tool may be called here, and without one there is nothing to answer from."
        )
    elif request.doubt:
        body = (
            f"请求里有“{request.doubt}”。遇到否定或条件，我什么都不做。请直接说要做什么。"
            if request.chinese
            else f"The request says {request.doubt!r}. I do nothing on a negation or a condition: say plainly what to do."
        )
    elif request.chinese:
        body = f"没有看懂要用哪个工具（{names}）。请说得更直接，例如“读取文件 notes.txt”，要写入或运行的内容请加引号，或者用 --model 指定一个语言模型。"
    else:
        body = (
            f"I only match words to tools ({names}), and none fits this request. Say it in other words, for example "
            '"read notes.txt" or "search for TODO in src". Put what is to be written or run in quotation marks or '
            "backticks: run `pytest -q`. Or choose a language model with --model."
        )
    return f"[{NOTICE}]\n\n{body}"


def _message(text: str) -> AssistantMessage:
    return AssistantMessage(content=(Text(text),), stop="end", usage=Usage(requests=1), model="local")
