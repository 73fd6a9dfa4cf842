"""Long calls that a client of the stateless era looks after instead of waiting (SEP-2663 extension)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, cast

from pegboard.mcp.request_context import Json, Peer, RequestContext
from pegboard.mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, META_SUBSCRIPTION, MISSING_CAPABILITY, RpcError

EXTENSION: Final = "io.modelcontextprotocol/tasks"
TTL_S: Final = 3600.0
MAX_TASKS: Final = 1000
_POLL_MS: Final = 500

TaskMode: TypeAlias = Literal["always", "required", "after_input"]
"""`always`: every call of a client that can is a task; `required`: others are refused; `after_input`: required,
and a task only once the questions of its first round are answered."""

Run: TypeAlias = Callable[[], Awaitable[Json]]


@dataclass(slots=True, kw_only=True)
class Task:
    """One call that goes on without its request.

    Attributes:
        id: unguessable; whoever has it, and the token that it was made with, may look after it.
        owner: whose token that was.
        status: working, input_required, completed, failed or cancelled.
        result, error: once it has ended.
        requests: questions that wait for an answer, by key.
    """

    id: str
    owner: str = ""
    status: str = "working"
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    result: Json | None = None
    error: Json | None = None
    requests: dict[str, Json] = field(default_factory=dict[str, Json])
    changed: Callable[[Task], None] = lambda _: None
    work: asyncio.Future[Json] | None = None
    _answers: dict[str, asyncio.Future[Json]] = field(default_factory=dict[str, "asyncio.Future[Json]"])

    async def ask(self, questions: Mapping[str, Json]) -> dict[str, Json]:
        """Put questions to the client and wait for all answers."""
        loop = asyncio.get_running_loop()
        waiting = {key: loop.create_future() for key in questions}
        self._answers.update(waiting)
        self.requests.update(questions)
        self._turn("input_required")
        try:
            await asyncio.gather(*waiting.values())
        finally:
            for key in questions:
                self.requests.pop(key, None)
                self._answers.pop(key, None)
        self._turn("working")
        return {key: cast("Json", future.result()) for key, future in waiting.items()}

    def answer(self, given: Mapping[str, Any]) -> None:
        """Take some answers; others are waited for."""
        for key, value in given.items():
            future = self._answers.get(key)
            if future is not None and not future.done() and isinstance(value, dict):
                self.requests.pop(key, None)
                future.set_result(cast("Json", value))
        self._turn(self.status)

    def ended(self, work: asyncio.Future[Json]) -> None:
        """Note how it went."""
        if work.cancelled():
            self._turn("cancelled")
            return
        raised = work.exception()
        if raised is None:
            self.result = {"resultType": "complete", **work.result()}
            self._turn("completed")
            return
        if isinstance(raised, RpcError):
            self.error = {"code": raised.code, "message": raised.message}
        else:
            self.error = {"code": INTERNAL_ERROR, "message": f"the call failed with {type(raised).__name__}"}
        self._turn("failed")

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.status in ("completed", "failed", "cancelled")

    def brief(self) -> Json:
        """Id, status and times."""
        return {
            "taskId": self.id, "status": self.status, "createdAt": _iso(self.created),
            "lastUpdatedAt": _iso(self.updated), "ttlMs": int(TTL_S * 1000), "pollIntervalMs": _POLL_MS,
        }  # fmt: skip

    def detail(self) -> Json:
        """The brief with result, error or questions, whichever there is."""
        out = self.brief()
        if self.result is not None:
            out["result"] = self.result
        if self.error is not None:
            out["error"] = self.error
        if self.requests:
            out["inputRequests"] = dict(self.requests)
        return out

    def _turn(self, status: str) -> None:
        self.status = status
        self.updated = time.time()
        self.changed(self)


class Tasks:
    """The running and finished tasks of one server.

    Args:
        after_s: a call that takes longer becomes a task; None = only those in `modes` do.
        modes: tools that are tasks from the start.
    """

    def __init__(self, *, after_s: float | None, modes: Mapping[str, TaskMode] | None = None) -> None:
        self.enabled = after_s is not None or bool(modes)
        self._after_s = after_s
        self._modes = dict(modes or {})
        self._tasks: dict[str, Task] = {}
        self._watchers: dict[str, list[tuple[Peer, RequestContext]]] = {}

    def methods(self) -> dict[str, Callable[[Peer, RequestContext, Mapping[str, Any]], Awaitable[Json]]]:
        """The protocol's methods."""
        if not self.enabled:
            return {}
        return {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}

    async def run(self, tool: str, ctx: RequestContext, call: Run, *, answered: bool) -> Json:
        """A call, as a task where it is to be one.

        Raises:
            RpcError: the tool is only for clients that can take tasks.
        """
        mode = self._modes.get(tool)
        if not _capable(ctx):
            if mode in ("required", "after_input"):
                raise _lacking()
            return await call()
        if mode is None and self._after_s is None:
            return await call()
        if mode == "after_input" and not answered:
            return await call()
        work = asyncio.ensure_future(call())
        try:
            if mode is None:
                await asyncio.wait([work], timeout=self._after_s)
                if work.done():
                    return work.result()
        except asyncio.CancelledError:
            work.cancel()
            raise
        return self._adopt(work, ctx)

    def _adopt(self, work: asyncio.Future[Json], ctx: RequestContext) -> Json:
        self._purge()
        if len(self._tasks) >= MAX_TASKS:
            work.cancel()
            raise RpcError(INTERNAL_ERROR, f"this server has {MAX_TASKS} tasks already")
        task = Task(id=secrets.token_urlsafe(24), owner=ctx.peer.owner, changed=self._tell, work=work)
        self._tasks[task.id] = task
        ctx.task = task
        work.add_done_callback(task.ended)
        return {"resultType": "task", **task.brief()}

    def _purge(self) -> None:
        now = time.time()
        for task in list(self._tasks.values()):
            if task.is_over and now - task.updated > TTL_S:
                del self._tasks[task.id]
                self._watchers.pop(task.id, None)

    def _find(self, ctx: RequestContext, params: Mapping[str, Any]) -> Task:
        if not _capable(ctx):
            raise _lacking()
        task = self._tasks.get(str(params.get("taskId")))
        if task is None or task.owner != ctx.peer.owner:
            raise RpcError(INVALID_PARAMS, f"there is no task {str(params.get('taskId'))[:80]!r}")
        return task

    async def _get(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        return self._find(ctx, params).detail()

    async def _update(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        task = self._find(ctx, params)
        given = params.get("inputResponses")
        if isinstance(given, dict):
            task.answer(cast("Json", given))
        # What was waiting for the answer goes on before anybody looks again.
        await asyncio.sleep(0)
        return {}

    async def _cancel(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        task = self._find(ctx, params)
        if task.work is not None and not task.is_over:
            task.work.cancel()
            await asyncio.wait([task.work], timeout=5)
        return {}

    # -- listening ----------------------------------------------------------------------------

    def known(self, peer: Peer, ids: Sequence[Any]) -> list[str]:
        """Those ids that are tasks of this client."""
        found = [(id, self._tasks.get(id)) for id in ids if isinstance(id, str)]
        return [id for id, task in found if task is not None and task.owner == peer.owner]

    def watch(self, peer: Peer, ctx: RequestContext, ids: Sequence[str]) -> None:
        """Tell a listener how some tasks go on."""
        for id in ids:
            self._watchers.setdefault(id, []).append((peer, ctx))

    def unwatch(self, ctx: RequestContext) -> None:
        """A listener has gone."""
        for id, listeners in list(self._watchers.items()):
            self._watchers[id] = [w for w in listeners if w[1] is not ctx]

    def _tell(self, task: Task) -> None:
        for peer, exchange in self._watchers.get(task.id, ()):
            peer.notify(
                "notifications/tasks", {**task.detail(), "_meta": {META_SUBSCRIPTION: exchange.id}}, exchange
            )


def _capable(ctx: RequestContext) -> bool:
    extensions = ctx.capabilities.get("extensions")
    return isinstance(extensions, dict) and EXTENSION in extensions


def _lacking() -> RpcError:
    return RpcError(
        MISSING_CAPABILITY,
        f"the client must declare the extension {EXTENSION} for this",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
