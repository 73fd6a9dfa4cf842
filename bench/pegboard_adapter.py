"""Pegboard's hooks for the side-by-side benchmarks; found through BENCH_ADAPTERS."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ENV = "pegboard"
IMPORTS = {
    "pegboard": "import pegboard",
    "pegboard: one tool defined and called": (
        "import asyncio, pegboard\n"
        "@pegboard.tool(effects=pegboard.PURE)\n"
        "def add(a: int, b: int) -> int:\n"
        "    'Add.'\n"
        "    return a + b\n"
        "asyncio.run(pegboard.Executor([add]).call('add', {'a': 1, 'b': 2}))\n"
        "import sys"
    ),
}


def build(functions: list[Callable[..., Any]]) -> Any:
    """A toolkit from typed functions."""
    from pegboard import PURE, Toolkit, tool

    return Toolkit([tool(effects=PURE)(fn) for fn in functions])


def render(kit: Any) -> list[Any]:
    """The list for OpenAI."""
    return kit.schemas("openai-chat")


@asynccontextmanager
async def _executor(functions: list[Callable[..., Any]], threads: int = 1024) -> AsyncIterator[Any]:
    """The whole path: decode, validate, effects, policy, run, shape, record in memory."""
    from pegboard import Executor

    async with Executor(build(functions), threads=threads) as door:
        yield door.call


def dispatchers() -> dict[str, Any]:
    """The one public door."""
    return {"Executor.call": _executor}


def parallel() -> dict[str, tuple[Any, bool]]:
    """Concurrent calls, async and blocking."""
    return {"Executor + gather": (_executor, True)}


async def agent_loop(turns: int, recorder: Any = None) -> list[float]:
    """`turns` tool turns against a scripted model."""
    from fixtures import step  # pyright: ignore[reportMissingImports]
    from lib import clock  # pyright: ignore[reportMissingImports]

    from pegboard import PURE, Agent, Limits, tool
    from pegboard.models import ScriptedModel

    stamps: list[float] = []

    def turn(n: int) -> Callable[..., dict[str, Any]]:
        def answer(*_: Any) -> dict[str, Any]:
            stamps.append(clock())
            if n >= turns:
                return {"text": "end"}
            return {"calls": [{"id": f"c{n}", "name": "step", "arguments": {"n": n}}]}

        return answer

    model = ScriptedModel([turn(n) for n in range(turns + 1)])
    agent = Agent(tools=[tool(effects=PURE)(step)], model=model, limits=Limits(turns=turns + 10))
    await agent.run("go", recorder=recorder)
    return stamps


def file_ops() -> dict[str, Any]:
    """The file tools through the Executor, workspace = the file's folder."""

    def call(name: str, folder: str, **arguments: Any) -> str:
        from pegboard import Executor, builtin

        async def go() -> str:
            async with Executor(builtin(name), workspace=folder) as door:
                return str(await door.call(name, arguments))

        return asyncio.run(go())

    def read(path: str, offset: int, limit: int) -> str:
        return call("read_file", str(Path(path).parent), path=Path(path).name, offset=offset, limit=limit)

    def edit(path: str, old: str, new: str) -> str:
        return call("edit_file", str(Path(path).parent), path=Path(path).name, old_string=old, new_string=new)

    def glob(path: str, pattern: str) -> str:
        return call("glob", path, pattern=pattern)

    def grep(path: str, pattern: str) -> str:
        return call("grep", path, pattern=pattern, mode="files")

    # Peers import what they need before the clock runs; ours is imported at first use.
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("one\n")
        (
            read(f"{folder}/a.txt", 1, 1),
            edit(f"{folder}/a.txt", "one", "two"),
            glob(folder, "*"),
            grep(folder, "two"),
        )
    return {"read": read, "edit": edit, "hint": edit, "glob": glob, "grep": grep}


def exec_ops() -> dict[str, Any]:
    """Commands without a sandbox and in bubblewrap."""
    folder = tempfile.mkdtemp(prefix="pegboard-bench-")

    def runner(backend: str) -> Callable[[str], Any]:
        shell: Any = None

        async def run(command: str) -> Any:
            nonlocal shell
            from pegboard.ports.shell import ExecRequest
            from pegboard.shell.exec import CommandShell
            from pegboard.shell.sandbox.confinement import Confinement
            from pegboard.shell.sandbox.selection import select_backend

            if shell is None:
                place = Path(folder)
                chosen = await select_backend(
                    Confinement(workspace=place, state=place.parent / (place.name + "-state")),
                    backend=backend,
                )
                shell = CommandShell(place, backend=chosen.backend, environment=os.environ)
            done = await shell.run(
                ExecRequest(command=command, timeout_s=100, max_output_bytes=64_000, read_only=True)
            )
            return done.stdout

        return run

    return {"exec, no sandbox": runner("none"), "exec, bubblewrap": runner("bubblewrap")}


def mcp_server_cmd(transport: str, port: int) -> list[str]:
    """The command of our echo server."""
    return [sys.executable, str(Path(__file__).resolve().parent / "mcp_echo.py"), transport, str(port)]


@asynccontextmanager
async def mcp_client(target: Any) -> AsyncIterator[Any]:
    """A call through our client: an echo tool of the server `target`, the pipeline around it."""
    from pegboard import Executor
    from pegboard.mcp.client import MCPServer

    if isinstance(target, str):
        server = MCPServer("peer", url=target)
    else:
        server = MCPServer("peer", command=target[0], args=target[1:], environment=os.environ)
    try:
        async with Executor(await server.tools(), policy=["allow call:peer/*"]) as door:
            yield lambda text: door.call("mcp_peer_echo", {"text": text})
    finally:
        await server.aclose()


def main() -> None:
    """One call through our MCP client to our MCP server, beside the same tool called here."""

    async def echo(text: str) -> str:
        """Echo the text."""
        return text

    async def each(call: Callable[[str], Any]) -> float:
        await call("warm up")
        means: list[float] = []
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(200):
                await call("hello")
            means.append((time.perf_counter() - start) / 200 * 1e3)
        return min(means)

    async def go() -> tuple[float, float]:
        async with mcp_client(mcp_server_cmd("stdio", 0)) as far, _executor([echo]) as near:
            return await each(far), await each(lambda text: near("echo", {"text": text}))

    far, near = asyncio.run(go())
    print(f"echo          over MCP {far:.2f} ms, in this process {near:.3f} ms, ratio {far / near:.0f}")


def cron_ops() -> dict[str, Any]:
    """The next time of a cron expression, read and computed anew."""
    from pegboard.ports.schedules import Cron
    from pegboard.runtime.schedule import next_time

    return {"pegboard": lambda expression, now: next_time(Cron(expr=expression), now)}


def html_ops() -> dict[str, Any]:
    """A page as `web_fetch` gives it: without what is hidden, its main content chosen, as Markdown."""
    from pegboard.web.extract import extract

    return {"pegboard: web_fetch": lambda html: extract(html, "https://example.com/page").markdown}


if __name__ == "__main__":
    main()
