"""Model: one language model behind one narrow door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text, forwarded as it arrives."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's reasoning text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A piece of a tool call: `index` in the turn, id and name when known, a fragment of arguments."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a model turn: the whole message, always the last event."""

    message: AssistantMessage


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """The request was made once more: what came of this turn before is void. `why` is for people."""

    why: str


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | CallDelta | AskedAgain | TurnEnd


class Conversation(Protocol):
    """One run's talk with a model. Append-only; each message is encoded once."""

    def append(self, message: Message) -> None:
        """Add a message; the model's own replies must be appended too, by the caller."""
        ...

    def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """Ask for the next turn: deltas, then exactly one TurnEnd.

        Raises:
            ModelError: the model could not be reached or its answer could not be read;
                nothing was appended and the same call may be tried again.
        """
        ...


class Model(Protocol):
    """A model that can hold conversations."""

    @property
    def name(self) -> str:
        """`provider:model`, as `--model` takes it."""
        ...

    @property
    def destination(self) -> str:
        """Where the data goes: a host, `this machine` or `nowhere`."""
        ...

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> Conversation:
        """Open a conversation; no request is made yet."""
        ...

    async def aclose(self) -> None:
        """End what was started (servers, connections)."""
        ...
