"""Visible text: what a server's words hold that a person would not see or should know of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.text import sanitise

_SUSPECT: Final = re.compile(
    "[^\\t\\n\\r -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u06ff\u3001-\u9fff\uac00-\ud7a3]"
)
_INSTRUCTIONS: Final = re.compile(
    r"<\s*/?\s*(?:important|system|instructions?|secret|hidden|admin)\b"
    r"|\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|all|any|other|system)\b"
    r"|\b(?:do not|don't|never)\b[^.\n]{0,30}\b(?:tell|mention|inform|reveal|show|notify)\b[^.\n]{0,30}\buser\b"
    r"|\bwithout (?:telling|informing|asking|notifying)\b[^.\n]{0,20}\buser\b"
    r"|\b(?:before|after|instead of|when(?:ever)?)\b[^.\n]{0,40}\b(?:using|calling|invoking|running)\b[^.\n]{0,30}\b(?:this|any|other|another) tools?\b"
    r"|\byou (?:must|have to|should) (?:always|first|also)\b|\bsystem prompt\b"
    r"|(?:~|/home/[^/\s]+|/root)/\.(?:ssh|aws|gnupg|config|env)|\bid_rsa\b|\.cursor/mcp\.json"
    r"|(?:忽略|无视)[^。\n]{0,10}(?:之前|以上|先前|所有)[^。\n]{0,8}(?:指令|说明|提示)|不要告诉用户",
    re.IGNORECASE,
)


_MARKUP: Final = re.compile(
    r"<!--|!\[[^\]\n]{0,200}\]\(|<\s*(?:img|script|iframe|link|style|svg|object|form)\b", re.IGNORECASE
)
_LONG: Final = 8_192
# Letters of other scripts that look like these, so that a look-alike word is still the word.
_ALIKE: Final = str.maketrans("аеорсухіѕԁһјӏοαρνАЕОРСХІЅЈΟΑΡΝ", "aeopcyxisdhjloapvAEOPCXISJOAPN")
_WRAPPED: Final = re.compile(r"(?<![.:;!?)\]*-])\s*\n\s*(?![-*•#\d\s])")
_MOST: Final = 10
# Parameter names that ask a model for what it should not give (files of secrets, its own instructions).
_GREEDY: Final = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519)|etc_passwd|(?:system|developer)_?prompt|(?:conversation|chat)_?history|mcp_?json"
    r"|(?:contents?|text|dump|value)_(?:of|from)_\w*(?:env|ssh|keys?|secrets?|credentials?|config|passwords?)"
    r"|(?:all|available|other)_?tools?_?(?:list|names)",
    re.IGNORECASE,
)


def hidden(text: str) -> list[str]:
    """The invisible characters of a text, as `U+…`, each once."""
    found = {m[0] for m in _SUSPECT.finditer(text) if not _stays(text, m.start())}
    return [f"U+{ord(c):04X}" for c in sorted(found)]


def report(text: str) -> list[str]:
    """What a person should know about a description before trusting it, one sentence each."""
    out: list[str] = []
    if len(text) <= _LONG and text.isascii() and text.isalnum():
        # One plain word hides nothing and says nothing: most texts of a schema are type names.
        return out
    unseen = hidden(text)
    if unseen:
        out.append(f"holds invisible characters ({', '.join(unseen[:5])})")
    match = _INSTRUCTIONS.search(as_read(text))
    if match is not None:
        out.append(f"reads like instructions to a model ({' '.join(match[0].split())[:80]!r})")
    markup = _MARKUP.search(text)
    if markup is not None:
        out.append(f"holds markup that a reader would not see as it is ({markup[0][:40]!r})")
    if (size := len(text.encode("utf-8", "replace"))) > _LONG:
        out.append(f"is {size} bytes long and is shown cut to {_LONG}")
    return out


def as_read(text: str) -> str:
    """The text as it reads, for looking words up: no invisible characters, full-width and look-alike letters as what
    they look like, wrapped lines as one. Words in other scripts stand there both ways."""
    seen = _WRAPPED.sub(" ", unicodedata.normalize("NFKC", sanitise(text)))
    alike = seen.translate(_ALIKE)
    return seen if alike == seen else f"{seen}\n{alike}"


def plain_address(text: str) -> str:
    """The address, where every program reads the same host in it.

    Raises:
        ValueError: it holds letters outside ASCII or characters that programs read differently, such as a backslash.
    """
    if not text.isascii() or not text.isprintable() or any(c in text for c in " \"'<>\\^`{|}"):
        raise ValueError("no plain web address")
    return text


def report_schema(schema: Mapping[str, Any]) -> list[str]:
    """What a person should know about a schema: names that ask for too much, texts as in `report`."""
    out: list[str] = []
    level: list[Any] = [schema]
    while level:
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                for key, value in cast("dict[Any, Any]", node).items():
                    if _GREEDY.search(str(key)):
                        out.append(f"asks for {str(key)[:80]!r}")
                    if isinstance(value, str):
                        out += [f"has a parameter text that {line}" for line in report(value)]
                    below.append(value)
            elif isinstance(node, list):
                below += cast("list[Any]", node)
        level = [n for n in below if isinstance(n, dict | list)]
    return list(dict.fromkeys(out))[:_MOST]


def _stays(text: str, at: int) -> bool:
    char = text[at]
    category = unicodedata.category(char)
    if char in "\u200c\u200d":
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        return bool(before and after) and ord(before) > 0x2FF and ord(after) > 0x2FF
    if 0xFE00 <= ord(char) <= 0xFE0F:
        # One variation selector chooses a glyph; a run of them carries hidden data.
        return at > 0 and not (0xFE00 <= ord(text[at - 1]) <= 0xFE0F)
    if char in "\u2028\u2029\u3164\uffa0\u115f\u1160\u17b4\u17b5\u2800\u034f\u00ad":
        return False
    return category not in ("Cc", "Cf", "Cs", "Co", "Cn")


__all__ = ["as_read", "hidden", "plain_address", "report", "report_schema", "sanitise"]
