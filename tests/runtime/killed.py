"""A run that is killed and taken up again, as a program of its own: `killed.py FOLDER COUNT SEED`.

For each of COUNT kill points: a child process runs a scripted agent over the SQLite stream and is
killed with SIGKILL after a random time; further children take the run up, killed again at random,
until one ends it. Prints one JSON line for each: what the world and the stream say.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pegboard import Agent, Toolkit, tool
from pegboard.core.call import ToolCall
from pegboard.core.content import Text
from pegboard.core.effects import PURE, Effect
from pegboard.core.transcript import AssistantMessage
from pegboard.ports.model import Replied
from pegboard.store.logs import SessionLog, decode
from pegboard.store.sqlite import SqliteStore

TURNS = 6
SESSION = "killed"
KEY = b"k" * 32


class Counting:
    """A model whose next turn depends on the transcript alone, as a real one's does."""

    name = "counting"
    destination = "nowhere"

    def converse(self, **_: Any) -> CountingTalk:
        return CountingTalk()

    async def aclose(self) -> None:
        """Nothing."""


class CountingTalk:
    def __init__(self) -> None:
        self.turns = 0

    def append(self, message: Any) -> None:
        self.turns += isinstance(message, AssistantMessage)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[Any]:
        n = self.turns
        await asyncio.sleep(0)
        if n >= TURNS:
            yield Replied(AssistantMessage(content=(Text("all done"),)))
            return
        calls = [ToolCall(f"w{n}", "note", {"text": f"w{n}"}), ToolCall(f"r{n}", "look", {})]
        if n % 2:
            calls.append(ToolCall(f"s{n}", "send", {"text": f"s{n}"}))
        yield Replied(AssistantMessage(content=tuple(calls), stop="tools"))


def kit(world: Path) -> Toolkit:
    def put(line: str) -> None:
        with open(world, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()

    @tool(effects=[Effect("write", "world.txt")])
    async def note(text: str) -> str:
        """Write a line."""
        put(text)
        await asyncio.sleep(0.001)
        return f"noted {text}"

    @tool(effects=[Effect("send", "test:1")])
    async def send(text: str) -> str:
        """Send a line."""
        put(text)
        return f"sent {text}"

    @tool(effects=PURE, idempotent=True)
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0.001)
        return "seen"

    return Toolkit([note, send, look])


async def work(folder: Path, run: str | None) -> None:
    store = SqliteStore(folder / "history.sqlite")
    log = SessionLog(store, SESSION, key=KEY, heads=folder / "head.json", run=run or "")
    agent = Agent(tools=kit(folder / "world.txt"), model=Counting(), mode="full")
    if run is None:
        await agent.run("go", session=SESSION, recorder=log)
    else:
        async for _ in agent.resume(run, decode(store.read(SESSION)), recorder=log):
            pass
    await log.flush()
    log.close()
    store.close()


def child(folder: Path, run: str | None) -> int:
    """Fork a worker; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(work(folder, run))
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  (the child tells whatever it was)
            print(json.dumps({"crash": repr(error)}), flush=True)
            os._exit(1)
    return pid


def once(folder: Path, chance: random.Random) -> dict[str, Any]:
    folder.mkdir()
    delays: list[float] = []
    run: str | None = None
    kills = 0
    for attempt in range(8):
        pid = child(folder, run)
        if attempt < 3:
            delays.append(chance.uniform(0.0, 0.06))
            time.sleep(delays[-1])
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        kills += os.WIFSIGNALED(status)
        store = SqliteStore(folder / "history.sqlite")
        rows = store.runs(limit=-1)
        store.close()
        run = rows[0].id if rows else None
        if rows and rows[0].status == "done":
            break
    return {"folder": str(folder), "kills": kills, "delays": delays, "run": run, "rows": len(rows),
            "status": rows[0].status if rows else "none"}  # fmt: skip


def main() -> None:
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    for number in range(count):
        print(json.dumps(once(folder / str(number), chance)), flush=True)


if __name__ == "__main__":
    main()
