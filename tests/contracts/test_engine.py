"""The contract of every Engine: a step is carried out at most once, and its outcome is kept before it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from pegboard.core.errors import Interrupted, ModelError
from pegboard.core.events import Event, Notice, Recorder
from pegboard.runtime.engine import Engine
from pegboard.runtime.engine.dbos import DbosEngine, DbosQueue
from pegboard.runtime.engine.local import LocalEngine
from pegboard.store import open_store
from tests.postgres import PostgresServer
from tests.runtime.test_scale_out import select

Body: TypeAlias = Callable[[Engine], Awaitable[None]]
Run: TypeAlias = Callable[..., Awaitable[None]]


class Kept:
    """A recorder that tells what was flushed."""

    def __init__(self) -> None:
        self.recorded: list[Event] = []
        self.flushed = 0

    def record(self, event: Event) -> None:
        self.recorded.append(event)

    async def flush(self, *, power_loss: bool = False) -> int:
        self.flushed = len(self.recorded)
        return self.flushed


@pytest.fixture(params=["local", "dbos"])
async def run(request: pytest.FixtureRequest) -> AsyncIterator[Run]:
    """Runs something with an engine whose steps are known as given."""
    if request.param == "local":

        async def here(body: Body, recorder: Recorder, **known: Any) -> None:
            await body(LocalEngine(recorder, **known))

        yield here
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.url()
    store = await open_store(url)
    queue = DbosQueue(url.partition("?")[0], schema="engine_dbos", name=url, store=store)
    bodies: dict[str, Callable[[], Awaitable[None]]] = {}
    ended: asyncio.Queue[BaseException | None] = asyncio.Queue()

    async def serve(session: str) -> bool:
        (error,) = await asyncio.gather(bodies[session](), return_exceptions=True)
        ended.put_nowait(error)
        return error is None

    async def queued(body: Body, recorder: Recorder, **known: Any) -> None:
        session = f"s{len(bodies)}"
        bodies[session] = lambda: body(DbosEngine(LocalEngine(recorder, **known), recorder))
        await queue.put(session, "m1")
        async with asyncio.timeout(30):
            if (error := await ended.get()) is not None:
                raise error

    await queue.open(f"worker {url}", serve)
    yield queued
    await queue.close()
    await store.close()


def acting(recorder: Kept, text: str = "done") -> Callable[[], Awaitable[Notice]]:
    async def act() -> Notice:
        recorder.record(event := Notice(text=text))
        return event

    return act


async def test_a_step_acts_and_its_outcome_is_kept_before_it_is_given(run: Run) -> None:
    recorder = Kept()

    async def body(engine: Engine) -> None:
        assert await engine.step("call:1", acting(recorder), idempotent=False) == Notice(text="done")
        assert recorder.flushed == 1

    await run(body, recorder)

    assert recorder.recorded == [Notice(text="done")]


async def test_a_known_outcome_is_given_again_and_nothing_acts(run: Run) -> None:
    recorder = Kept()

    async def body(engine: Engine) -> None:
        assert await engine.step("call:1", acting(recorder), idempotent=False) == Notice(text="before")

    await run(body, recorder, outcomes={"call:1": Notice(text="before")})

    assert recorder.recorded == []


async def test_what_had_begun_is_done_again_only_if_it_is_idempotent(run: Run) -> None:
    recorder = Kept()

    async def body(engine: Engine) -> None:
        with pytest.raises(Interrupted, match="step call:1 ran"):
            await engine.step("call:1", acting(recorder), idempotent=False)
        assert recorder.recorded == []
        assert await engine.step("call:1", acting(recorder), idempotent=True) == Notice(text="done")

    await run(body, recorder, begun=["call:1"])


async def test_steps_run_at_once_and_the_error_of_one_is_its_own(run: Run) -> None:
    recorder = Kept()
    both = asyncio.Barrier(2)

    async def meet() -> Notice:
        await both.wait()
        recorder.record(event := Notice(text="met"))
        return event

    async def fail() -> Notice:
        await both.wait()
        raise ModelError("the server said 500")

    async def body(engine: Engine) -> None:
        met, failed = await asyncio.gather(
            engine.step("call:1", meet, idempotent=False),
            engine.step("call:2", fail, idempotent=False),
            return_exceptions=True,
        )
        assert met == Notice(text="met")
        assert isinstance(failed, ModelError) and failed.message == "the server said 500"

    await run(body, recorder)


async def test_an_answer_is_given_where_there_is_one_and_a_timer_returns_at_its_time(run: Run) -> None:
    async def body(engine: Engine) -> None:
        assert await engine.wait("a1") == "yes"
        assert await engine.wait("a2") is None
        await engine.timer("t", 0.0)

    await run(body, Kept(), answers={"a1": "yes"})


@pytest.mark.parametrize("run", ["dbos"], indirect=True)
async def test_dbos_keeps_the_number_of_the_event_and_no_text(
    run: Run, postgres_server: PostgresServer
) -> None:
    recorder = Kept()
    recorder.record(Notice(text="first"))

    async def fail() -> Notice:
        raise ModelError("the server said 500")

    async def body(engine: Engine) -> None:
        await engine.step("call:number", acting(recorder), idempotent=False)
        with pytest.raises(ModelError):
            await engine.step("call:failed", fail, idempotent=False)

    await run(body, recorder)

    rows = await select(
        postgres_server.url(),
        "SELECT function_name, output, error FROM engine_dbos.operation_outputs "
        "WHERE function_name IN ('call:number', 'call:failed') ORDER BY function_id",
    )
    assert rows == [("call:number", "2", None), ("call:failed", "0", None)]
