"""FallbackModel: several models, the next one where one cannot answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pegboard.core.errors import ModelError
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import Message
from pegboard.ports.model import AskedAgain, Conversation, Model, ModelEvent, TurnEnd

ToolsFor: TypeAlias = Callable[[str, Toolkit], Toolkit]
"""Which of a kit's tools a model of this name may have."""


class FallbackModel:
    """Models in order of preference.

    A conversation stays with the model that answered last. Where that one fails before its first
    event, the next ones are tried with the whole conversation; an answer that broke off is never
    continued by another model.

    Args:
        models: at least one.
        tools_for: narrows the toolkit for each model; None = all tools for all.

    Raises:
        ValueError: no models.
    """

    def __init__(self, models: Sequence[Model], *, tools_for: ToolsFor | None = None) -> None:
        if not models:
            raise ValueError("a FallbackModel needs at least one model")
        self._models = tuple(models)
        self._tools_for = tools_for

    @property
    def name(self) -> str:
        """The first model's name."""
        return self._models[0].name

    @property
    def destination(self) -> str:
        """Everywhere the data may go."""
        return ", ".join(dict.fromkeys(model.destination for model in self._models))

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> FallbackConversation:
        """Open a conversation with each; no request is made yet."""
        talks: list[tuple[str, Conversation]] = []
        for model in self._models:
            kit = tools if self._tools_for is None else self._tools_for(model.name, tools)
            talk = model.converse(instructions=instructions, tools=kit, output_schema=output_schema)
            talks.append((model.name, talk))
        return FallbackConversation(talks)

    async def aclose(self) -> None:
        """Close them all."""
        for model in self._models:
            await model.aclose()


class FallbackConversation:
    """One talk, held with whichever model answers."""

    def __init__(self, talks: Sequence[tuple[str, Conversation]]) -> None:
        self._talks = tuple(talks)
        self._current = 0

    def append(self, message: Message) -> None:
        """Add a message to every model's conversation."""
        for _, talk in self._talks:
            talk.append(message)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn, of the first model that answers.

        Raises:
            ModelError: all of them failed, or one broke off.
        """
        failures: list[tuple[str, ModelError]] = []
        for place in range(self._current, len(self._talks)):
            name, talk = self._talks[place]
            begun = False
            try:
                async for event in talk.reply(allow_tools=allow_tools):
                    begun = not isinstance(event, AskedAgain)
                    self._current = place
                    # Which of the models it was, as `--model` names it: tools and prices hang on that.
                    yield TurnEnd(replace(event.message, model=name)) if isinstance(event, TurnEnd) else event
            except ModelError as error:
                if begun:
                    raise
                failures.append((name, error))
            else:
                return
        if len(failures) == 1:
            raise failures[0][1]
        raise ModelError(
            "no model could answer: " + "; ".join(f"{name}: {error.message}" for name, error in failures),
            hint=failures[-1][1].hint,
            retryable=any(error.retryable for _, error in failures),
        )
