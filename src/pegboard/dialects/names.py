"""Tool names that a provider accepts, and the way back."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import BuildError
from pegboard.dialects.protocol import ToolkitView

DIGEST_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Alphabet:
    """What a provider takes as a tool name.

    Attributes:
        other: matches one character that is not allowed.
        first: matches an allowed first character.
        length: the most characters.
    """

    other: re.Pattern[str]
    first: re.Pattern[str]
    length: int


OPENAI: Final = Alphabet(re.compile(r"[^a-zA-Z0-9_-]"), re.compile(r"[a-zA-Z0-9_-]"), 64)
ANTHROPIC: Final = OPENAI
GEMINI: Final = Alphabet(re.compile(r"[^a-zA-Z0-9_.-]"), re.compile(r"[a-zA-Z_]"), 64)
CALL_IDS: Final = OPENAI
"""What Responses, Anthropic and Gemini take as the id of a call: another provider's is changed, both ways alike."""
CHAT_CALL_IDS: Final = Alphabet(OPENAI.other, OPENAI.first, 40)
"""The same for Chat Completions."""
MCP: Final = Alphabet(re.compile(r"[^a-zA-Z0-9_./-]"), re.compile(r"[a-zA-Z0-9_./-]"), 128)


def wire_name(name: str, alphabet: Alphabet) -> str:
    """The name as sent: itself where the provider takes it, else a readable stem and a digest.

    The result depends on `name` alone, so that history can be encoded without a toolkit.
    """
    if 0 < len(name) <= alphabet.length and not alphabet.other.search(name) and alphabet.first.match(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_DIGITS]
    stem = alphabet.other.sub("_", name)[: alphabet.length - DIGEST_DIGITS - 1]
    if not alphabet.first.match(stem):
        stem = ("t" + stem)[: alphabet.length - DIGEST_DIGITS - 1]
    return f"{stem}_{digest}"


def wire_names(toolkit: ToolkitView, alphabet: Alphabet) -> dict[str, str]:
    """The tools' own names by wire name.

    Raises:
        BuildError: two tools would be sent under one name.
    """
    names: dict[str, str] = {}
    for tool in toolkit:
        sent = wire_name(tool.name, alphabet)
        if sent in names:
            raise BuildError(
                f"tools {names[sent]!r} and {tool.name!r} would both be sent as {sent!r}: rename one of them"
            )
        names[sent] = tool.name
    return names
