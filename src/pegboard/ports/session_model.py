"""SessionModel: what a tool may ask of the model that the session runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pegboard.core.content import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What the model says, and what that cost in US dollars (None = no price is known)."""

    text: str
    cost_usd: float | None = None


class SessionModel(Protocol):
    """Asks the session's model one question, outside the conversation and without tools."""

    async def answer(self, prompt: str, content: Sequence[Block] = ()) -> ModelAnswer:
        """The model's answer to a prompt about some content. The tool that asks tells the cost in its notes.

        Raises:
            Unavailable: no model belongs to this session.
            ModelError: the model could not be reached.
        """
        ...
