"""The durable runtime: sessions, jobs, subagents, recovery, and the queue beside bare DBOS.

python bench/durable_bars.py [NAME …]   all, or those whose names begin so

Each figure is the median of five rounds on the wall clock, printed with the machine's load, as it is measured on a
machine with other work. Those of DBOS need the programs of PostgreSQL and the extra `dbos`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from tests.postgres import run_server  # noqa: E402

from pegboard.app.app import App  # noqa: E402
from pegboard.core.content import Text, ToolCall  # noqa: E402
from pegboard.core.context import Context, attach, detach  # noqa: E402
from pegboard.core.events import (  # noqa: E402
    CallFinished,
    CallStarted,
    ModelReplied,
    Notice,
    RunFinished,
    RunStarted,
    UserSaid,
)
from pegboard.core.policy.approval import AllowOnce  # noqa: E402
from pegboard.core.result import ToolResult  # noqa: E402
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage  # noqa: E402
from pegboard.ports.schedules import Every, Job  # noqa: E402
from pegboard.ports.subagents import ChildRequest  # noqa: E402
from pegboard.runtime.engine import engine_of  # noqa: E402
from pegboard.runtime.engine.dbos import DbosQueue, QueueLimits  # noqa: E402
from pegboard.runtime.engine.local import LocalEngine  # noqa: E402
from pegboard.runtime.session import Backing, open_session  # noqa: E402
from pegboard.services.runtime import Interaction  # noqa: E402
from pegboard.store import open_store  # noqa: E402
from pegboard.store.chain import Chain  # noqa: E402
from pegboard.store.jobs import Jobs  # noqa: E402
from pegboard.store.log import Log  # noqa: E402

ROUNDS: Final = 5
RUNS: Final = 1000
KEY: Final = b"k" * 32
BARS: Final[dict[str, tuple[str, float]]] = {
    "mib_1000_idle_sessions": ("<", 80),
    "ms_open_100000_events": ("<=", 80),
    "ms_add_job": ("<", 1),
    "ms_add_job_among_100000": ("<", 1),
    "ms_due_among_100000": ("<", 1),
    "ms_subagent_start": ("<", 8),
    "ms_durable_step": ("<=", 0.6),
    "per_s_batched_appends": (">=", 4000),
    "s_recover_1000_runs": ("<=", 15),
    "x_dbos_steps_over_bare": (">=", 0.6),
}


async def timed(act: Callable[[], Awaitable[Any]]) -> float:
    """Seconds that an act takes."""
    begun = time.perf_counter()
    await act()
    return time.perf_counter() - begun


def emit(name: str, value: float, *, note: str = "") -> None:
    """Print a figure with its bar and the load."""
    sign, bar = BARS.get(name, ("", None))
    met = None if bar is None else {"<": value < bar, "<=": value <= bar, ">=": value >= bar}[sign]
    print(
        json.dumps(
            {"name": name, "value": round(value, 3), "bar": f"{sign} {bar}" if sign else None, "met": met,
             "load": round(os.getloadavg()[0], 1)} | ({"note": note} if note else {})
        ),
        flush=True,
    )  # fmt: skip


# -- sessions -----------------------------------------------------------------------------------

IDLE = """
import asyncio, sys
from contextlib import AsyncExitStack
from pathlib import Path
from pegboard.app.app import App

def rss():
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmRSS"))

async def main():
    with App.open(workspace=Path(sys.argv[1])) as app:
        await app.store.connect()
        async with AsyncExitStack() as stack:
            talk = await stack.enter_async_context(app.sessions.open("first", model=sys.argv[2]))
            async for _ in talk.send("Hello"):
                pass
            before = rss()
            for n in range(1000):
                talk = await stack.enter_async_context(app.sessions.open(f"s{n}", model=sys.argv[2]))
                async for _ in talk.send("Hello"):
                    pass
            print(before, rss())

asyncio.run(main())
"""


async def idle_sessions(folder: Path) -> None:
    """Memory that a thousand open sessions with one answered message each add to a process."""
    turns = folder / "turns.jsonl"
    turns.write_text(json.dumps({"text": "Hello."}))
    (folder / "w").mkdir()
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", IDLE, str(folder / "w"), f"scripted:{turns}"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after = map(float, done.stdout.split())
    emit("mib_1000_idle_sessions", after - before, note=f"{before:.0f} to {after:.0f} MiB")


def a_run(number: int, turns: int) -> list[Any]:
    """The events of a run, four a turn."""
    id = f"run_{number:08d}"
    out: list[Any] = [
        RunStarted(run=id, session="s", agent="main", model="m", task=f"Task {number}", detail={"mark": id}),
        UserSaid(UserMessage.of(f"Task {number}: say which files there are and what is in them.")),
    ]
    for turn in range(turns):
        call = ToolCall(f"c{number}.{turn}", "grep", '{"pattern": "x", "path": "src"}')
        result = ToolResult(content=(Text("src/a.py:10: x = 1\n" * 12),), call_id=call.id or "", tool="grep")
        out += [
            ModelReplied(AssistantMessage(content=(Text("I look for it."), call), stop="tools")),
            CallStarted(call_id=call.id or "", tool="grep", arguments={"pattern": "x", "path": "src"}),
            CallFinished(result),
            Notice(text="seen"),
        ]
    return [*out, RunFinished(run=id, status="done", answer="There are two.")]


WINDOW: Final = 100_000
"""Tokens that the model of the long session takes; the session is shortened when it has more."""


class LongSession:
    """Runs of 24 turns, shortened as a loop would."""

    def __init__(self) -> None:
        self.number = 0
        self._tokens = 0

    def run(self) -> list[Any]:
        from pegboard.core.events import ContextCompacted
        from pegboard.runtime.tokens import message_tokens

        out: list[Any] = []
        for event in a_run(self.number, 24):
            out.append(event)
            match event:
                case UserSaid(message) | ModelReplied(message):
                    self._tokens += message_tokens(message)
                case CallFinished(result):
                    self._tokens += message_tokens(ResultsMessage((result,)))
                case _:
                    continue
            if self._tokens > WINDOW and isinstance(event, CallFinished):
                out.append(
                    ContextCompacted(
                        budget_tokens=WINDOW, before_tokens=self._tokens, after_tokens=WINDOW // 2
                    )
                )
                self._tokens = WINDOW // 2
        self.number += 1
        return out


async def long_session(folder: Path) -> None:
    """Opening a session of 100,000 events, as an agent does, and the fold of what was read."""
    from pegboard.runtime.fold import fold

    store = await open_store(f"sqlite:{folder / 'long.sqlite'}")
    backing = Backing(store=store, chain=Chain(key=KEY))
    long = LongSession()
    count = 0
    while count < 100_000:
        async with open_session(backing, "s") as opened:
            for _ in range(20):
                for event in long.run():
                    opened.log.record(event)
                    count += 1

    async def opening() -> tuple[float, float]:
        begun, cpu = time.perf_counter(), time.process_time()
        async with open_session(backing, "s") as opened:
            fold(opened.events)
            return (time.perf_counter() - begun) * 1e3, (time.process_time() - cpu) * 1e3

    figures = [await opening() for _ in range(ROUNDS)]
    # After more and more runs since the last fold: what a session costs at its worst.
    later: list[tuple[float, float]] = []
    for _ in range(25):
        async with open_session(backing, "s") as opened:
            for event in long.run():
                opened.log.record(event)
        later.append(await opening())
    await store.close()
    cpu = [cpu for _, cpu in later]
    emit(
        "ms_open_100000_events",
        median(wall for wall, _ in figures),
        note=f"CPU {median(cpu for _, cpu in figures):.0f} ms; in the 25 runs that follow {min(cpu):.0f} to {max(cpu):.0f} ms",
    )


# -- jobs ---------------------------------------------------------------------------------------


def a_job(number: int) -> Job:
    """One that is due in a day."""
    return Job(
        id=f"j{number:08d}", message="Look.", schedule=Every(every_s=3600, start=0.0), session="main", next_at=time.time() + 86_400 + number
    )  # fmt: skip


async def jobs(folder: Path) -> None:
    """Adding jobs to few and to many, and asking what is due."""
    store = await open_store(f"sqlite:{folder / 'jobs.sqlite'}")
    kept = Jobs(store)
    number = 0

    async def add(count: int) -> list[float]:
        nonlocal number
        took: list[float] = []
        for _ in range(count):
            took.append(await timed(lambda n=number: kept.add(a_job(n))) * 1e3)
            number += 1
        return took

    emit("ms_add_job", median([median(await add(100)) for _ in range(ROUNDS)]))
    from pegboard.store.jobs import asdict_of_job
    from pegboard.store.table import Table

    while number < 100_000:
        puts: list[Any] = []
        for _ in range(500):
            job = a_job(number)
            table = Table(store, "jobs", asdict_of_job, lambda value: value)
            puts += [table.put_of(job.id, job), *_index_of(job)]
            number += 1
        await store.put(*puts)
    emit("ms_add_job_among_100000", median([median(await add(100)) for _ in range(ROUNDS)]))
    due = [await timed(lambda: kept.due(time.time())) * 1e3 for _ in range(ROUNDS * 20)]
    assert await kept.due(time.time()) == []
    assert len(await kept.due(time.time() + 86_400 + 10)) > 1
    emit("ms_due_among_100000", median(due))
    await store.close()


def _index_of(job: Job) -> Any:
    from pegboard.store.jobs import _index

    return _index(None, job)


# -- steps --------------------------------------------------------------------------------------


async def steps(folder: Path) -> None:
    """A durable step of the local engine, and events in batches."""
    store = await open_store(f"sqlite:{folder / 'steps.sqlite'}")
    log = await Log.open(store, "s", chain=Chain(key=KEY))
    engine = LocalEngine(log)

    async def act() -> Notice:
        event = Notice(text="done")
        log.record(event)
        return event

    async def five_hundred(prefix: int) -> None:
        for n in range(500):
            await engine.step(f"call:{prefix}.{n}", act, idempotent=False)

    emit(
        "ms_durable_step",
        median([await timed(lambda n=n: five_hundred(n)) / 500 * 1e3 for n in range(ROUNDS)]),
    )

    async def batch() -> None:
        for n in range(4000):
            log.record(Notice(text=f"event {n}"))
        await log.flush()

    emit("per_s_batched_appends", median([4000 / await timed(batch) for _ in range(ROUNDS)]))
    await log.close()
    await store.close()


# -- subagents and recovery ---------------------------------------------------------------------


async def subagents(folder: Path) -> None:
    """From the call that starts a subagent to the first event of its run in the store."""
    turns = folder / "turns.jsonl"
    turns.write_text(json.dumps({"text": "Over."}))
    (folder / "w").mkdir()
    with App.open(workspace=folder / "w", mode="full") as app:
        async with app.sessions.open("parent", model=f"scripted:{turns}") as talk:
            async for _ in talk.send("Hello"):
                pass
            executor: Any = talk.executor
            runs = app.subagents(executor, model=f"scripted:{turns}")
            took: list[float] = []
            cpus: list[float] = []
            for number in range(ROUNDS * 10):
                token = attach(
                    Context(session="parent", run="r", call_id=f"c{number}", workspace=str(folder / "w"))
                )
                try:
                    begun, cpu = time.perf_counter(), time.process_time()
                    child = await runs.start(ChildRequest(task="Say hello", agent=""))
                    while not await app.store.read(child.session, limit=1, bodies=False):
                        pass
                    took.append((time.perf_counter() - begun) * 1e3)
                    cpus.append((time.process_time() - cpu) * 1e3)
                    await runs.wait(child.id)
                finally:
                    detach(token)
            await runs.close()
    emit(
        "ms_subagent_start",
        median(took),
        note=f"{min(took):.1f} to {max(took):.1f}; CPU {median(cpus):.1f} ms",
    )


async def recovery(folder: Path) -> None:
    """A worker that finds a thousand runs whose process was killed in the middle of a turn."""
    turns = folder / "turns.jsonl"
    turns.write_text(json.dumps({"text": "Over."}))
    (folder / "w").mkdir()
    figures: list[float] = []
    with App.open(workspace=folder / "w", mode="full") as app:
        await app.store.connect()
        model = f"scripted:{turns}"
        for round in range(ROUNDS):
            for number in range(RUNS):
                session = f"s{round}.{number}"
                async with app.history.open_session(session) as opened:
                    detail = {"mark": "m", "workspace": str(folder / "w")}
                    opened.log.record(
                        RunStarted(
                            run=f"run_{round}_{number}",
                            session=session,
                            agent="main",
                            model=model,
                            task="Go",
                            detail=detail,
                        )
                    )
                    opened.log.record(UserSaid(UserMessage.of("Go")))
            worker = app.worker(Interaction(approver=AllowOnce()), model=model)
            figures.append(await timed(partial(worker.work, until_idle=True)))
            left = [row for row in await app.runs.list(limit=None) if row.status != "done"]
            assert left == [], left[:3]
    emit("s_recover_1000_runs", median(figures), note=f"{min(figures):.1f} to {max(figures):.1f}")


# -- DBOS ---------------------------------------------------------------------------------------

FLOWS, STEPS = 40, 10


async def queue(folder: Path) -> None:
    """Sessions of ten steps through our queue, and workflows of ten steps through a bare one."""
    with run_server() as server:
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(ROUNDS):
            bare.append(await bare_dbos(server.url()))
            ours.append(await our_queue(server.url()))
    emit(
        "x_dbos_steps_over_bare", median([b / o for b, o in zip(bare, ours, strict=True)]),
        note=f"ours {FLOWS * STEPS / median(ours):.0f} steps/s, bare {FLOWS * STEPS / median(bare):.0f}",
    )  # fmt: skip


async def our_queue(url: str) -> float:
    """Seconds from the first session to the last."""
    store = await open_store(url)
    left = FLOWS
    times: list[float] = []
    over = asyncio.Event()

    async def serve(session: str) -> bool:
        nonlocal left
        times.append(time.perf_counter())
        log = await Log.open(store, session, chain=Chain(key=KEY))
        engine = engine_of(session, LocalEngine(log), log)

        async def act() -> Notice:
            event = Notice(text="done")
            log.record(event)
            return event

        for n in range(STEPS):
            await engine.step(f"call:{n}", act, idempotent=False)
        await log.close()
        times.append(time.perf_counter())
        left -= 1
        if not left:
            over.set()
        return True

    dbos = DbosQueue(
        url.partition("?")[0], schema=f"{url.partition('schema=')[2]}_dbos", name="b", store=store,
        limits=QueueLimits(each=8),
    )  # fmt: skip
    await dbos.open("worker 1", serve)
    for n in range(FLOWS):
        await dbos.put(f"s{n}", "m")
    await asyncio.wait_for(over.wait(), 120)
    await dbos.close()
    await store.close()
    return max(times) - min(times)


async def bare_dbos(url: str) -> float:
    """The same number of workflows and steps without anything of ours."""
    from dbos import DBOS

    times: list[float] = []

    async def flow(session: str) -> str:
        times.append(time.perf_counter())

        async def number() -> int:
            return 1

        for n in range(STEPS):
            await DBOS.run_step_async({"name": f"call:{n}"}, number)
        times.append(time.perf_counter())
        return "done"

    workflow = DBOS.workflow(name="bare")(flow)
    DBOS(
        config={
            "name": "bare", "system_database_url": url.partition("?")[0].replace("postgresql:", "postgresql+psycopg:", 1),
            "dbos_system_schema": f"{url.partition('schema=')[2]}_bare", "executor_id": "w", "application_version": "1",
            "sys_db_pool_size": 4, "log_level": "CRITICAL",
        }
    )  # fmt: skip
    DBOS.listen_queues(["q"])
    DBOS.launch()
    await DBOS.register_queue_async(
        "q", worker_concurrency=8, polling_interval_sec=0.5, on_conflict="always_update"
    )
    handles = [await DBOS.enqueue_workflow_async("q", workflow, f"s{n}") for n in range(FLOWS)]
    for handle in handles:
        await handle.get_result()
    from concurrent.futures import ThreadPoolExecutor

    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor()
    await loop.run_in_executor(threads, partial(DBOS.destroy, destroy_registry=True))
    loop.set_default_executor(threads)
    return max(times) - min(times)


BENCHES: Final = (steps, jobs, long_session, subagents, recovery, idle_sessions, queue)


async def main() -> None:
    """Run them one after the other, each in a folder of its own."""
    for bench in BENCHES:
        if not sys.argv[1:] or any(bench.__name__.startswith(name) for name in sys.argv[1:]):
            with tempfile.TemporaryDirectory() as home:
                os.environ["HOME"] = home
                await bench(Path(home))


if __name__ == "__main__":
    asyncio.run(main())
