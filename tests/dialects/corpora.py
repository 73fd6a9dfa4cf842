"""The outside corpora that concern dialects."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.ledger import DATA


@cache
def toolcall_text() -> list[dict[str, Any]]:
    """Model outputs in text with the calls meant; complete ones that need no prompt to be read."""
    with (DATA / "toolcall_text" / "cases.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [r for r in rows if r["standalone"] and not r["partial"]]


def with_calls() -> list[dict[str, Any]]:
    return [r for r in toolcall_text() if r["expect"]["calls"]]


def without_calls() -> list[dict[str, Any]]:
    return [r for r in toolcall_text() if not r["expect"]["calls"] and r["expect"].get("match") != "no_crash"]


def malformed() -> list[dict[str, Any]]:
    return [r for r in toolcall_text() if r["expect"].get("match") == "no_crash"]


def matches(expected: dict[str, Any], got: list[tuple[str, dict[str, Any]]]) -> bool:
    """Whether the calls are those meant, as far as the row says (name, arguments, types, count)."""
    return len(expected["calls"]) == len(got) and all(
        ("name" not in call or call["name"] == name)
        and ("arguments" not in call or _same(call["arguments"], arguments))
        and all(
            type(arguments.get(k)).__name__ == kind for k, kind in call.get("arguments_types", {}).items()
        )
        for call, (name, arguments) in zip(expected["calls"], got, strict=True)
    )


def bfcl() -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Tools and oracle calls of each single case; none where the oracle breaks its own schema."""
    with gzip.open(DATA / "bfcl" / "single.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["tools"], row["calls"] if row["valid_by_jsonschema"] else []


def tau_bench() -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Tools and oracle calls of each task."""
    for domain in ("retail", "airline"):
        folder = DATA / "tau_bench"
        with (folder / f"{domain}_tools.jsonl").open(encoding="utf-8") as lines:
            tools = [json.loads(line) for line in lines]
        with (folder / f"{domain}_tasks.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                yield tools, json.loads(line)["calls"]


def sampled(rows: list[Any], count: int) -> list[Any]:
    """Some of the rows; the printed seed gives the same ones again."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"sample seed {seed}")
    return random.Random(seed).sample(rows, min(count, len(rows)))


def pieces(text: str, seed: int) -> list[str]:
    """The text in pieces of 1 to 7 characters."""
    cut = random.Random(seed)
    out: list[str] = []
    while text:
        size = cut.randint(1, 7)
        out.append(text[:size])
        text = text[size:]
    return out


def _same(a: Any, b: Any) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
