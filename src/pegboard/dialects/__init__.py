"""Dialects: pure translation between the canonical transcript and each provider's wire form."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from pegboard.core.errors import BuildError
from pegboard.core.errors import check_text as given_text

if TYPE_CHECKING:
    from pegboard.dialects.protocol import Dialect

__all__ = ["DIALECTS", "dialect"]

DIALECTS: Final[dict[str, str]] = {
    "openai-chat": "pegboard.dialects.openai_chat:OpenAIChat",
    "openai-chat-strict": "pegboard.dialects.openai_chat:strict",
    "openai-responses": "pegboard.dialects.openai_responses:OpenAIResponses",
    "openai-responses-strict": "pegboard.dialects.openai_responses:strict",
    "anthropic": "pegboard.dialects.anthropic:Anthropic",
    "gemini": "pegboard.dialects.gemini:Gemini",
    "mcp": "pegboard.dialects.mcp:MCP",
    "text": "pegboard.dialects.text:TextDialect",
    "xml": "pegboard.dialects.xml:XMLDialect",
}
"""The family: name to module and factory. A new dialect is one file and one line here."""


def dialect(name: str) -> Dialect:
    """The dialect of this name; `_` may stand for `-`.

    Raises:
        BuildError: no such dialect; the message lists those that there are.
    """
    return _load(given_text(name, "dialect(…)", meant="a name").strip().lower().replace("_", "-"))


@cache
def _load(name: str) -> Dialect:
    place = DIALECTS.get(name)
    if place is None:
        raise BuildError(f"unknown dialect {name!r}; known are {', '.join(DIALECTS)}")
    module, _, factory = place.partition(":")
    return cast("Dialect", getattr(import_module(module), factory)())
