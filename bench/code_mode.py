"""Code mode: 20 reads by one program beside the same reads made directly, within one run."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pegboard import Executor, builtin
from pegboard.runtime.tokens import toolkit_tokens
from pegboard.tools import AGENT

READS = 20
ROUNDS = 150
BARS = {"x_one_after_the_other": 3.0, "x_gathered": 3.0}
"""What a program's time may be at most, in times of the direct calls."""

LOOP = f"""
texts = []
for n in range({READS}):
    texts.append((await read_file(f"f{{n}}.txt"))["text"])
len(texts)
"""
GATHER = f"""
import asyncio
len(await asyncio.gather(*[read_file(f"f{{n}}.txt") for n in range({READS})]))
"""


async def fastest(act: Callable[[], Awaitable[object]]) -> float:
    """Seconds of the fastest round: the others measure what else the machine does."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        await act()
        best = min(best, time.perf_counter() - begun)
    return best


async def measure(folder: Path) -> dict[str, float]:
    """The figures."""
    for n in range(READS):
        (folder / f"f{n}.txt").write_text(f"file {n}\n")
    async with Executor(builtin("read_file", "run_code"), workspace=folder) as executor:

        async def direct() -> None:
            for n in range(READS):
                await executor.call("read_file", {"path": f"f{n}.txt", "force": True})

        async def program(code: str) -> None:
            result = await executor.call("run_code", {"code": code})
            assert result.data == READS, result.text

        await program(LOOP)  # Opens the pool of workers.
        alone = await fastest(direct)
        loop = await fastest(lambda: program(LOOP))
        gathered = await fastest(lambda: program(GATHER))
    kit = builtin(*AGENT)
    shown = Executor([*kit, *builtin("run_code")], workspace=folder).toolkit.advertised()
    return {
        "ms_direct": alone * 1000,
        "x_one_after_the_other": loop / alone,
        "x_gathered": gathered / alone,
        "tokens_of_schemas": sum(toolkit_tokens(kit).values()),
        "tokens_in_code_mode": sum(toolkit_tokens(shown).values()),
    }


def main() -> int:
    """Print the figures; 1 if one is over its bar."""
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder)))
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))
    over = [name for name, bar in BARS.items() if figures[name] > bar]
    for name in over:
        print(f"{name} is over its bar of {BARS[name]}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
