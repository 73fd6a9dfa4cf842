"""Dialect: what a provider's wire form must be able to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pegboard.core.content import ToolCall
from pegboard.core.transcript import AssistantMessage, Message


class ToolView(Protocol):
    """What a dialect needs to know of a tool."""

    @property
    def name(self) -> str:
        """The canonical name."""
        ...

    @property
    def description(self) -> str:
        """What the model reads."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The arguments as JSON Schema 2020-12, its root an object."""
        ...


class ToolkitView(Protocol):
    """An immutable, ordered collection of tools."""

    def __iter__(self) -> Iterator[ToolView]:
        """The tools, always in the same order: prompt caches depend on it."""
        ...


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A further piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingChunk:
    """A further piece of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStartChunk:
    """A call has begun; `index` counts the calls of this turn from 0. Name and id may still be empty."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallChunk:
    """A further piece of the arguments' text of call `index`."""

    index: int
    arguments: str


Delta: TypeAlias = TextChunk | ThinkingChunk | CallStartChunk | CallChunk


class ReplyStream(Protocol):
    """Reads one streamed reply."""

    def feed(self, chunk: Any) -> list[Delta]:
        """What this chunk adds; nothing where it only moves the state."""
        ...

    def flush(self) -> list[Delta]:
        """What was held back until it was clear; call it once, behind the last chunk."""
        ...

    def finish(self) -> AssistantMessage:
        """The whole message: the same as `decode_message` of the whole reply."""
        ...


class Dialect(Protocol):
    """Pure translation between the canonical transcript and one wire form.

    Every name that a provider refuses is sent under a safe name (`names.wire_name`) and read back
    through the toolkit. Rendered tools are cached for each toolkit and must not be changed.
    """

    @property
    def name(self) -> str:
        """The name in the family's table."""
        ...

    def render_tools(self, toolkit: ToolkitView) -> list[dict[str, Any]] | str:
        """The tools as the provider wants them, in the toolkit's order."""
        ...

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """What the provider's schema subset could not say: one sentence each, with tool and path."""
        ...

    def encode(self, message: Message) -> list[dict[str, Any]]:
        """One message as wire messages: always valid JSON, always UTF-8 encodable."""
        ...

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The calls of one reply.

        Args:
            reply: the provider's response as dict, JSON text or SDK object; for dialects in text
                the model's text; a list is what `encode` wrote for an assistant's message.
            toolkit: reads safe names back and types untyped values.

        Raises:
            ModelError: the reply is no reply of this provider.
            ToolError: a call in text that was cut off or cannot be read; nothing may run.
        """
        ...

    def decode_message(self, reply: Any, toolkit: ToolkitView | None = None) -> AssistantMessage:
        """The whole reply: text, thinking, calls, stop reason, usage.

        Raises:
            ModelError: the reply is no reply of this provider.
        """
        ...

    def stream(self, toolkit: ToolkitView | None = None) -> ReplyStream:
        """A reader for one streamed reply; every split of it gives the same message."""
        ...
