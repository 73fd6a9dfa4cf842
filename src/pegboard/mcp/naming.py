"""What a server's tools are called here, within every model's alphabet."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Style: TypeAlias = Literal["mcp", "double_underscore", "raw"]

STYLES: Final[tuple[Style, ...]] = ("mcp", "double_underscore", "raw")
LONGEST: Final = 64
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_TAIL: Final = 8


@dataclass(frozen=True, slots=True)
class ExposedName:
    """One name of a server and what became of it.

    Attributes:
        original: as the server calls it; calls use this.
        name: as models see it; empty where it was refused.
        note: why it was refused, or what a person should know; may be empty.
    """

    original: str
    name: str
    note: str = ""


def exposed_name(server: str, tool: str, style: Style = "mcp") -> str:
    """The name for models: `^[a-zA-Z0-9_-]{1,64}$`, depending on nothing but its arguments.

    A name that had to be changed carries a tail of its digest, so that `a.b` and `a_b` stay apart.
    """
    match style:
        case "mcp":
            whole = f"mcp_{server}_{tool}"
        case "double_underscore":
            whole = f"{server}__{tool}"
        case "raw":
            whole = tool
    clean = _OTHER.sub("_", whole)
    if (
        clean == whole
        and len(clean) <= LONGEST
        and (style != "raw" or clean[:1].isalpha() or clean[:1] == "_")
    ):
        return clean
    if not (clean[:1].isalpha() or clean[:1] == "_"):
        clean = f"t_{clean}"
    return tailed(clean, f"{server}\0{tool}")


def tailed(name: str, key: str) -> str:
    """`name` cut so that a digest of `key` fits behind it."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL]
    return f"{name[: LONGEST - _TAIL - 1]}_{digest}"


def name_all(server: str, tools: Iterable[str], style: Style = "mcp") -> list[ExposedName]:
    """Names for a server's tools, in order; refused ones have an empty name and the reason.

    Refused: empty names, names with control, direction or invisible characters, and the second of two
    equal names (which of both a call would reach is the server's secret).
    """
    out: list[ExposedName] = []
    seen: set[str] = set()
    used: set[str] = set()
    for tool in tools:
        why = refusal(tool)
        if not why and tool in seen:
            why = "the server lists two tools of this name"
        if why:
            out.append(ExposedName(tool, "", why))
            continue
        seen.add(tool)
        name = exposed_name(server, tool, style)
        if name in used:
            name = tailed(name, f"{server}\0{tool}\0again")
        used.add(name)
        out.append(ExposedName(tool, name, mixed_scripts(tool)))
    return out


def refusal(name: str) -> str:
    """Why a name is not taken at all; empty where it is."""
    if not name.strip():
        return "the name is empty"
    for char in name:
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") or char in "\u2028\u2029":
            return f"the name holds the control or invisible character U+{ord(char):04X}"
    return ""


def mixed_scripts(name: str) -> str:
    """A warning where one word of a name mixes Latin with look-alike letters; else empty."""
    for word in re.findall(r"[^\W\d_]+", name):
        scripts = {_script(c) for c in word}
        if len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1:
            return f"the name mixes scripts ({', '.join(sorted(scripts))}): it may imitate another"
    return ""


def _script(char: str) -> str:
    return unicodedata.name(char, "UNKNOWN").split(" ", 1)[0]
