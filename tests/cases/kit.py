"""The cases that went wrong elsewhere, tried through the public surface alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pegboard import Executor, builtin
from pegboard.dialects import dialect
from pegboard.models import ScriptedModel
from tests.ledger import DATA
from tests.transcript import assert_valid_transcript


@cache
def rows(theme: str) -> dict[str, dict[str, Any]]:
    """The cases of a theme: id -> row."""
    lines = (DATA / "cases" / "dev.jsonl").read_text("utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines) if row["theme"] == theme}


def of_kind(theme: str, *kinds: str) -> list[dict[str, Any]]:
    """The rows of a theme whose outcome was computed in one of these ways."""
    return [row for row in rows(theme).values() if row.get("calc", {}).get("kind") in kinds]


def row_id(row: Mapping[str, Any]) -> str:
    """How a row is shown by pytest."""
    return str(row["id"])


def door(workspace: Path, *names: str, mode: str = "workspace", **options: Any) -> Executor:
    """An executor of built-in tools over a workspace."""
    return Executor(builtin(*names), workspace=workspace, mode=mode, **options)


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files, by their paths below `root`."""
    for name, content in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def tree(root: Path) -> dict[str, bytes]:
    """Every file below `root`: its path -> its bytes."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def sent(model: ScriptedModel) -> list[Any]:
    """The messages of the last request that the model got."""
    return list(model.requests[-1].messages)


def wire(messages: list[Any]) -> list[dict[str, Any]]:
    """Messages as a provider gets them; a transcript that it would refuse fails."""
    encoded = [one for message in messages for one in dialect("openai-chat").encode(message)]
    json.dumps(encoded, ensure_ascii=False).encode("utf-8")
    assert_valid_transcript(encoded, dialect="openai-chat")
    return encoded


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a JSON value."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)
