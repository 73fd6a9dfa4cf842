"""Live replay: a model of now over the results of then; and what two runs did differently."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import PegboardError
from pegboard.core.events import (
    TRANSIENT,
    CallFinished,
    CallStarted,
    Event,
    MemoryRecorder,
    ModelReplied,
    RunFinished,
    RunStarted,
    UserSaid,
)
from pegboard.core.limits import Limits
from pegboard.core.result import ToolResult
from pegboard.core.schema.numerals import comparable
from pegboard.core.toolkit import Toolkit
from pegboard.ports.model import Model
from pegboard.runtime.fold import History, fold
from pegboard.runtime.loop import Loop, RunState
from pegboard.runtime.replanning import Replanner
from pegboard.runtime.replay import Divergence, replay, split
from pegboard.store.encoding import Redact


class ReplayMiss(PegboardError):
    """A live model made a call that the record has no result for."""


class RecordedResults:
    """An executor for a live model over recorded results: by tool and arguments, each time the next one.

    Args:
        events: the record.
        toolkit: the tools that the model is offered.
        recorder: told of each call.
        redact: what took secrets out of the record; a live model's call is looked up as it would stand there.
    """

    def __init__(self, events: Sequence[Event], toolkit: Toolkit, recorder: Any, redact: Redact) -> None:
        self._redact = redact
        self.toolkit = toolkit
        self._recorder = recorder
        self._results: dict[str, list[ToolResult]] = {}
        calls: dict[str, ToolCall] = {}
        for event in events:
            if isinstance(event, ModelReplied):
                calls |= {c.id or "": c for c in event.message.calls}
            elif isinstance(event, CallFinished) and event.result.call_id in calls:
                key = self._key(calls[event.result.call_id])
                self._results.setdefault(key, []).append(event.result)

    async def turn(
        self, calls: Sequence[ToolCall], context: Context, shared: object = None, *, step: object = None
    ) -> tuple[ToolResult, ...]:
        """See TurnExecutor.

        Raises:
            ReplayMiss: a call was never made in the record, or less often.
        """
        out: list[ToolResult] = []
        for call in calls:
            kept = self._results.get(key := self._key(call))
            if not kept:
                raise ReplayMiss(
                    f"the record has no result for {key[: len(call.name) + 300]}: "
                    "this model took a different path"
                )
            result = replace(kept.pop(0), call_id=call.id or "")
            self._recorder.record(CallFinished(result))
            out.append(result)
        return tuple(out)

    def _key(self, call: ToolCall) -> str:
        return self._redact(f"{call.name} {_arguments(call)}")[0]


async def replay_live(
    events: Sequence[Event],
    run: str,
    *,
    model: Model,
    instructions: str,
    toolkit: Toolkit,
    limits: Limits,
    redact: Redact = lambda text: (text, False),
) -> list[Event]:
    """A live model with the recorded results; the events of what it does now. The world is not touched.

    A call without a recorded result ends the run as failed, with the call in its error. `redact` is what took
    secrets out of the record.
    """
    before, mine = split(events, run)
    started = cast(RunStarted, mine[0])
    recorder = MemoryRecorder(keep=None)
    loop = Loop(
        model=model,
        executor=RecordedResults(mine, toolkit, recorder, redact),
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


def behaviour(events: Sequence[Event], *, plans: bool = False) -> list[str]:
    """What a run did, one line each: what was said, each call with its outcome, the end (for comparing runs).

    Args:
        events: of the run.
        plans: with what each call was going to do and what was decided of it.
    """
    lines: list[str] = []
    calls: dict[str, ToolCall] = {}
    told: set[str] = set()
    for event in events:
        match event:
            case UserSaid(message):
                lines += [f"{event.by}: {line}" for line in message.text.splitlines()]
            case ModelReplied(message):
                calls |= {c.id or "": c for c in message.calls}
                lines += [f"model: {line}" for line in message.text.splitlines()]
            case CallStarted() if plans:
                told.add(event.call_id)
                arguments = json.dumps(dict(event.arguments), ensure_ascii=False, sort_keys=True, default=str)
                lines.append(f"call: {event.tool} {arguments}")
                lines += [f"  effect: {effect}" for effect in event.effects]
                why = f" ({event.reason})" if event.reason else ""
                lines.append(f"  decision: {event.decision}, {event.rule or 'no rule'}{why}")
            case CallFinished(result):
                call = calls.get(result.call_id)
                ended = "ok" if result.error is None else result.error.code
                if result.call_id in told:
                    lines.append(f"  {result.tool} -> {ended}")
                else:
                    lines.append(f"call: {result.tool} {'' if call is None else _arguments(call)} -> {ended}")
                lines += [f"  {line}" for line in result.text.splitlines()[:20]]
            case RunFinished():
                lines.append(f"{event.status}: {event.error}".rstrip(": "))
            case _:
                pass
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A recorded run beside what it would be by the code, tools and rules of now.

    Attributes:
        run: the run.
        diff: the difference in behaviour as a unified diff, empty where there is none.
        checked: how many calls were decoded, planned and decided again.
        untold: calls that cannot be compared, one sentence each.
    """

    run: str
    diff: tuple[str, ...]
    checked: int
    untold: tuple[str, ...]


async def compare_now(events: Sequence[Event], run: str, planner: Replanner) -> Comparison:
    """Run the loop again over the model's recorded turns, with the calls as the tools and rules of now take them.

    The model cannot be asked what it would have said to another result: what follows a difference is as recorded.
    Functions do not run, but for those that touch nothing (`effects=PURE`, nothing injected).

    Args:
        events: of the session.
        run: which run.
        planner: a `lenient` one.

    Raises:
        PegboardError: the record holds no such run.
    """
    mine = [e for e in split(events, run)[1] if e.type not in TRANSIENT]
    then = behaviour(mine, plans=True)
    try:
        await replay(events, run, planner=planner)
        now = behaviour(planner.now, plans=True)
    except Divergence as other_way:
        then = behaviour(mine[: other_way.place + 1], plans=True)
        now = behaviour(planner.now, plans=True)
        now += [f"the loop goes another way from here: {line}" for line in str(other_way).splitlines()]
    diff = tuple(difflib.unified_diff(then, now, f"{run} as recorded", f"{run} now", lineterm=""))
    return Comparison(run=run, diff=diff, checked=planner.checked, untold=tuple(planner.untold))


def _arguments(call: ToolCall) -> str:
    value: Any = call.arguments
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}", parse_float=comparable)
        except ValueError:
            return cast(str, call.arguments)
    return json.dumps(value or {}, ensure_ascii=False, sort_keys=True, default=str)
