"""Isolated tools: what a call to a waiting worker process costs beside the same call made in the program."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from pegboard import PURE, Executor, Tool

ROUNDS = 500


def echo(number: int) -> int:
    """A number."""
    return number


async def fastest(executor: Executor, name: str) -> float:
    """Milliseconds of the fastest round: the others measure what else the machine does."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        assert (await executor.call(name, {"number": 1})).data == 1
        best = min(best, time.perf_counter() - begun)
    return best * 1000


async def main() -> None:
    """Print the figures as JSON."""
    tools = [Tool(echo, name="here", effects=PURE), Tool(echo, name="worker", effects=PURE, isolated=True)]
    async with Executor(tools) as executor:
        begun = time.perf_counter()
        await executor.call("worker", {"number": 1})
        first_ms = (time.perf_counter() - begun) * 1000
        here, warm = await fastest(executor, "here"), await fastest(executor, "worker")
    print(json.dumps({"first_ms": first_ms, "here_ms": here, "warm_ms": warm, "more_ms": warm - here}))


if __name__ == "__main__":
    # A worker imports the function by its module's name.
    sys.path.insert(0, str(Path(__file__).parent))
    import isolated

    asyncio.run(isolated.main())
