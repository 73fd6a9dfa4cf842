"""Inner calls: the calls that a running call makes, each on the whole path of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pegboard.core.call.call import Call, Turn, inner_id
from pegboard.core.call.diagnostics import InnerChanges
from pegboard.core.call.pipeline import Pipeline, TurnExecutor
from pegboard.core.call.shape import record_finish
from pegboard.core.content import ToolCall
from pegboard.core.context import entered
from pegboard.core.errors import ToolError
from pegboard.core.result import SOURCE, ToolResult
from pegboard.core.toolkit import Toolkit


class InnerCalls:
    """Makes calls inside the call that is running: under its run's rules, people, limits, hooks and record.

    Attributes:
        labels: taint labels of all results so far.
        sources: where untrusted text among them comes from.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._turn = replace(call.turn or Turn(), questions=None)
        parts = call.parts
        if parts.write_checks is not None:
            parts = replace(parts, write_checks=InnerChanges(call))
        self._executor = TurnExecutor(Pipeline.of(parts), hooks=parts.turn_hooks)
        self.labels: set[str] = set()
        self.sources: list[str] = []

    @classmethod
    def current(cls) -> InnerCalls:
        """Those of the call that is running here.

        Raises:
            LookupError: no call is running here.
        """
        call = entered()
        if not isinstance(call, Call):
            raise LookupError("no tool call is running here; inner calls are made inside a tool only")
        return cls(call)

    @property
    def outer(self) -> Call:
        """The call that makes them."""
        return self._call

    @property
    def toolkit(self) -> Toolkit:
        """The tools that may be called."""
        return self._call.parts.toolkit

    @property
    def waited(self) -> Mapping[str, Any]:
        """The details under which the outer call waited when its run was resumed; empty if it did not."""
        return self._turn.waited.get(self._call.id, {})

    @property
    def answers(self) -> Mapping[str, Any]:
        """What was answered to calls that waited, by the key that they waited for."""
        return self._turn.answers

    def id(self, number: int) -> str:
        """The id of the `number`-th of them."""
        return inner_id(self._call.id, number)

    async def turn(self, calls: Sequence[ToolCall]) -> dict[str, ToolResult]:
        """Make some calls, side by side where their effects allow it; their results by id.

        A call that fails or is refused has a result that says so, as any call has.
        """
        refused: Mapping[str, ToolError] = {}
        if self._turn.check is not None:
            refused = self._turn.check(calls)
        results = {
            c.id or "": self._executor.refuse(c, refused[c.id or ""]) for c in calls if c.id in refused
        }
        wanted = [c for c in calls if c.id not in refused]
        if wanted:
            outer = self._call.outer
            context = replace(outer, call_id=self._call.id, labels=outer.labels | self.labels)
            results |= {r.call_id: r for r in await self._executor.turn(wanted, context, self._turn)}
        for result in results.values():
            self.note(result)
        return results

    def settle(self, result: ToolResult) -> None:
        """Record the result of a call that waited and got it as its answer."""
        if self._turn.check is not None:
            self._turn.check([ToolCall(result.call_id, result.tool, {})])
        record_finish(self._call.parts, result)
        self.note(result)

    def note(self, result: ToolResult) -> None:
        """Take in where a result comes from."""
        self.labels.update(result.notes.labels)
        source = result.notes.extra.get(SOURCE)
        if source is not None and str(source) not in self.sources:
            self.sources.append(str(source))
