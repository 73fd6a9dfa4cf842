"""Two workers on one PostgreSQL store share the sessions, and one goes on with what the other was killed in."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.errors import ConfigError
from pegboard.core.events import MemoryRecorder, Notice
from pegboard.core.limits import SystemClock
from pegboard.core.policy.approval import Refused, SuspendAll
from pegboard.ports.messages import InboundMessage
from pegboard.ports.store import StoreError
from pegboard.runtime.engine import engine_of
from pegboard.runtime.engine.dbos import MOST_TRIES, DbosQueue, QueueLimits
from pegboard.runtime.engine.local import LocalEngine
from pegboard.services.runtime import Interaction
from pegboard.store import open_store
from pegboard.store.inbox import Inbox
from tests.postgres import PostgresServer
from tests.services.test_worker import calls, script
from tests.waiting import until

SESSIONS = 4


class Tomorrow(SystemClock):
    """The time 25 hours from now."""

    def now(self) -> float:
        return super().now() + 90_000


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


@contextmanager
def worker(folder: Path, store: str, model: str, *options: str) -> Generator[subprocess.Popen[bytes]]:
    """A `pegboard worker` that ends when nothing is left to do, or with the block."""
    command = [
        sys.executable, "-m", "pegboard", "worker", "--until-idle", "--yes", "--model", model, "--store", store,
        "--engine", "dbos", *options,
    ]  # fmt: skip
    with (folder.parent / f"worker-{len(list(folder.parent.glob('worker-*')))}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=os.environ, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def logs(folder: Path) -> str:
    return "\n".join(file.read_text() for file in sorted(folder.parent.glob("worker-*.log")))


async def put(folder: Path, store: str, count: int = SESSIONS) -> None:
    with App.open(workspace=folder, store=store) as app:
        await app.store.connect()
        for number in range(count):
            message = InboundMessage(
                session=f"s{number}", content=f"job {number}", id=f"m{number}", by="schedule"
            )
            await Inbox(app.store).add(message)


async def test_a_worker_goes_on_with_what_another_was_killed_in_and_nothing_happens_twice(
    folder: Path, postgres_server: PostgresServer
) -> None:
    store = postgres_server.url()
    model = script(
        folder,
        calls("exec", command="echo first >> world.txt"),
        calls("exec", command="echo begun >> world.txt; while [ ! -e go ]; do sleep 0.05; done"),
        calls("exec", command="echo last >> world.txt"),
        {"text": "Over."},
    )
    world = folder / "world.txt"

    def words() -> Counter[str]:
        return Counter(world.read_text().split()) if world.exists() else Counter()

    await put(folder, store)
    with (
        worker(folder, store, model, "--most", "2") as one,
        worker(folder, store, model, "--most", "2") as two,
    ):
        await asyncio.to_thread(
            until, lambda: words()["begun"] == SESSIONS, "all sessions to begin", within_s=60
        )
        one.send_signal(signal.SIGKILL)
        one.wait()
        (folder / "go").touch()
        code = await asyncio.to_thread(two.wait, 90)

    assert code == 0, logs(folder)
    # A call that had begun is not repeated: the model is told that it was interrupted, and goes on.
    assert words() == {"first": SESSIONS, "begun": SESSIONS, "last": SESSIONS}, logs(folder)
    with App.open(workspace=folder, store=store) as app:
        await app.store.connect()
        rows = await app.runs.list()
        assert sorted((r.status, r.task) for r in rows) == [("done", f"job {n}") for n in range(SESSIONS)]
        assert await Inbox(app.store).all() == []
        assert [fault for found in (await app.audit.verify()).values() for fault in found] == []
    # The living worker has the very workflows of the other, and DBOS knows of each step no more than a number.
    schema = f"{store.partition('schema=')[2]}_dbos"
    workflows = await select(store, f"SELECT status, executor_id FROM {schema}.workflow_status")
    assert [status for status, _ in workflows] == ["SUCCESS"] * SESSIONS
    assert len({executor for _, executor in workflows}) == 1
    outputs = await select(store, f"SELECT function_name, output, error FROM {schema}.operation_outputs")
    assert {name.partition(":")[0] for name, _, _ in outputs} == {"turn", "call"}
    assert all(output.isdecimal() and error is None for _, output, error in outputs)


async def test_the_limits_of_all_workers_hold_for_two(folder: Path, postgres_server: PostgresServer) -> None:
    store = postgres_server.url()
    alone = "echo in >> world.txt; [ $(grep -c in world.txt) = $(($(grep -c out world.txt) + 1)) ] || echo two >> bad.txt"
    model = script(
        folder, calls("exec", command=f"{alone}; sleep 0.3; echo out >> world.txt"), {"text": "Over."}
    )
    await put(folder, store, 3)
    limits = ("--most", "1", "--most-together", "1")
    with worker(folder, store, model, *limits) as one, worker(folder, store, model, *limits) as two:
        codes = [await asyncio.to_thread(process.wait, 90) for process in (one, two)]

    assert codes == [0, 0], logs(folder)
    assert (folder / "world.txt").read_text().split() == ["in", "out"] * 3, logs(folder)
    assert not (folder / "bad.txt").exists()


async def test_a_session_that_waits_for_a_person_goes_on_when_it_was_answered_and_one_that_fails_is_tried_three_times(
    folder: Path, postgres_server: PostgresServer
) -> None:
    store = postgres_server.url()
    said: list[str] = []
    later = Interaction(approver=SuspendAll(), notify=said.append)
    model = script(folder, calls("exec", command="curl -s https://example.com"), {"text": "Not fetched."})
    with App.open(workspace=folder, store=store) as app:
        await app.store.connect()
        inbox = Inbox(app.store)
        await inbox.add(InboundMessage(session="asks", content="Fetch it", id="m1"))
        await inbox.add(
            InboundMessage(session="fails", content="Hi", id="m2", metadata={"model": "scripted:/no"})
        )

        await app.worker(later, model=model, engine="dbos").work(until_idle=True)

        (row,) = await app.runs.list(status="suspended")
        assert [m.session for m in await inbox.all()] == ["fails"]
        assert len(said) == MOST_TRIES and all("session fails was not taken further" in one for one in said)
        (pending,) = await app.approvals.pending(row.id)
        await app.approvals.answer(pending.key, Refused("no", by="ada"))
        await app.worker(later, model=model, engine="dbos").work(until_idle=True)

        assert [r.status for r in await app.runs.list() if r.stream == "asks"] == ["done"]
        assert len(said) == MOST_TRIES


async def test_limits_that_contradict_each_other_and_a_server_that_is_gone_are_told(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.url()
    store = await open_store(url)

    async def serve(session: str) -> bool:
        return True

    limits = QueueLimits(each=8, together=2)
    queue = DbosQueue(url.partition("?")[0], schema="told_dbos", name="w", store=store, limits=limits)
    with pytest.raises(ConfigError, match="8 sessions in each worker are more than the 2 in all of them"):
        await queue.open("worker 3", serve)
    wrong = DbosQueue(
        postgres_server.url(password="wrong").partition("?")[0], schema="told_dbos", name="w", store=store
    )
    with pytest.raises(StoreError, match="DBOS cannot use the database: OperationalError") as caught:
        await wrong.open("worker 4", serve)
    assert "wrong" not in str(caught.value)
    await store.close()


async def test_the_queue_needs_a_postgresql_store_and_limits_of_all_workers_need_the_queue(
    folder: Path,
) -> None:
    with App.open(workspace=folder) as app:
        with pytest.raises(ConfigError, match="needs a PostgreSQL store"):
            app.worker(engine="dbos")
        with pytest.raises(ConfigError, match="need the engine dbos"):
            app.worker(limits=QueueLimits(together=3))


async def test_a_session_goes_on_in_its_workflow_where_steps_at_once_were_cut_off_by_the_end_of_a_worker(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.url()
    store = await open_store(url)
    begun: list[str] = []
    hangs, second_ended, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def queue() -> DbosQueue:
        return DbosQueue(url.partition("?")[0], schema="cut_dbos", name="w", store=store)

    def step(id: str, act: Callable[[], Awaitable[Notice]]) -> Awaitable[Notice]:
        recorder = MemoryRecorder()
        return engine_of("s", LocalEngine(recorder), recorder).step(id, act, idempotent=False)

    async def end() -> Notice:
        return Notice(text="ended")

    async def hang() -> Notice:
        begun.append("first")
        hangs.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def first_worker(session: str) -> bool:
        first = asyncio.ensure_future(step("call:first", hang))
        await hangs.wait()
        await step("call:second", end)
        second_ended.set()
        await first
        return True

    async def second_worker(session: str) -> bool:
        await step("call:third", end)
        over.set()
        return True

    one = queue()
    await one.open("worker 1", first_worker)
    async with asyncio.timeout(30):
        assert await one.put("s", "m1")
        assert await one.put("s", "m2")  # It works on the session already.
        await second_ended.wait()
    await one.close()
    two = queue()
    await two.open("worker 2", second_worker)
    async with asyncio.timeout(30):
        while not over.is_set():
            await two.take_over()
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.1)
        while await two.active():
            await asyncio.sleep(0.05)
    await two.close()

    assert begun == ["first"]
    steps = "SELECT function_name FROM cut_dbos.operation_outputs ORDER BY function_id"
    assert await select(url, steps) == [("interrupted",), ("call:second",), ("call:third",)]
    rows = await select(url, "SELECT status, executor_id FROM cut_dbos.workflow_status")
    assert rows == [("SUCCESS", "worker 2")]
    three = DbosQueue(url.partition("?")[0], schema="cut_dbos", name="w", store=store, clock=Tomorrow())
    await three.open("worker 3", second_worker)
    await three.take_over()
    await three.close()
    await store.close()
    assert await select(url, "SELECT status FROM cut_dbos.workflow_status") == []


async def select(store: str, query: str) -> list[tuple[str, ...]]:
    driver: Any = import_module("asyncpg")
    db = await driver.connect(store.partition("?")[0])
    try:
        return [tuple(row) for row in await db.fetch(query)]
    finally:
        await db.close()
