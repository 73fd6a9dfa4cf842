"""Recorded: the model, the executor and the people of a record, in the place of the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pegboard.core.call.call import Turn, outer_id
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import ModelError
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    ContextCompacted,
    ModelReplied,
    Notice,
    PermissionRequested,
    RunFinished,
    UserSaid,
    UserTold,
)
from pegboard.core.policy.approval import Refused
from pegboard.core.result import ToolResult
from pegboard.core.transcript import Message
from pegboard.ports.model import AskedAgain, ModelEvent, TurnEnd
from pegboard.runtime.answers import VOID
from pegboard.runtime.budget import BEYOND
from pegboard.runtime.script import CALL_EVENTS, RecordEnds, ReplayLog
from pegboard.runtime.tokens import message_tokens
from pegboard.runtime.turns import ASKED_AGAIN


class RecordedInbox(list[Any]):
    """The messages that came in while the run went on, as they come up in the record."""

    def __init__(self, script: ReplayLog) -> None:
        super().__init__()
        self._script = script

    def __bool__(self) -> bool:
        event = self._script.next
        return isinstance(event, UserSaid) and event.by != "runtime"

    def pop(self, index: Any = -1) -> Any:
        """The next of them."""
        said = cast(UserSaid, self._script.next)
        return UserTold(said.message, said.by, said.labels)


class RecordedAnswers(dict[str, Any]):
    """What was answered to a call that waited: its recorded result's value."""

    def __init__(self, script: ReplayLog) -> None:
        super().__init__()
        self._script = script

    def __contains__(self, key: object) -> bool:
        return isinstance(self._script.next, CallFinished)

    def get(self, key: str, default: Any = None) -> Any:
        """A no, where the call that waited for this approval went on to it and was not void for a lost secret."""
        events = self._script.events
        call = next(
            (e.call_id for e in events if isinstance(e, PermissionRequested) and e.approval == key), None
        )
        for event in events[self._script.place : self._script.end]:
            if isinstance(event, CallStarted) and event.call_id == call:
                return Refused()
            if isinstance(event, CallFinished) and event.result.call_id == call:
                error = event.result.error
                return default if error is not None and VOID in error.details else Refused()
        return default

    def __getitem__(self, key: str) -> Any:
        event = self._script.next
        return event.result.data if isinstance(event, CallFinished) else None


class RecordedModel:
    """Gives the recorded turns."""

    destination = "nowhere"

    def __init__(self, script: ReplayLog, name: str) -> None:
        self._script = script
        self._tokens = 0
        self.name = name

    def converse(self, **_: Any) -> RecordedModel:
        """The one conversation, empty again."""
        self._tokens = 0
        return self

    def append(self, message: Message) -> None:
        """Nothing is sent."""
        self._tokens += message_tokens(message)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next recorded turn, or the failure that came in its place."""
        while isinstance(event := self._script.next, Notice) and ASKED_AGAIN in event.detail:
            yield AskedAgain(event.text)
        match event:
            case ModelReplied(message):
                yield TurnEnd(message)
            case None:
                raise RecordEnds
            case RunFinished() if event.was_cancelled:
                raise asyncio.CancelledError
            case RunFinished(status="limit") if "; then: " in event.error:
                raise _Failed(event.error.split("; then: ", 1)[1])
            case RunFinished(status="failed"):
                name, colon, rest = event.error.partition(": ")
                if colon and name.isidentifier() and not event.answer:
                    # What was no ModelError: told with its type, and without what had been said before.
                    raise type(name, (Exception,), {})(rest)
                raise _Failed(event.error)
            case ContextCompacted(budget_tokens=budget):
                raise _Failed("context length", figures=(budget, self._tokens))
            case _:
                raise self._script.report_difference("a model turn")

    async def aclose(self) -> None:
        """Nothing was started."""


class _Failed(ModelError):
    """A recorded failure, told in the same words."""

    def __str__(self) -> str:
        return self.message


class RecordedExecutor:
    """Gives the recorded results of each turn's calls, and tells their events as they were."""

    def __init__(self, script: ReplayLog) -> None:
        self._script = script
        self.toolkit = self

    def advertised(self) -> RecordedExecutor:
        """See Toolkit; nothing is shown to anybody here."""
        return self

    def resolve(self, name: str) -> _RecordedTool:
        """The tool as the record knows it; one that was not repeated but interrupted was not idempotent."""
        event = self._script.next
        told = isinstance(event, CallFinished) and event.result.tool == name and event.result.error
        known = self._script.names.get(name, name)
        return _RecordedTool(name=known, idempotent=not (told and told.code == "interrupted"))

    async def turn(
        self, calls: Sequence[ToolCall], context: Context, shared: Turn | None = None, *, step: object = None
    ) -> tuple[ToolResult, ...]:
        """See TurnExecutor."""
        wanted = {c.id or "": c for c in calls}
        if self._script.planner is not None:
            self._script.planner.on_turn(wanted, self._script.results)
        done: dict[str, ToolResult] = {}
        while len(done) < len(wanted):
            event = self._script.next
            if event is None:
                raise RecordEnds
            if isinstance(event, RunFinished) and event.was_cancelled:
                raise asyncio.CancelledError
            if not isinstance(event, CALL_EVENTS):
                missing = ", ".join(c.name for i, c in wanted.items() if i not in done)
                raise self._script.report_difference(f"the calls {missing}")
            if isinstance(event, CallFinished):
                if outer_id(event.result.call_id) in wanted:
                    # What a program called counts towards the run's limits, as it did then.
                    error = event.result.error
                    beyond = error is not None and BEYOND in error.details
                    if shared is not None and shared.check is not None and not beyond:
                        shared.check([ToolCall(event.result.call_id, event.result.tool, {})])
                    await self._script.on_call(event, context)
                    continue
                if event.result.call_id not in wanted:
                    raise self._script.report_difference(f"the calls {', '.join(wanted)}")
                done[event.result.call_id] = event.result
            await self._script.on_call(event, context)
        after = self._script.next
        if isinstance(after, RunFinished) and after.was_cancelled:
            raise asyncio.CancelledError
        return tuple(done[c.id or ""] for c in calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedTool:
    """What the loop asks of a tool."""

    name: str
    idempotent: bool
