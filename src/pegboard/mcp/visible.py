"""Visible text: what a server's words hold that a person would not see or should know of."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pegboard.core.sanitise import clean

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


def hidden(text: str) -> list[str]:
    """The invisible characters of a text, as `U+…`, each once."""
    found = {m[0] for m in _SUSPECT.finditer(text) if not _stays(text, m.start())}
    return [f"U+{ord(c):04X}" for c in sorted(found)]


def report(text: str) -> list[str]:
    """What a person should know about a description before trusting it, one sentence each."""
    out: list[str] = []
    unseen = hidden(text)
    if unseen:
        out.append(f"holds invisible characters ({', '.join(unseen[:5])})")
    match = _INSTRUCTIONS.search(clean(text))
    if match is not None:
        out.append(f"reads like instructions to a model ({' '.join(match[0].split())[:80]!r})")
    return out


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


__all__ = ["clean", "hidden", "report"]
