"""The five documents as they stand: their code blocks, and what a TypeScript parameter list says as a schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pegboard.core.schema.repair import guess_json
from tests.ledger import DATA

_LINE = re.compile(r"^  (\w+)(\?)?: ([^;]+);(?:\s*//\s*(.*))?$")
_NUMBERED = re.compile(r"(?:^|\s)1 2 3 4 5 (?:\d+ )*")


@dataclass(frozen=True)
class Block:
    """One code block: `document` 000 to 004, `number` from 1, its language and text."""

    document: str
    number: int
    language: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.document}-{self.number}"


def document(number: str) -> str:
    """The text of one document."""
    return next((DATA / "seeds").glob(f"{number}_*.txt")).read_text(encoding="utf-8")


def blocks(number: str) -> list[Block]:
    """All code blocks: fences; in 001, which lost its fences, the passages that start with line numbers."""
    text = document(number)
    if number == "001":
        found = [("", line[m.end() :]) for line in text.splitlines() if (m := _NUMBERED.search(line))]
    else:
        found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(number, n, language, body) for n, (language, body) in enumerate(found, 1)]


def block(identity: str) -> Block:
    """One block by its id, `003-8`."""
    number, _, index = identity.partition("-")
    return blocks(number)[int(index) - 1]


def typescript_schema(text: str) -> dict[str, Any]:
    """A parameter list of 003 as JSON Schema."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    flat = re.sub(r"Array<\{.*?\}>", "Array", text, flags=re.DOTALL)
    for name, optional, kind, comment in (m.groups() for m in map(_LINE.match, flat.splitlines()) if m):
        properties[name] = {**_kind(kind), **({"description": comment} if comment else {})}
        if not optional:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _kind(kind: str) -> dict[str, Any]:
    if "'" in kind:
        return {"type": "string", "enum": re.findall(r"'([^']*)'", kind)}
    if kind == "Array":
        return {"type": "array", "items": {"type": "object"}}
    return {"type": kind}


def literals(text: str) -> list[dict[str, Any]]:
    """The object literals of a block of JSON, JSON5 or TypeScript."""
    found = [guess_json(part) for part in re.findall(r"^\{.*?^\}", text, re.MULTILINE | re.DOTALL)]
    return [f for f in found if isinstance(f, dict)]
