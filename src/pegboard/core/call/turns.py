"""Executor: the calls of one turn, each answered exactly once, side by side where their effects allow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, TypeAlias

from pegboard.core.call.pipeline import Pipeline, Turn, new_call_id
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import Effect
from pegboard.core.errors import CallCancelled, PermissionDenied, ToolError
from pegboard.core.events import CallFinished
from pegboard.core.result import ToolResult
from pegboard.core.schema.numerals import comparable

TurnHook: TypeAlias = Callable[[Sequence[ToolCall], Context], Awaitable[None]]
"""Sees all calls of a turn before any runs; raises PermissionDenied to refuse them all (ledger D-54)."""

_ORDERED: Final = frozenset({"send", "control", "call", "schedule", "spawn", "spend"})


def distinct_calls(calls: Sequence[ToolCall], taken: Container[str] = ()) -> tuple[ToolCall, ...]:
    """The calls with ids that are present and unique; an exact repeat of a call is dropped.

    Two calls with one id, name and arguments are one call that was sent twice (case args-20). Two
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


class TurnExecutor:
    """Runs the calls of a turn through one pipeline.

    Args:
        pipeline: the way of each call.
        hooks: see all calls of a turn before any runs.
        parallel: how many calls run at once.
    """

    def __init__(self, pipeline: Pipeline, *, hooks: Sequence[TurnHook] = (), parallel: int = 64) -> None:
        self.pipeline = pipeline
        self._hooks = tuple(hooks)
        self._parallel = parallel

    async def turn(
        self, calls: Sequence[ToolCall], context: Context, shared: Turn | None = None
    ) -> tuple[ToolResult, ...]:
        """Results in call order, one for each distinct id; see `distinct_calls`.

        Calls whose effects do not conflict run side by side, the others in call order
        (decisions 13). A failed call never takes a sibling with it. When the surrounding task is
        cancelled every call has its result recorded, cancelled ones too, and CancelledError goes on.
        `shared` holds what was refused before: a model that makes the same call again in its next step
        is in the same turn of the person, who is not asked twice (case perm-19).
        """
        wanted = distinct_calls(calls)
        shared = Turn() if shared is None else shared
        if len(wanted) == 1 and not self._hooks:
            return (await self.pipeline.call(wanted[0], context, shared),)
        try:
            refused = await self._ask_hooks(wanted, context)
            effects = [] if refused else [await self.pipeline.effects_of(c, context) for c in wanted]
        except asyncio.CancelledError:
            for call in wanted:
                self._record_cancelled(call)
            raise
        if refused is not None:
            return tuple(self._refuse(c, refused) for c in wanted)
        return await self._side_by_side(wanted, effects, context, shared)

    async def _side_by_side(
        self,
        calls: tuple[ToolCall, ...],
        effects: Sequence[tuple[Effect, ...] | None],
        context: Context,
        shared: Turn,
    ) -> tuple[ToolResult, ...]:
        gate = asyncio.Semaphore(self._parallel)
        ended = [asyncio.Event() for _ in calls]
        results: list[ToolResult | None] = [None] * len(calls)
        began: set[int] = set()

        async def one(index: int) -> None:
            try:
                for earlier in range(index):
                    if conflict(effects[earlier], effects[index]):
                        await ended[earlier].wait()
                async with gate:
                    # From here on the pipeline itself records the result, a cancelled one too.
                    began.add(index)
                    results[index] = await self.pipeline.call(calls[index], context, shared)
            finally:
                ended[index].set()

        tasks = [asyncio.ensure_future(one(i)) for i in range(len(calls))]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for index, call in enumerate(calls):
                if index not in began:
                    self._record_cancelled(call)
            raise
        return tuple(r for r in results if r is not None)

    async def _ask_hooks(self, calls: tuple[ToolCall, ...], context: Context) -> ToolError | None:
        for hook in self._hooks:
            try:
                await hook(calls, context)
            except ToolError as error:
                return error
            except Exception as error:  # noqa: BLE001  A hook guards: one that breaks must not open the door.
                return PermissionDenied(f"a turn hook failed with {type(error).__name__}, so nothing ran")
        return None

    def _refuse(self, call: ToolCall, error: ToolError) -> ToolResult:
        result = self.pipeline.shaper.shape(ToolResult.failed(error), call_id=call.id or "", tool=call.name)
        with suppress(Exception):
            # Nothing ran, so nothing is lost with a recorder that breaks; the refusal still holds.
            self.pipeline.recorder.record(CallFinished(result))
        return result

    def _record_cancelled(self, call: ToolCall) -> None:
        self._refuse(call, CallCancelled("the call was cancelled before it started"))


def conflict(first: tuple[Effect, ...] | None, second: tuple[Effect, ...] | None) -> bool:
    """Whether two calls must stay in order (decisions 13). None = unknown effects = yes."""
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
