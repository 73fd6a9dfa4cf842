"""ProviderConversation: one talk with a remote model; each message is encoded once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pegboard.core.errors import ModelError
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message
from pegboard.dialects import protocol
from pegboard.dialects.protocol import Dialect
from pegboard.models.failures import Endpoint, failure_of, is_torn
from pegboard.models.retry import Failure, Retry
from pegboard.ports.model import CallDelta, ModelEvent, TextDelta, ThinkingDelta, TurnEnd


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
        self, messages: list[dict[str, Any]], *, tools: Toolkit, allow_tools: bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Make one streamed request and give its chunks; raises whatever the SDK raises."""
        ...

    def ends(self, chunk: Mapping[str, Any]) -> bool:
        """Whether this chunk says that the answer is complete."""
        ...


class ProviderConversation:
    """A talk with a model behind a Wire.

    A request that fails before anything was forwarded is repeated as `Retry` says. Once a delta
    was forwarded, nothing is repeated: the error is raised, retryable, and the caller decides.
    An answer without text, thinking or calls is asked for once more, then given as it is.
    """

    def __init__(self, wire: Wire, tools: Toolkit, waiting: RetryTiming) -> None:
        self._wire = wire
        self._tools = tools
        self._waiting = waiting
        self._messages: list[dict[str, Any]] = []

    def append(self, message: Message) -> None:
        """Add a message; it is encoded here, once."""
        self._messages.extend(self._wire.dialect.encode(message))

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn: deltas as they arrive, then Replied.

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
            except _Failed as failed:
                delay = self._delay(failed.failure, attempt, forwarded)
                if delay is None:
                    raise failed.failure.error from failed.__cause__
                await self._waiting.sleep(delay)

    def _delay(self, failure: Failure, attempt: int, forwarded: bool) -> float | None:
        if forwarded or not failure.error.retryable:
            return None
        return self._waiting.retry.delay_s(attempt, failure.asked_s, self._waiting.spread())

    async def _attempt(self, allow_tools: bool) -> AsyncGenerator[ModelEvent, None]:
        reader = self._wire.dialect.stream(self._tools)
        endpoint = self._wire.endpoint
        ended = False
        chunks = self._wire.send(self._messages, tools=self._tools, allow_tools=allow_tools)
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
        except ModelError as error:
            raise _Failed(Failure(error)) from error
        except Exception as error:
            raise _Failed(failure_of(error, endpoint, self._waiting.clock.now())) from error
        yield TurnEnd(_named(message, endpoint))


class _Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


def _is_empty(message: AssistantMessage) -> bool:
    return not message.content and message.stop == "end"


def _named(message: AssistantMessage, endpoint: Endpoint) -> AssistantMessage:
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
