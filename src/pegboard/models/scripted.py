"""ScriptedModel: a model that says what it was told to say, for tests, demos and replay."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from pegboard.core.content import Text, ToolCall
from pegboard.core.errors import ConfigError, ModelError, check_sequence, format_value
from pegboard.core.secrets.clip import clip
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, StopReason, Thinking, Usage
from pegboard.ports.model import CallDelta, ModelEvent, TextDelta, ThinkingDelta, TurnEnd

_TURN_KEYS: Final = frozenset({"text", "thinking", "calls", "stop", "usage", "error"})
_CALL_KEYS: Final = frozenset({"id", "name", "arguments"})
_STOPS: Final = ("end", "tools", "length", "pause", "refusal", "filtered", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What the model was sent for one turn.

    Attributes:
        instructions: the system prompt.
        tools: the toolkit that was offered.
        output_schema: the schema that the answer must fit, None where none was asked.
        allow_tools: False where calls were forbidden for this turn.
        held, count: the conversation's messages, and how many of them were sent.
    """

    instructions: str
    tools: Toolkit
    output_schema: Mapping[str, Any] | None
    allow_tools: bool
    held: Sequence[Message] = field(default=(), repr=False)
    count: int = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """The transcript so far."""
        # Made when somebody looks: a tuple for each of 500 requests would be the cost of a long run.
        return tuple(self.held[: self.count])


ScriptedTurn: TypeAlias = (
    Mapping[str, Any]
    | AssistantMessage
    | Exception
    | Callable[[ModelRequest], Mapping[str, Any] | AssistantMessage]
)
"""One turn: `{"text", "thinking", "calls": [{"id", "name", "arguments"}], "stop", "usage", "error"}`
(every key optional), a whole message, an exception to raise, or a function of the request."""


class ScriptedModel:
    """A model that plays fixed turns, one a request, over all of its conversations together.

    Args:
        turns: the turns in order. A call without an id gets `call_TURN_PLACE`, counted from 1;
            without arguments it gets `{}`; text arguments pass through as they are, so that
            malformed calls can be played. `error` makes the turn a retryable ModelError.
        name: how the model calls itself.

    Raises:
        ConfigError: a turn has a key or a shape that does not exist.
    """

    def __init__(self, turns: Sequence[ScriptedTurn], *, name: str = "scripted") -> None:
        self._turns: tuple[ScriptedTurn, ...] = check_sequence(turns, "ScriptedModel", "turns")
        self._name = name
        self._next = 0
        self.requests: list[ModelRequest] = []
        """What was sent, in order."""
        for number, turn in enumerate(self._turns, 1):
            if isinstance(turn, Mapping):
                _check(cast("Mapping[str, Any]", turn), f"turn {number}")
            elif not isinstance(cast(object, turn), AssistantMessage | Exception) and not callable(turn):
                raise ConfigError(
                    f'turn {number}: a turn is an object like {{"text": …}}, not {format_value(turn)}'
                )

    @classmethod
    def open_named(cls, name: str, sources: object) -> ScriptedModel:
        """`--model scripted:FILE`."""
        return cls.from_file(name)

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedModel:
        """Turns from a file of JSON lines, one turn a line; empty lines are skipped.

        Raises:
            ConfigError: the file cannot be read or a line is no turn; the message names the line.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read the script {str(path)!r}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"cannot read the script {str(path)!r}: {error}") from error
        turns: list[Mapping[str, Any]] = []
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                turn: object = json.loads(line)
            except ValueError as error:
                raise ConfigError(f"{where}: no JSON: {error}") from error
            if not isinstance(turn, dict):
                raise ConfigError(
                    f'{where}: a turn is an object like {{"text": …}}, not {clip(line, 0, 60)!r}'
                )
            turns.append(_check(cast(dict[str, Any], turn), where))
        return cls(turns, name=f"scripted:{path}")

    @property
    def name(self) -> str:
        """`scripted`, or `scripted:FILE`."""
        return self._name

    @property
    def destination(self) -> str:
        """`nowhere`: nothing leaves the process."""
        return "nowhere"

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> ScriptedConversation:
        """Open a conversation; the turns are shared by all conversations of this model."""
        return ScriptedConversation(self, instructions, tools, output_schema)

    async def aclose(self) -> None:
        """Nothing was started."""

    def skip(self, turns: int) -> None:
        """Leave out the first turns: an earlier process has played them."""
        self._next = max(self._next, turns)

    def take(self, request: ModelRequest) -> AssistantMessage:
        """Record a request and give the next turn.

        Raises:
            ModelError: no turn is left, or the turn is an error.
        """
        self.requests.append(request)
        if self._next >= len(self._turns):
            raise ModelError(
                f"the script of {self._name!r} has {len(self._turns)} turns and was asked for one more",
                hint="Add a turn to the script, or end it with a turn that has text and no calls.",
            )
        turn = self._turns[self._next]
        self._next += 1
        value = turn(request) if callable(turn) else turn
        if isinstance(value, Exception):
            raise value
        if isinstance(value, AssistantMessage):
            return value
        return _message(_check(value, f"turn {self._next}"), self._next, self._name)


class ScriptedConversation:
    """One conversation with a ScriptedModel."""

    def __init__(
        self,
        model: ScriptedModel,
        instructions: str,
        tools: Toolkit,
        output_schema: Mapping[str, Any] | None,
    ) -> None:
        self._model = model
        self._instructions = instructions
        self._tools = tools
        self._output_schema = output_schema
        self._messages: list[Message] = []

    def append(self, message: Message) -> None:
        """Add a message."""
        self._messages.append(message)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn of the script.

        Raises:
            ModelError: the script has ended, or plays an error.
        """
        message = self._model.take(
            ModelRequest(
                instructions=self._instructions,
                tools=self._tools,
                output_schema=self._output_schema,
                held=self._messages,
                count=len(self._messages),
                allow_tools=allow_tools,
            )
        )
        for event in events_of(message):
            yield event


def events_of(message: AssistantMessage) -> list[ModelEvent]:
    """The events of a message that is known as a whole: each block in one piece, then Replied."""
    out: list[ModelEvent] = []
    index = 0
    for block in message.content:
        match block:
            case Text(text):
                out.append(TextDelta(text))
            case Thinking(text=text):
                out.append(ThinkingDelta(text))
            case ToolCall(id=id, name=name, arguments=arguments):
                sent = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
                out.append(CallDelta(index=index, id=id or "", name=name, arguments=sent))
                index += 1
            case _:
                pass
    out.append(TurnEnd(message))
    return out


def _check(turn: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    strange = [key for key in turn if key not in _TURN_KEYS]
    if strange:
        raise ConfigError(f"{where}: unknown key {strange[0]!r}; a turn has {', '.join(sorted(_TURN_KEYS))}")
    if turn.get("stop", "end") not in _STOPS:
        raise ConfigError(f"{where}: stop is {turn['stop']!r}, which is none of {', '.join(_STOPS)}")
    calls: object = turn.get("calls") or []
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise ConfigError(f"{where}: calls is {calls!r}, not a list of calls")
    for call in cast(Sequence[object], calls):
        if isinstance(call, ToolCall):
            continue
        if not isinstance(call, Mapping) or not isinstance(cast(Mapping[str, Any], call).get("name"), str):
            raise ConfigError(f'{where}: a call is {{"name": …, "arguments": …}}, not {call!r}')
        unknown = [key for key in cast(Mapping[str, Any], call) if key not in _CALL_KEYS]
        if unknown:
            raise ConfigError(
                f"{where}: unknown key {unknown[0]!r} in a call; it has {', '.join(sorted(_CALL_KEYS))}"
            )
    return turn


def _message(turn: Mapping[str, Any], number: int, model: str) -> AssistantMessage:
    if turn.get("error") is not None:
        raise ModelError(str(turn["error"]), retryable=True)
    content: list[Text | Thinking | ToolCall] = []
    if turn.get("thinking"):
        content.append(Thinking(str(turn["thinking"])))
    if turn.get("text"):
        content.append(Text(str(turn["text"])))
    calls: Sequence[ToolCall | Mapping[str, Any]] = turn.get("calls") or []
    for place, call in enumerate(calls, 1):
        content.append(call if isinstance(call, ToolCall) else _call(call, f"call_{number}_{place}"))
    stop: StopReason = turn.get("stop") or ("tools" if calls else "end")
    usage: Mapping[str, Any] = turn.get("usage") or {}
    return AssistantMessage(
        content=tuple(content),
        stop=stop,
        usage=Usage(
            input_tokens=usage.get("input_tokens", 0),
            output_tokens=usage.get("output_tokens", 0),
            cache_read_tokens=usage.get("cache_read_tokens", 0),
            cache_write_tokens=usage.get("cache_write_tokens", 0),
            requests=usage.get("requests", 1),
            cost_usd=usage.get("cost_usd"),
        ),
        model=model,
    )


def _call(call: Mapping[str, Any], id: str) -> ToolCall:
    # An id that the script gives as "" or null is played as it stands: providers do send that.
    given: str | None = call.get("id", id)
    arguments: str | Mapping[str, Any] | None = call.get("arguments", {})
    return ToolCall(given, call["name"], arguments)
