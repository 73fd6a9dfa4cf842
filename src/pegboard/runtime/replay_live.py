"""Live replay: a model of now over the results of then; and what two runs did differently (ledger G-03)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pegboard.core.call import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import PegboardError
from pegboard.core.events import (
    TRANSIENT,
    CallFinished,
    Event,
    MemoryRecorder,
    ModelReplied,
    RunFinished,
    RunStarted,
    UserSaid,
)
from pegboard.core.executor import TurnExecutor
from pegboard.core.limits import Limits
from pegboard.core.result import ToolResult
from pegboard.core.toolkit import Toolkit
from pegboard.ports.model import Model
from pegboard.runtime.replay import split
from pegboard.runtime.run import Loop, RunState
from pegboard.runtime.transcripts import History, fold


class ReplayMiss(PegboardError):
    """A live model made a call that the record has no result for."""


class RecordedResults:
    """An executor for a live model over recorded results: by tool and arguments, each time the next one.

    Args:
        events: the record.
        toolkit: the tools that the model is offered.
        recorder: told of each call.
    """

    def __init__(self, events: Sequence[Event], toolkit: Toolkit, recorder: Any) -> None:
        self.pipeline = self
        self.toolkit = toolkit
        self._recorder = recorder
        self._results: dict[str, list[ToolResult]] = {}
        calls: dict[str, ToolCall] = {}
        for event in events:
            if isinstance(event, ModelReplied):
                calls |= {c.id or "": c for c in event.message.calls}
            elif isinstance(event, CallFinished) and event.result.call_id in calls:
                key = _key(calls[event.result.call_id])
                self._results.setdefault(key, []).append(event.result)

    async def turn(self, calls: Sequence[ToolCall], context: Context) -> tuple[ToolResult, ...]:
        """See TurnExecutor.

        Raises:
            ReplayMiss: a call was never made in the record, or less often.
        """
        out: list[ToolResult] = []
        for call in calls:
            kept = self._results.get(_key(call))
            if not kept:
                raise ReplayMiss(
                    f"the record has no result for {call.name} {_arguments(call)[:300]}: "
                    "the model of now goes another way"
                )
            result = replace(kept.pop(0), call_id=call.id or "")
            self._recorder.record(CallFinished(result))
            out.append(result)
        return tuple(out)


async def replay_live(
    events: Sequence[Event], run: str, *, model: Model, instructions: str, toolkit: Toolkit, limits: Limits
) -> list[Event]:
    """A live model with the recorded results; the events of what it does now. The world is not touched.

    A call without a recorded result ends the run as failed, with the call in its error.
    """
    before, mine = split(events, run)
    started = cast(RunStarted, mine[0])
    recorder = MemoryRecorder(keep=None)
    loop = Loop(
        model=model,
        executor=cast(TurnExecutor, RecordedResults(mine, toolkit, recorder)),
        instructions=instructions,
        recorder=recorder,
        limits=limits,
    )
    history: History | None = fold(before) if before else None
    await loop.run(
        started.task,
        state=RunState(id=started.run, session=started.session),
        context=Context(agent=started.agent, session=started.session),
        history=history,
    )
    return [e for e in recorder.events if e.type not in TRANSIENT]


def behaviour(events: Sequence[Event]) -> list[str]:
    """What a run did, one line each: what was said, each call with its outcome, the end (for comparing runs)."""
    lines: list[str] = []
    calls: dict[str, ToolCall] = {}
    for event in events:
        match event:
            case UserSaid(message):
                lines += [f"{event.by}: {line}" for line in message.text.splitlines()]
            case ModelReplied(message):
                calls |= {c.id or "": c for c in message.calls}
                lines += [f"model: {line}" for line in message.text.splitlines()]
            case CallFinished(result):
                call = calls.get(result.call_id)
                told = "ok" if result.error is None else result.error.code
                lines.append(f"call: {result.tool} {'' if call is None else _arguments(call)} -> {told}")
                lines += [f"  {line}" for line in result.text.splitlines()[:20]]
            case RunFinished():
                lines.append(f"{event.status}: {event.error}".rstrip(": "))
            case _:
                pass
    return lines


def _key(call: ToolCall) -> str:
    return f"{call.name} {_arguments(call)}"


def _arguments(call: ToolCall) -> str:
    value: Any = call.arguments
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except ValueError:
            return cast(str, call.arguments)
    return json.dumps(value or {}, ensure_ascii=False, sort_keys=True, default=str)
