"""RateLimitedModel: a model that is asked no more than its provider allows, by all workers together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from pegboard.core.errors import ModelError
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, Usage
from pegboard.ports.model import AskedAgain, Conversation, Model, ModelEvent, TurnEnd
from pegboard.ports.store import Store
from pegboard.runtime.availability import matches_model
from pegboard.runtime.tokens import message_tokens, text_tokens, toolkit_tokens
from pegboard.store.rates import RateLimit, Rates, Turn

MOST_WAIT_S: Final = 600.0
"""A request that would have to wait for longer fails at once."""


class RateLimitedModel:
    """Waits before each request until the limit lets it through. What the provider counted replaces the estimate.

    Args:
        model: answers.
        limit: what all that share it may ask for.
        name: the limit's in the store.
        store: opens the store.
        clock: tells the time.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        model: Model,
        limit: RateLimit,
        *,
        name: str,
        store: Callable[[], Awaitable[Store]],
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._model = model
        self._limit = limit
        self._limit_name = name
        self._store = store
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._rates: Rates | None = None

    @property
    def name(self) -> str:
        """The model's."""
        return self._model.name

    @property
    def destination(self) -> str:
        """The model's."""
        return self._model.destination

    @property
    def calls_tools(self) -> bool:
        """Whether the model takes tools; False = its calls are read from its text."""
        return getattr(self._model, "calls_tools", True) is not False

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> Conversation:
        """See Model."""
        talk = self._model.converse(instructions=instructions, tools=tools, output_schema=output_schema)
        return _Limited(self, talk, text_tokens(instructions) + sum(toolkit_tokens(tools).values()))

    async def aclose(self) -> None:
        """See Model."""
        await self._model.aclose()

    async def wait(self, tokens: int) -> Turn:
        """Wait until a request of so many tokens may be made; what was counted for it.

        Raises:
            ModelError: it would have to wait for longer than ten minutes.
            StoreError: the store cannot be used.
        """
        if self._rates is None:
            self._rates = Rates(await self._store(), clock=self._clock)
        turn = await self._rates.take(self._limit_name, self._limit, tokens, most_wait_s=MOST_WAIT_S)
        wait_s = turn.at - self._clock.now()
        if wait_s > MOST_WAIT_S:
            raise ModelError(
                f"{self.name} was not asked: the rate limit {self._limit_name!r} is used up for {wait_s:.0f} s",
                hint="Raise it in rate_limits, or run fewer sessions at once.",
                retryable=True,
            )
        if wait_s > 0:
            logging.getLogger("pegboard").info(
                "%s waits %.0f s for the rate limit %r", self.name, wait_s, self._limit_name
            )
            await self._sleep(wait_s)
        return turn

    async def settle(self, turn: Turn, usage: Usage) -> None:
        """Count what a request took instead of what was expected."""
        took = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if self._rates is not None and self._limit.tokens is not None and took:
            await self._rates.settle(self._limit_name, turn, took)


class _Limited:
    def __init__(self, model: RateLimitedModel, talk: Conversation, tokens: int) -> None:
        self._model = model
        self._talk = talk
        self._tokens = tokens

    def append(self, message: Message) -> None:
        """See Conversation."""
        usage = message.usage if isinstance(message, AssistantMessage) else Usage()
        # What the provider has counted of the talk so far is better than our estimate.
        counted = (
            usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        )
        self._tokens = counted or self._tokens + message_tokens(message)
        self._talk.append(message)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """See Conversation."""
        turn = await self._model.wait(self._tokens)
        async with aclosing(cast(Any, self._talk.reply(allow_tools=allow_tools))) as events:
            async for event in events:
                match event:
                    case AskedAgain():
                        yield event
                        turn = await self._model.wait(self._tokens)
                    case TurnEnd(message):
                        await self._model.settle(turn, message.usage)
                        yield event
                    case _:
                        yield event


def limited(model: Model, limits: Mapping[str, RateLimit], *, store: Callable[[], Awaitable[Store]]) -> Model:
    """A model behind the first limit whose pattern names it; the model itself if none does.

    Args:
        model: answers.
        limits: by pattern of a model's name, as in `allow_models`.
        store: opens the store that the workers share.
    """
    for pattern, limit in limits.items():
        if matches_model(model.name, pattern):
            return RateLimitedModel(model, limit, name=pattern, store=store)
    return model
