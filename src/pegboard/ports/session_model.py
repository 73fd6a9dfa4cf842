"""SessionModel: what a tool may ask of the model that the session runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pegboard.core.content import Block


class SessionModel(Protocol):
    """Asks the session's model one question, outside the conversation and without tools."""

    async def answer(self, prompt: str, content: Sequence[Block] = ()) -> str:
        """The model's answer to a prompt about some content. What it costs is charged to the run.

        Raises:
            Unavailable: no model belongs to this session.
            ModelError: the model could not be reached.
        """
        ...
