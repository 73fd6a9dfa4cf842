"""DBOS on PostgreSQL: a queue of sessions for many workers, and the engine of the runs that it starts.

A workflow of DBOS takes one session further. DBOS has the queue, its limits and the timers; what a run did is in the
session's events alone: the output of a step is the number of the event that it is kept by.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pegboard.core.errors import ConfigError, Unavailable
from pegboard.core.events import Event, Recorder
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.store import Store, StoreError
from pegboard.runtime.engine import AROUND, Engine
from pegboard.store.leases import Lease, Leases, SessionBusy

if TYPE_CHECKING:
    from dbos import WorkflowStatus

E = TypeVar("E", bound=Event)

MOST_TRIES: Final = 3
"""How often a session that fails is taken further for one message or run."""
_VERSION: Final = "1"
"""Of the workflow: a session goes on from its events, so any Pegboard goes on with what an older one had begun."""
_LOOK_S: Final = 0.5
_CONNECTIONS: Final = 4
_END_S: Final = 10.0
_FORGET_S: Final = 86400.0
"""Seconds for which DBOS keeps a workflow that is done."""
_ACTIVE: Final = ("ENQUEUED", "PENDING")
_LISTED: Final = 1000
"""Workflows that one look reads at most; the rest is seen by the next looks."""
_ONE: Final = threading.Lock()
"""Held while a queue is open: DBOS has one instance in a process."""


class DbosEngine:
    """The Engine of a run that a DbosQueue started; for use within its workflow.

    Args:
        inner: knows the steps that the session's events tell of.
        recorder: keeps the events.
        clock: the time.
    """

    def __init__(self, inner: Engine, recorder: Recorder, *, clock: Clock | None = None) -> None:
        self._inner = inner
        self._recorder = recorder
        self._clock = clock or SystemClock()

    async def step(self, id: str, act: Callable[[], Awaitable[E]], *, idempotent: bool) -> E:
        """See Engine."""
        from dbos import DBOS

        async def acted() -> E:
            outcome: list[E] = []
            failed: list[Exception] = []

            async def number() -> int:
                try:
                    outcome.append(await act())
                    kept = await self._recorder.flush()
                except Exception as error:  # noqa: BLE001  Raised below: DBOS would keep its text.
                    failed.append(error)
                    return 0
                return kept if isinstance(kept, int) else 0

            await DBOS.run_step_async({"name": id}, number)
            if failed:
                raise failed[0]
            return outcome[0]

        return await self._inner.step(id, acted, idempotent=idempotent)

    async def wait(self, key: str, *, deadline: float | None = None) -> Any | None:
        """See Engine. The answer to a suspended run puts its session into the queue again."""
        return await self._inner.wait(key, deadline=deadline)

    async def timer(self, id: str, at: float) -> None:
        """See Engine."""
        from dbos import DBOS

        await DBOS.sleep_async(max(0.0, at - self._clock.now()))


@dataclass(frozen=True, slots=True)
class _Around:
    session: str

    def __call__(self, inner: Engine, recorder: Recorder) -> Engine:
        return DbosEngine(inner, recorder)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How many sessions run at once, and how many begin.

    Attributes:
        each: at once in one worker.
        together: at once in all workers; None = no limit.
        per_minute: that all workers begin within a minute; None = no limit.
    """

    each: int = 8
    together: int | None = None
    per_minute: int | None = None


class DbosQueue:
    """Sessions that wait for a worker. One is open in a process at a time: DBOS has one instance.

    Args:
        url: of the database, with its password: `postgresql://USER:PASSWORD@HOST/DATABASE`.
        schema: where DBOS keeps its tables.
        name: of the queue; workers take sessions from the queue of their name only.
        store: has the leases by which workers see that another has ended.
        limits: the newest worker's hold for all.
        clock: for the leases.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        name: str,
        store: Store,
        limits: QueueLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._schema = schema
        self._name = f"sessions-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        self._limits = limits or QueueLimits()
        self._clock = clock or SystemClock()
        self._leases = Leases(store, clock=clock)
        self._forget_at = 0.0
        self._lease: Lease | None = None
        self._running: set[asyncio.Task[bool]] = set()
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._workflow: Any = None

    async def open(self, executor: str, serve: Callable[[str], Awaitable[bool]]) -> None:
        """Take sessions from the queue from now on, in this loop.

        Args:
            executor: names this worker; no other has ever had the name.
            serve: takes a session further; False = it failed. Raises nothing but CancelledError.

        Raises:
            Unavailable: the package is not installed.
            ConfigError: another queue is open in this process, or the limits contradict each other.
            StoreError: the database cannot be used.
        """
        if find_spec("dbos") is None:
            raise Unavailable(
                "the engine dbos needs the package dbos", hint="Install it: pip install 'pegboard[dbos]'"
            )
        if self._limits.together is not None and self._limits.together < self._limits.each:
            raise ConfigError(
                f"{self._limits.each} sessions in each worker are more than the {self._limits.together} in all of them"
            )
        if not _ONE.acquire(blocking=False):
            raise ConfigError("another queue is open in this process; a process works on one queue")
        try:
            await self._launch(executor, serve)
        except BaseException as error:
            await self.close()
            if isinstance(error, _failures()):
                # Its text may have the URL.
                raise StoreError(f"DBOS cannot use the database: {type(error).__name__}") from None
            raise

    async def put(self, session: str, cause: str) -> bool:
        """Let a worker take a session further, unless one is to already; False where it has failed too often.

        Args:
            session: its key.
            cause: id of the message or the run that is the reason.
        """
        from dbos import DBOS, SetEnqueueOptions, SetWorkflowID

        prefix = f"{self._name}/{session}/{cause}/"
        before = await self._list(workflow_id_prefix=prefix, load_output=True)
        if any(row.status in _ACTIVE for row in before):
            return True
        if sum(row.status != "SUCCESS" or row.output != "done" for row in before) >= MOST_TRIES:
            return False
        # Another worker may be faster.
        once = SetEnqueueOptions(deduplication_id=session, duplication_policy="return-existing")
        with once, SetWorkflowID(f"{prefix}{len(before) + 1}"):
            await DBOS.enqueue_workflow_async(self._name, self._workflow, session)
        return True

    async def active(self) -> set[str]:
        """The sessions that wait, or that a worker works on."""
        rows = await self._list(status=_ACTIVE, load_input=True)
        return {row.input["args"][0] for row in rows if row.input}

    async def take_over(self) -> None:
        """Put back what workers that have ended worked on, so that a living one goes on with it."""
        if self._lease is not None and self._lease.lost:
            # This process slept for long, and another took what it had.
            with suppress(SessionBusy):
                self._lease = await self._leases.acquire(_key(self._executor))
        if self._clock.now() >= self._forget_at:
            self._forget_at = self._clock.now() + _FORGET_S / 24
            await self._forget()
        for executor in [e for e, task in self._asked.items() if task.done()]:
            self._asked.pop(executor).result()
        rows = await self._list(status=("PENDING",))
        for executor in {row.executor_id for row in rows if row.executor_id} - {self._executor, *self._asked}:
            # A task of its own: whether a worker of another machine lives shows only after seconds.
            self._asked[executor] = asyncio.create_task(self._resume_those_of(executor))

    async def close(self) -> None:
        """End: what this worker works on is cancelled, and goes on in another."""
        from dbos import DBOS

        for task in (*self._running, *self._asked.values()):
            task.cancel()
        await asyncio.gather(*self._running, *self._asked.values(), return_exceptions=True)
        self._asked.clear()
        # One more turn of the loop for the workflows that awaited them.
        await asyncio.sleep(0)
        # DBOS puts its own threads in the place of the loop's, and ends them here.
        loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await loop.run_in_executor(threads, partial(DBOS.destroy, destroy_registry=True))
        loop.set_default_executor(threads)
        _ONE.release()
        if self._lease is not None:
            await self._lease.release(last=True)
            self._lease = None

    async def _launch(self, executor: str, serve: Callable[[str], Awaitable[bool]]) -> None:
        from dbos import DBOS

        # Before anything is taken: whoever has no lease counts as ended.
        self._lease = await self._leases.acquire(_key(executor))
        self._executor = executor
        self._serve = serve

        async def session_workflow(session: str) -> str:
            return await self._run(session)

        self._workflow = DBOS.workflow(name="pegboard.session")(session_workflow)
        DBOS(
            config={
                "name": "pegboard",
                "system_database_url": self._url.replace("postgresql:", "postgresql+psycopg:", 1),
                "dbos_system_schema": self._schema,
                "executor_id": executor,
                "application_version": _VERSION,
                "serializer": _json_serializer(),
                "sys_db_pool_size": _CONNECTIONS,
                "log_level": "CRITICAL",
            }
        )
        DBOS.listen_queues([self._name])
        per_minute = self._limits.per_minute
        # In the loop's thread: DBOS runs workflows in the loop that it was launched from.
        DBOS.launch()
        await DBOS.register_queue_async(
            self._name,
            worker_concurrency=self._limits.each,
            global_concurrency=self._limits.together,
            limiter=None if per_minute is None else {"limit": per_minute, "period": 60.0},
            polling_interval_sec=_LOOK_S,
            on_conflict="always_update",
        )

    # -- within DBOS ----------------------------------------------------------------------------

    async def _run(self, session: str) -> str:
        """The workflow."""
        from dbos import DBOS

        await _pass_recorded_steps(str(DBOS.workflow_id))
        around = AROUND.set(_Around(session))
        task = asyncio.ensure_future(self._serve(session))
        self._running.add(task)  # pyright: ignore[reportArgumentType]
        try:
            return "done" if await task else "failed"
        finally:
            AROUND.reset(around)
            self._running.discard(task)  # pyright: ignore[reportArgumentType]

    async def _resume_those_of(self, executor: str) -> None:
        from dbos import DBOS

        try:
            lease = await self._leases.acquire(_key(executor))
        except SessionBusy:
            return  # It lives.
        try:
            for row in await self._list(status=("PENDING",), executor_id=executor):
                await DBOS.resume_workflow_async(row.workflow_id, queue_name=self._name)
        finally:
            await lease.release(last=True)

    async def _forget(self) -> None:
        """Let DBOS forget what was done a day ago; what failed still counts."""
        from dbos import DBOS

        before = datetime.fromtimestamp(self._clock.now() - _FORGET_S, UTC).isoformat()
        rows = await self._list(status=("SUCCESS",), completed_before=before, load_output=True)
        if done := [row.workflow_id for row in rows if row.output == "done"]:
            await DBOS.delete_workflows_async(done)

    async def _list(
        self,
        *,
        status: Collection[str] | None = None,
        load_input: bool = False,
        load_output: bool = False,
        **where: Any,
    ) -> list[WorkflowStatus]:
        from dbos import DBOS

        return await DBOS.list_workflows_async(
            queue_name=self._name, status=None if status is None else list(status), load_input=load_input,
            load_output=load_output, limit=_LISTED, **where,
        )  # fmt: skip


async def _pass_recorded_steps(workflow: str) -> None:
    """Go past the steps that an earlier worker made in this workflow.

    DBOS finds a step's output by its position, but a run goes on from its events and does not make old steps again.
    A position without an output is a step that was under way when the worker ended.
    """
    from dbos import DBOS

    async def nothing() -> int:
        return 0

    # Asked without the workflow's context, or the question would be a step itself.
    ask = contextvars.Context()
    rows = await asyncio.get_running_loop().run_in_executor(
        None, lambda: ask.run(DBOS.list_workflow_steps, workflow)
    )
    names = {row["function_id"]: row["function_name"] for row in rows}
    for position in range(1, max(names, default=0) + 1):
        await DBOS.run_step_async({"name": names.get(position, "interrupted")}, nothing)


def _json_serializer() -> Any:
    from dbos import Serializer

    class JsonSerializer(Serializer):
        """Keeps values as JSON. DBOS's own takes pickles, and would run code that a row of the database holds."""

        def serialize(self, data: Any) -> str:
            return json.dumps(data, default=repr)

        def deserialize(self, serialized_data: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return json.loads(serialized_data)

        def name(self) -> str:
            return "pegboard_json"

    return JsonSerializer()


def _failures() -> tuple[type[Exception], ...]:
    from dbos import error
    from sqlalchemy.exc import SQLAlchemyError

    return (error.DBOSException, SQLAlchemyError, OSError)


def _key(executor: str) -> str:
    return f"worker/{executor}"
