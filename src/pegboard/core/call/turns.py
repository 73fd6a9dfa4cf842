"""Turns: the calls of one turn, each answered exactly once, side by side if their effects allow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

from pegboard.core.call.call import Call, Turn, new_call_id
from pegboard.core.call.pipeline import Pipeline
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import Effect
from pegboard.core.errors import CallCancelled, PermissionDenied, ToolError
from pegboard.core.events import CallFinished
from pegboard.core.result import ToolResult
from pegboard.core.schema.numerals import comparable
from pegboard.core.toolkit import Toolkit

TurnHook: TypeAlias = Callable[[Sequence[ToolCall], Context], Awaitable[None]]
"""Sees all calls of a turn before any runs; raises PermissionDenied to refuse them all ."""

_ORDERED: Final = frozenset({"send", "control", "call", "schedule", "spawn", "spend"})


def distinct_calls(calls: Sequence[ToolCall], taken: Container[str] = ()) -> tuple[ToolCall, ...]:
    """The calls with ids that are present and unique; an exact repeat of a call is dropped.

    Two calls with one id, name and arguments are one call that was sent twice. Two
    different calls with one id are two calls, and the later one gets an id of its own. Applying
    it again changes nothing. `taken` holds ids that earlier turns have used: some models count
    from one again in every turn, and then the later call gets an id of its own too.
    """
    sent: dict[str, ToolCall] = {}
    used: set[str] = set()
    out: list[ToolCall] = []
    for call in calls:
        call_id = call.id if isinstance(call.id, str) and call.id else new_call_id()
        before = sent.setdefault(call_id, call)
        if before is not call and before.name == call.name and _same(before.arguments, call.arguments):
            continue
        if call_id in used or call_id in taken:
            base = call_id
            call_id = next(c for n in count(2) if (c := f"{base}-{n}") not in used and c not in taken)
        if call_id != call.id:
            call = ToolCall(call_id, call.name, call.arguments, call.raw)
        used.add(call_id)
        out.append(call)
    return tuple(out)


class Executor(Protocol):
    """Runs the calls of a turn: what the agent's loop needs of an executor."""

    @property
    def toolkit(self) -> Toolkit:
        """The tools that may be called now."""
        ...

    async def turn(
        self, calls: Sequence[ToolCall], context: Context, shared: Turn | None = None
    ) -> tuple[ToolResult, ...]:
        """Results in call order, one for each distinct id."""
        ...


class TurnExecutor:
    """Runs the calls of a turn through one pipeline.

    Args:
        pipeline: the path of each call.
        hooks: see all calls of a turn before any runs.
        parallel: how many calls run at once.
        exclusive: names of Python tools without known effects that keep their order; None = all of them do.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        hooks: Sequence[TurnHook] = (),
        parallel: int = 64,
        exclusive: Collection[str] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._hooks = tuple(hooks)
        self._parallel = parallel
        self._exclusive = exclusive

    @property
    def toolkit(self) -> Toolkit:
        """The tools that may be called now."""
        return self.pipeline.toolkit

    async def turn(
        self, calls: Sequence[ToolCall], context: Context, shared: Turn | None = None
    ) -> tuple[ToolResult, ...]:
        """Results in call order, one for each distinct id; see `distinct_calls`.

        Calls whose effects do not conflict run side by side, the others in call order. A failed call never takes a
        sibling with it. When the surrounding task is cancelled every call has its result recorded, cancelled ones
        too, and CancelledError goes on.

        Args:
            calls: as the model sent them.
            context: where they run.
            shared: what a person refused before, so that nobody is asked twice for the same call.
        """
        distinct = distinct_calls(calls)
        shared = Turn() if shared is None else shared
        if len(distinct) == 1 and not self._hooks:
            return (await self.pipeline.call(distinct[0], context, shared),)
        try:
            refusal = await self._ask_hooks(distinct, context)
            planned = [] if refusal else [await self.pipeline.plan(call, context) for call in distinct]
        except asyncio.CancelledError:
            for call in distinct:
                self._record_cancelled(call)
            raise
        if refusal is not None:
            return tuple(self._refuse(call, refusal) for call in distinct)
        return await self._side_by_side(distinct, planned, context, shared)

    async def _side_by_side(
        self, calls: tuple[ToolCall, ...], planned: Sequence[Call | None], context: Context, shared: Turn
    ) -> tuple[ToolResult, ...]:
        gate = asyncio.Semaphore(self._parallel)
        finished = [asyncio.Event() for _ in calls]
        results: list[ToolResult | None] = [None] * len(calls)
        started: set[int] = set()
        effects = [self._effects(call) for call in planned]

        async def run(index: int) -> None:
            try:
                plan = planned[index]
                for earlier in range(index):
                    if conflict(effects[earlier], effects[index]):
                        await finished[earlier].wait()
                        plan = None  # What it waited for may have changed what it would do.
                async with gate:
                    # From here on the pipeline itself records the result, a cancelled one too.
                    started.add(index)
                    results[index] = await self.pipeline.call(calls[index], context, shared, planned=plan)
            finally:
                finished[index].set()

        tasks = [asyncio.ensure_future(run(i)) for i in range(len(calls))]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for index, call in enumerate(calls):
                if index not in started:
                    self._record_cancelled(call)
            raise
        return tuple(r for r in results if r is not None)

    def _effects(self, call: Call | None) -> tuple[Effect, ...] | None:
        """What decides the order; None = unknown."""
        if call is None:
            return None
        if self._exclusive is None or call.tool.name in self._exclusive:
            return call.plan.effects
        return tuple(
            e for e in call.plan.effects if not (e.kind == "call" and e.target.startswith("python/"))
        )

    async def _ask_hooks(self, calls: tuple[ToolCall, ...], context: Context) -> ToolError | None:
        for hook in self._hooks:
            try:
                await hook(calls, context)
            except ToolError as error:
                return error
            except Exception as error:  # noqa: BLE001  A hook guards: one that breaks must not let calls pass.
                return PermissionDenied(f"a turn hook failed with {type(error).__name__}, so nothing ran")
        return None

    def _refuse(self, call: ToolCall, error: ToolError) -> ToolResult:
        parts = self.pipeline.parts
        result = parts.shaper.shape(ToolResult.failed(error), call_id=call.id or "", tool=call.name)
        with suppress(Exception):
            # Nothing ran, so nothing is lost with a recorder that breaks; the refusal still holds.
            parts.recorder.record(CallFinished(result))
        return result

    def _record_cancelled(self, call: ToolCall) -> None:
        self._refuse(call, CallCancelled("the call was cancelled before it started"))


def conflict(first: tuple[Effect, ...] | None, second: tuple[Effect, ...] | None) -> bool:
    """Whether two calls must stay in order. None = unknown effects = yes."""
    if first is None or second is None:
        return True
    return any(_clash(a, b) for a in first for b in second)


def _clash(a: Effect, b: Effect) -> bool:
    if a.kind in _ORDERED and a.kind == b.kind:
        return _thing(a) == _thing(b) and not (a.unordered and b.unordered)
    if _changes(a) and _touches_files(b):
        return _overlap(a, b)
    return _changes(b) and _touches_files(a) and _overlap(a, b)


def _changes(effect: Effect) -> bool:
    return effect.kind in ("write", "delete") or (effect.kind == "exec" and not effect.read_only)


def _touches_files(effect: Effect) -> bool:
    return effect.kind in ("read", "write", "delete", "exec")


def _overlap(a: Effect, b: Effect) -> bool:
    """Same path, ancestor or descendant; an exec stands for the whole workspace."""
    one = "." if a.kind == "exec" else a.target
    two = "." if b.kind == "exec" else b.target
    if one == two:
        return True
    return _above(one, two) or _above(two, one)


def _above(folder: str, path: str) -> bool:
    if folder == ".":
        return not path.startswith("/")
    return path.startswith(folder.rstrip("/") + "/")


def _thing(effect: Effect) -> str:
    """What keeps order: a server for `call server/tool`, else the target."""
    return effect.target.partition("/")[0] if effect.kind == "call" else effect.target


def _same(a: str | Mapping[str, Any] | None, b: str | Mapping[str, Any] | None) -> bool:
    return _parsed(a) == _parsed(b)


def _parsed(arguments: str | Mapping[str, Any] | None) -> Any:
    if not isinstance(arguments, str):
        return dict(arguments or {})
    try:
        return json.loads(arguments, parse_float=comparable)
    except ValueError:
        return arguments
