"""Importing, calling and registering, each a ratio within this run: ours and its floor by turns, the least of several rounds.

python bench/core_bars.py [ROUNDS]

CPU of processes is read from `wait4`, which counts microseconds; `os.times` counts hundredths of a second, too
coarse for a process that lives for nine of them. What waits is measured on the wall clock, all else as CPU.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agents import function_tool
from agents.tool_context import ToolContext
from pydantic import BaseModel, TypeAdapter, create_model

from pegboard import PURE, Executor, ReadPath, Toolkit, builtin, tool

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
CALLS = 2000
MANY = 1000

PYDANTIC = "import pydantic\nclass M(pydantic.BaseModel):\n    a: int\n    b: int\n"
ONE_CALL = (
    "import asyncio, pegboard\n"
    "@pegboard.tool(effects=pegboard.PURE)\n"
    "def add(a: int, b: int) -> int:\n"
    "    'Add.'\n"
    "    return a + b\n"
    "asyncio.run(pegboard.Executor([add]).call('add', {'a': 1, 'b': 2}))\n"
)
HELP = "import sys\nsys.argv = ['pegboard', '--help']\nfrom pegboard.cli.main import main\nmain()\n"


class Where(BaseModel):
    """A filter."""

    field: str
    op: str = "eq"


async def lookup(query: str, limit: int, threshold: float, tags: list[str], where: Where) -> str:
    """Look something up.

    Args:
        query: What to look for.
        limit: How many rows.
        threshold: Lowest score.
        tags: Tags to match.
        where: A condition.
    """
    return "ok"


ARGUMENTS = json.dumps(
    {"query": "q", "limit": 5, "threshold": 0.5, "tags": ["a", "b"], "where": {"field": "f", "op": "lt"}}
)


async def nap() -> str:
    """Wait without blocking."""
    await asyncio.sleep(0.01)
    return "ok"


def block() -> str:
    """Block a thread."""
    time.sleep(0.05)
    return "ok"


def show(what: str, ours: float, floor: float, unit: str, most: float | None) -> None:
    """One line: the figure, its floor, the ratio, and whether it is within the bar."""
    bar = "" if most is None else f"  bar {most} x: {'met' if ours / floor <= most else 'MISSED'}"
    print(f"{what:<60} {ours:9.2f} {unit:<3} floor {floor:9.2f}  {ours / floor:6.2f} x{bar}", flush=True)


def by_turns(*measured: Callable[[], float]) -> list[float]:
    """The least that each one took, over all rounds."""
    rows = [[one() for one in measured] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rows, strict=True)]


def process_ms(source: str) -> Callable[[], float]:
    """CPU of a fresh interpreter that runs `source`, with compiled modules."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def run() -> float:
        child = subprocess.Popen([sys.executable, "-c", source], env=env, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, source
        return (used.ru_utime + used.ru_stime) * 1e3

    run()
    return run


def loading() -> None:
    """Import, first call, help."""
    model, empty, call = process_ms(PYDANTIC), process_ms("import pegboard"), process_ms(ONE_CALL)
    bare, typer, helped = (
        process_ms("from pydantic import BaseModel"),
        process_ms("import typer"),
        process_ms(HELP),
    )
    m, e, c, b, t, h = by_turns(model, empty, call, bare, typer, helped)
    show("import pegboard / pydantic + one BaseModel", e, m, "ms", 0.5)
    show("import, define, call / pydantic + one BaseModel", c, m, "ms", 1.6)
    show("import, define, call / import of pydantic alone", c, b, "ms", None)
    show("pegboard --help / import typer", h, t, "ms", 1.5)


def cpu_us(call: Callable[[], Awaitable[Any]]) -> Callable[[], float]:
    """CPU of one call, one after the other."""

    async def go() -> float:
        for _ in range(50):
            await call()
        start = time.process_time()
        for _ in range(CALLS):
            await call()
        return (time.process_time() - start) / CALLS * 1e6

    return lambda: asyncio.run(go())


def calling() -> None:
    """The whole way of one call, with five arguments, and with an effect."""
    fields = {n: (p.annotation, ...) for n, p in inspect.signature(lookup, eval_str=True).parameters.items()}
    model: Any = create_model("Lookup", **fields)
    validate = TypeAdapter(model).validator.validate_json

    async def floor() -> str:
        return await lookup(**validate(ARGUMENTS).__dict__)

    theirs = function_tool(lookup)

    async def peer() -> str:
        context: Any = ToolContext(
            context=None, tool_name="lookup", tool_call_id="c1", tool_arguments=ARGUMENTS
        )
        return await theirs.on_invoke_tool(context, ARGUMENTS)

    @tool(effects=PURE)
    async def pure(path: str) -> str:
        """Take a path as text."""
        return path

    @tool
    async def reading(path: ReadPath) -> str:
        """Take a path that is read."""
        return path

    with tempfile.TemporaryDirectory() as folder:
        door = Executor([tool(effects=PURE)(lookup), pure, reading, *builtin("read_file")], workspace=folder)
        path = '{"path": "a.txt"}'
        bare, invoked, ours, plain, read = by_turns(
            cpu_us(floor),
            cpu_us(peer),
            cpu_us(lambda: door.call("lookup", ARGUMENTS)),
            cpu_us(lambda: door.call("pure", path)),
            cpu_us(lambda: door.call("reading", path)),
        )
        asyncio.run(door.aclose())
    show("a call of five arguments / validate, run", ours, bare, "us", None)
    show("a call of five arguments / openai-agents' on_invoke_tool", ours, invoked, "us", 1.0)
    show("a call with a read effect / the same without", read, plain, "us", None)


def together() -> None:
    """A thousand calls at once."""

    async def all_of(call: Callable[[], Awaitable[Any]]) -> float:
        await call()
        gc.collect()
        start = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(MANY)))
        return (time.perf_counter() - start) * 1e3

    async def ours(function: Callable[..., Any]) -> float:
        async with Executor([tool(effects=PURE)(function)], threads=1024) as door:
            return await all_of(lambda: door.call(function.__name__, "{}"))

    async def floor() -> float:
        async def call() -> str:
            return await nap(**json.loads("{}"))

        return await all_of(call)

    async def threads() -> float:
        with ThreadPoolExecutor(1024) as pool:
            loop = asyncio.get_running_loop()
            return await all_of(lambda: loop.run_in_executor(pool, block))

    # Each pair by itself: what comes first after a thousand threads have ended is slower than what comes second.
    mine, bare = by_turns(lambda: asyncio.run(ours(nap)), lambda: asyncio.run(floor()))
    blocking, pooled = by_turns(lambda: asyncio.run(ours(block)), lambda: asyncio.run(threads()))
    show("1,000 async calls of 10 ms / bare gather", mine, bare, "ms", 1.5)
    show("1,000 blocking calls of 50 ms / 1,024 threads", blocking, pooled, "ms", 1.3)


def registering() -> None:
    """A thousand tools: made, shown for the first time, shown again."""

    def functions() -> list[Any]:
        scope: dict[str, Any] = {"Where": Where}
        source = inspect.getsource(lookup).replace("async def lookup", "async def lookup_{}", 1)
        exec("\n".join(source.replace("{}", str(n), 1) for n in range(MANY)), scope)
        return [scope[f"lookup_{n}"] for n in range(MANY)]

    def measured() -> tuple[float, float, float, float]:
        made = functions()
        start = time.process_time()
        kit = Toolkit([tool(effects=PURE)(one) for one in made])
        built = time.process_time()
        kit.schemas("openai-chat")
        shown = time.process_time()
        kit.schemas("openai-chat")
        again = time.process_time()
        for one in functions():
            hints = inspect.signature(one).parameters
            create_model(
                one.__name__, **{n: (p.annotation, ...) for n, p in hints.items()}
            ).model_json_schema()
        floor = time.process_time()
        return built - start, shown - start, again - shown, floor - again

    rows = [measured() for _ in range(max(2, ROUNDS // 3))]
    built, shown, again, floor = (min(column) for column in zip(*rows, strict=True))
    show("registering a tool (bar: 60 us) / pydantic's model", built * 1e3, floor * 1e3, "us", None)
    show("registering and first rendering / pydantic's schema", shown * 1e3, floor * 1e3, "us", 1.1)
    show("rendering 1,000 tools again (bar: 1 ms) / pydantic", again * 1e3, floor * 1e3, "ms", None)


def main() -> None:
    """All figures."""
    print(
        f"load {os.getloadavg()[0]:.1f}, {ROUNDS} rounds, Python {sys.version.split()[0]}, {Path(__file__).name}"
    )
    loading()
    calling()
    together()
    registering()


if __name__ == "__main__":
    main()
