"""The canonical transcript: what dialects translate to and from each provider's wire form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from pegboard.core.content import Block, Text, ToolCall
from pegboard.core.result import ToolResult, text_of

StopReason: TypeAlias = Literal[
    "end", "tools", "length", "pause", "refusal", "filtered", "malformed", "error"
]
"""Why a turn ended. `pause`: the provider wants the turn sent back, and goes on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model turn or of a run; money in US dollars where a price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [c for c in (self.cost_usd, other.cost_usd) if c is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            requests=self.requests + other.requests,
            cost_usd=sum(costs) if costs else None,
        )

    @classmethod
    def total(cls, several: Iterable[Usage]) -> Usage:
        """The sum of some, made once."""
        read = written = cached = kept = requests = 0
        costs: list[float] = []
        for one in several:
            read += one.input_tokens
            written += one.output_tokens
            cached += one.cache_read_tokens
            kept += one.cache_write_tokens
            requests += one.requests
            if one.cost_usd is not None:
                costs.append(one.cost_usd)
        return cls(
            input_tokens=read,
            output_tokens=written,
            cache_read_tokens=cached,
            cache_write_tokens=kept,
            requests=requests,
            cost_usd=sum(costs) if costs else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """All fields by name."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "requests": self.requests,
            "cost_usd": self.cost_usd,
        }


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning text of a model, with the provider's opaque signature kept verbatim."""

    text: str
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A provider's own item (reasoning, server tool, an unknown field) that must be sent back verbatim.

    Attributes:
        dialect: the dialect that made it; others drop it.
        value: the item as JSON-able value.
        origin: host and port of the server that sent it, empty if unknown; others do not get it.
    """

    dialect: str
    value: Any
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person (or the runtime in their place) said."""

    content: tuple[Block, ...]

    @classmethod
    def of(cls, text: str) -> UserMessage:
        """A message of one text block."""
        return cls((Text(text),))

    @property
    def text(self) -> str:
        """The content as text."""
        return text_of(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One model turn: text, thinking, opaque items and calls, in the order in which they came."""

    content: tuple[Text | Thinking | Opaque | ToolCall, ...] = ()
    stop: StopReason = "end"
    usage: Usage = field(default_factory=Usage)
    model: str = ""

    @property
    def text(self) -> str:
        """The text blocks joined."""
        return "".join(b.text for b in self.content if isinstance(b, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in order."""
        return tuple([b for b in self.content if isinstance(b, ToolCall)])


@dataclass(frozen=True, slots=True)
class ResultsMessage:
    """The results of one turn's calls, in call order, one for each id."""

    results: tuple[ToolResult, ...]


Message: TypeAlias = UserMessage | AssistantMessage | ResultsMessage


def replace_blocks(message: Message, change: Callable[[Block], Block]) -> Message:
    """The message with each content block changed; the same object if no block is."""
    match message:
        case UserMessage(content):
            blocks = _changed(content, change)
            return message if blocks is content else UserMessage(blocks)
        case ResultsMessage(results):
            changed = tuple([(r, _changed(r.content, change)) for r in results])
            if all(blocks is r.content for r, blocks in changed):
                return message
            return ResultsMessage(tuple([replace(r, content=blocks) for r, blocks in changed]))
        case AssistantMessage():
            return message


def _changed(blocks: tuple[Block, ...], change: Callable[[Block], Block]) -> tuple[Block, ...]:
    out = tuple([change(b) for b in blocks])
    return blocks if all(a is b for a, b in zip(out, blocks, strict=True)) else out
