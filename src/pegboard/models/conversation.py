"""ProviderConversation: one talk with a remote model; each message is encoded once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from pegboard.core.errors import ModelError
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, Opaque
from pegboard.dialects import protocol
from pegboard.dialects.protocol import Dialect, ToolkitView
from pegboard.models.adaptation import Adaptation
from pegboard.models.failures import Endpoint, WholeReply, failure_of, is_malformed_call, is_torn
from pegboard.models.retry import Retry
from pegboard.models.scripted import events_of
from pegboard.ports.model import AskedAgain, CallDelta, ModelEvent, TextDelta, ThinkingDelta, TurnEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTiming:
    """How a conversation waits: policy, clock, sleep and the source of spread."""

    retry: Retry = field(default_factory=Retry)
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    spread: Callable[[], float] = random.random


class Wire(Protocol):
    """One provider's requests."""

    @property
    def endpoint(self) -> Endpoint:
        """Where they go."""
        ...

    @property
    def dialect(self) -> Dialect:
        """How messages are written."""
        ...

    def send(
        self, messages: list[dict[str, Any]], *, tools: ToolkitView, allow_tools: bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Make one streamed request and give its chunks; raises whatever the SDK raises."""
        ...

    def ends(self, chunk: Mapping[str, Any]) -> bool:
        """Whether this chunk says that the answer is complete."""
        ...


class ProviderConversation:
    """A talk with a model behind a Wire.

    A request that fails is repeated as `Retry` says: no call runs before its turn is whole, so nothing has happened.
    What was forwarded of a broken answer is void (`AskedAgain`). A request that the model or its server refuses for
    something that can be left out is made again without that; see `Adaptation`.
    An answer without text, thinking or calls is asked for once more, then given as it is.
    """

    def __init__(self, wire: Wire, tools: Toolkit, waiting: RetryTiming, adaptation: Adaptation) -> None:
        self._wire = wire
        self._tools = tools
        self._waiting = waiting
        self._adaptation = adaptation
        self._held: list[Message] = []
        self._messages: list[dict[str, Any]] = []
        self._version = adaptation.version

    def append(self, message: Message) -> None:
        """Add a message; it is encoded here, and again only if the server refuses something of it."""
        self._held.append(message)
        self._messages.extend(self._encoded(message))

    def _encoded(self, message: Message) -> list[dict[str, Any]]:
        return self._wire.dialect.encode(self._adaptation.message(message))

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn: deltas as they arrive, then TurnEnd.

        Raises:
            ModelError: see `failures`; nothing was appended.
        """
        attempt = 0
        asked_again = False
        while True:
            attempt += 1
            forwarded = False
            try:
                async with aclosing(self._attempt(allow_tools)) as events:
                    async for event in events:
                        if isinstance(event, TurnEnd) and _is_empty(event.message) and not asked_again:
                            asked_again = True
                            break
                        forwarded = True
                        yield event
                    else:
                        return
                continue
            except ModelError as error:
                failure = error
            if self._version != self._adaptation.version:
                # Another conversation with this model has learned meanwhile what it refuses.
                continue
            if why := self._adaptation.learn(failure, self._held, self._tools):
                attempt -= 1
                yield AskedAgain(f"{self._wire.endpoint.host}: {why}")
                continue
            delay = self._delay(failure, attempt)
            if delay is None:
                raise failure
            await self._waiting.sleep(delay)
            if forwarded:
                yield AskedAgain(f"{failure.message}; the answer is asked for once more")

    def _delay(self, failure: ModelError, attempt: int) -> float | None:
        if not failure.retryable:
            return None
        return self._waiting.retry.delay_s(attempt, failure.wait_s, self._waiting.spread())

    async def _attempt(self, allow_tools: bool) -> AsyncGenerator[ModelEvent, None]:
        if self._version != self._adaptation.version:
            self._version = self._adaptation.version
            self._messages = [wire for m in self._held for wire in self._encoded(m)]
        reader = self._wire.dialect.stream(self._tools)
        endpoint = self._wire.endpoint
        ended = False
        tools = self._adaptation.tools(self._tools)
        chunks = self._wire.send(self._messages, tools=tools, allow_tools=allow_tools)
        try:
            async with aclosing(chunks):
                while True:
                    try:
                        chunk = await anext(chunks)
                    except StopAsyncIteration:
                        break
                    except ModelError:
                        raise
                    except Exception as error:
                        # Whatever breaks behind its end, the answer is whole.
                        if ended and is_torn(error):
                            break
                        raise
                    ended = ended or self._wire.ends(chunk)
                    for delta in reader.feed(chunk):
                        event = _event(delta)
                        if event is not None:
                            yield event
            for delta in reader.flush():
                event = _event(delta)
                if event is not None:
                    yield event
            if not ended:
                raise ModelError(f"the answer of {endpoint.host} broke off before its end", retryable=True)
            message = reader.finish()
        except Exception as error:
            failure = failure_of(error, endpoint, self._waiting.clock.now())
            if isinstance(failure, WholeReply):
                message = self._read_whole(failure)
                for event in events_of(message)[:-1]:
                    yield event
            elif is_malformed_call(failure.message):
                message = AssistantMessage(stop="malformed")
            else:
                raise failure from error
        yield TurnEnd(_named(message, endpoint))

    def _read_whole(self, reply: WholeReply) -> AssistantMessage:
        """The message of a reply that came as JSON; of a list, each entry is a chunk of the stream.

        Raises:
            WholeReply: it is none.
        """
        dialect, body = self._wire.dialect, reply.body
        try:
            if not isinstance(body, list):
                return dialect.decode_message(body, self._tools)
            reader = dialect.stream(self._tools)
            for chunk in cast("list[Any]", body):
                reader.feed(chunk)
            return reader.finish()
        except ModelError:
            raise reply from None


def _is_empty(message: AssistantMessage) -> bool:
    return not message.content and message.stop == "end"


def _named(message: AssistantMessage, endpoint: Endpoint) -> AssistantMessage:
    """The message with the model's name, its items with the server that wants them back."""
    if any(isinstance(part, Opaque) for part in message.content):
        stamped = [replace(p, origin=endpoint.host) if isinstance(p, Opaque) else p for p in message.content]
        message = replace(message, content=tuple(stamped))
    return message if message.model else replace(message, model=endpoint.model)


def _event(delta: protocol.Delta) -> ModelEvent | None:
    match delta:
        case protocol.TextChunk(text):
            return TextDelta(text)
        case protocol.ThinkingChunk(text):
            return ThinkingDelta(text)
        case protocol.CallStartChunk(index=index, id=id, name=name):
            return CallDelta(index=index, id=id, name=name)
        case protocol.CallChunk(index=index, arguments=arguments):
            return CallDelta(index=index, arguments=arguments)
