"""How well and how fast search_tools finds the right tool among many, measured on BFCL's own requests.

Prints one line of JSON: recall@5 of every oracle call's tool over all tools of the set (one definition a
name), the same with equal weights (nothing chosen by looking at the set) and on another set of requests, and the time of one search over 5,000 tools as the median of 200 (milliseconds), beside a linear scan
for the query's words in the same run (the floor's job, without ranking).

    python bench/tool_search.py [FOLDER OF OUTSIDE DATA]
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pegboard.core.effects import PURE
from pegboard.core.tool import Tool
from pegboard.core.tool_search import PROSE, WEIGHTS, TextIndex, ToolIndex, fields_of, words

LEAST_RECALL = 0.85
DATA = Path(__file__).resolve().parents[1] / "tests" / "data"


@dataclass(frozen=True)
class View:
    """A tool as the index reads it."""

    name: str
    description: str
    schema: Mapping[str, Any]


def load(folder: Path) -> tuple[dict[str, View], list[tuple[str, set[str]]]]:
    """All tools by name, and each request with the names that its oracle calls."""
    tools: dict[str, View] = {}
    requests: list[tuple[str, set[str]]] = []
    with gzip.open(folder / "bfcl" / "single.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            for t in row["tools"]:
                tools.setdefault(t["name"], View(t["name"], t["description"], t["parameters"]))
            text = " ".join(m["content"] for turn in row["query"] for m in turn if m["role"] == "user")
            requests.append((text, {c["name"] for c in row["calls"]}))
    return tools, requests


def recall(
    tools: dict[str, View],
    requests: list[tuple[str, set[str]]],
    k: int = 5,
    weights: Mapping[str, float] = WEIGHTS,
) -> float:
    """The share of oracle tools that stand among the first `k`."""
    names = list(tools)
    index = TextIndex([fields_of(t) for t in tools.values()], weights, prose=PROSE)
    hits = total = 0
    for text, wanted in requests:
        found = {names[i] for i, _ in index.search(text, limit=k)}
        hits += len(wanted & found)
        total += len(wanted)
    return hits / total


def other_set(folder: Path, tools: dict[str, View]) -> float:
    """recall@5 on requests that no weight was chosen by: turns of BFCL's conversations with one oracle call, over
    the tools of both sets. Many of these turns speak of earlier ones, so no search could find all."""
    own: dict[str, View] = {}
    with (folder / "bfcl" / "multi_turn_tools.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            for t in json.loads(line)["tools_raw"]:
                own.setdefault(t["name"], View(t["name"], t["description"], t["parameters"]))
    requests: dict[str, set[str]] = {}
    with gzip.open(folder / "bfcl" / "multi_turn.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            for turn, calls in zip(row["questions"], row["turns"], strict=True):
                text = " ".join(m["content"] for m in turn if m["role"] == "user")
                if len(calls) == 1 and text:
                    requests.setdefault(text, {calls[0]["name"]})
    return recall({**tools, **own}, list(requests.items()))


def speed(
    tools: dict[str, View], requests: list[tuple[str, set[str]]], count: int = 5000
) -> tuple[float, float]:
    """Median milliseconds of one search over `count` tools, and of a plain scan for the same words."""
    views = list(tools.values())
    kit = [
        Tool(lambda: None, name=f"t{n}_{views[n % len(views)].name}"[:100].replace(" ", "_"),
             description=views[n % len(views)].description, effects=PURE,
             parameters=views[n % len(views)].schema)
        for n in range(count)
    ]  # fmt: skip
    index = ToolIndex(kit)
    index.search("warm up")
    texts = [set(words(" ".join(fields_of(t).values()))) for t in kit]
    ours, floor = [], []
    for text, _ in requests[:200]:
        started = time.perf_counter()
        index.search(text)
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        wanted = set(words(text))
        sorted(range(count), key=lambda i: -len(wanted & texts[i]))[:5]
        floor.append(time.perf_counter() - started)
    return statistics.median(ours) * 1000, statistics.median(floor) * 1000


def main() -> None:
    """Measure and print."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    tools, requests = load(folder)
    found = recall(tools, requests)
    ours, floor = speed(tools, requests)
    print(
        json.dumps(
            {
                "bench": "tool_search",
                "tools": len(tools),
                "requests": len(requests),
                "recall@5": round(found, 4),
                "recall@5 equal weights": round(
                    recall(tools, requests, weights=dict.fromkeys(WEIGHTS, 1.0)), 4
                ),
                "recall@5 conversations": round(other_set(folder, tools), 4),
                "search_ms_5000": round(ours, 3),
                "scan_ms_5000": round(floor, 3),
                "ratio": round(ours / floor, 3),
                "most_ms": 10,
                "least_recall": LEAST_RECALL,
                "met": ours <= 10 and found >= LEAST_RECALL,
            }
        )
    )


if __name__ == "__main__":
    main()
