"""Sessions on one PostgreSQL store by one and by two workers: `python -m bench.scale_out`.

Each session has ten turns of a model that takes 200 ms, and each worker runs two sessions at once. Counted is from the
first event to the last, without the workers' start. Needs the programs of PostgreSQL and the extra `dbos`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.postgres import run_server

from pegboard.app.app import App
from pegboard.core.content import Text, ToolCall
from pegboard.core.policy.approval import AllowOnce
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.models import MODELS
from pegboard.ports.messages import InboundMessage
from pegboard.ports.model import TurnEnd
from pegboard.runtime.engine.dbos import QueueLimits
from pegboard.services.runtime import Interaction
from pegboard.store.inbox import Inbox

TURNS = 10
TURN_S = 0.2
SESSIONS = 16
EACH = 2
BARS = {"x_two_dbos_workers_over_one": 1.7}
"""What a figure must be at least."""


class Slow:
    """A model that thinks for 200 ms, and lists a folder in all turns but the last."""

    name = "slow:m"
    destination = "nowhere"

    @classmethod
    def open_named(cls, name: str, sources: object) -> Slow:
        return cls()

    def converse(self, **_: Any) -> Slow:
        talk = Slow()
        talk.results = 0
        return talk

    def append(self, message: Any) -> None:
        if isinstance(message, UserMessage):
            self.results = 0
        elif isinstance(message, ResultsMessage):
            self.results += 1

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[TurnEnd]:
        await asyncio.sleep(TURN_S)
        if self.results >= TURNS - 1:
            yield TurnEnd(AssistantMessage(content=(Text("Over."),)))
            return
        call = ToolCall(f"c{self.results}", "list_dir", {"path": f"d{self.results}"})
        yield TurnEnd(AssistantMessage(content=(call,), stop="tools"))

    async def aclose(self) -> None:
        """Nothing."""


async def work(folder: Path, url: str, engine: Any) -> None:
    """One worker, until nothing is left."""
    MODELS["slow"] = "bench.scale_out:Slow"  # type: ignore[index]
    with App.open(workspace=folder, store=url, mode="full") as app:
        await app.store.connect()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        worker = app.worker(
            Interaction(approver=AllowOnce()), model="slow:m", engine=engine, limits=QueueLimits(each=EACH)
        )
        await worker.work(until_idle=True)


async def seconds(folder: Path, url: str, workers: int, engine: str) -> float:
    """From the first event to the last."""
    with App.open(workspace=folder, store=url) as app:
        await app.store.connect()
        for n in range(SESSIONS):
            await Inbox(app.store).add(
                InboundMessage(session=f"s{n}", content="Go", id=f"m{n}", by="schedule")
            )
        command = [sys.executable, "-m", "bench.scale_out", "work", str(folder), url, engine]
        started = [
            await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE) for _ in range(workers)
        ]
        async with asyncio.timeout(300):
            for process in started:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"ready\n"
            await asyncio.gather(*(process.communicate(b"go\n") for process in started))
        rows = await app.runs.list(limit=None)
        assert [row.status for row in rows] == ["done"] * SESSIONS
        ends: list[float] = []
        for row in rows:
            records = await app.store.read(row.stream)
            ends += [records[0].at, records[-1].at]
        return max(ends) - min(ends)


async def main() -> None:
    """Print the figures."""
    took: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory() as home, run_server() as server:
        os.environ["HOME"] = home
        for number, (engine, workers) in enumerate([(e, n) for e in ("dbos", "local") for n in (1, 2)]):
            folder = Path(home) / str(number)
            for n in range(TURNS):
                (folder / f"d{n}").mkdir(parents=True)
            took[engine, workers] = await seconds(folder, server.url(), workers, engine)
            emit(f"s_{SESSIONS}_sessions_{engine}_{workers}", took[engine, workers], "s")
    for engine in ("dbos", "local"):
        emit(f"x_two_{engine}_workers_over_one", took[engine, 1] / took[engine, 2], "x")


def emit(name: str, value: float, unit: str) -> None:
    print(
        json.dumps({"name": name, "value": round(value, 2), "unit": unit, "bar": BARS.get(name)}), flush=True
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        asyncio.run(work(Path(sys.argv[2]), *sys.argv[3:5]))
    else:
        asyncio.run(main())
