"""Fold: the events of a session as the messages that a model sees, and what becomes of each call that was left open."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pegboard.core.content import ToolCall
from pegboard.core.errors import Interrupted
from pegboard.core.events import (
    IMPORTED,
    CallFinished,
    CallStarted,
    ContextCompacted,
    ConversationRewound,
    Event,
    HistoryFolded,
    ModelReplied,
    Notice,
    PermissionRequested,
    RunFinished,
    RunStarted,
    UserSaid,
    UserTold,
)
from pegboard.core.policy.approval import Refused
from pegboard.core.policy.taint import PRIVATE, UNTRUSTED
from pegboard.core.result import ToolResult, for_model
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, ResultsMessage, Usage
from pegboard.runtime.answers import answered_result, lost_secret
from pegboard.runtime.budget import BEYOND, USED_UP
from pegboard.runtime.compaction import compact
from pegboard.runtime.refusals import failed_call, over_limit_error
from pegboard.runtime.until import UNTIL_NOTE
from pegboard.store.log import DAMAGED


@dataclass(slots=True)
class History:
    """What a stream of events says happened.

    Attributes:
        messages: valid at any point: every call of a complete turn is followed by its results.
        open_calls: calls of the last model turn that have no result yet, in call order.
        started: ids of open calls that had begun when the stream ended.
        done: results of the last turn's calls that have one, by call id.
        waiting: results of open calls that wait for somebody, by call id.
        requests: what was asked about open calls, by call id.
        usage: summed over all turns.
        turns: model turns so far.
        labels: taint labels of everything that the messages hold.
        call_ids: ids that calls have used.
        made: calls of the last run that have their result, by tool; without those beyond a limit.
        noticed: limits of which the last run was given a notice.
        over: the limit that the last run has used up, as told; empty where none is.
        told: what people said to the last run that it has not read; the next run begins with it.
        said: whether the last run's task stands in the messages.
        checks: how often the command that ends the last run has failed.
        mark: what the ids around untrusted text of the last run come from.
        run: the last run's start, None where there was none.
        finished: the last run's end, None while it goes on.
        sizes, settled: what the last compaction said of the messages that it left.
    """

    messages: list[Message] = field(default_factory=list[Message])
    open_calls: tuple[ToolCall, ...] = ()
    started: set[str] = field(default_factory=set[str])
    done: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    waiting: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    requests: dict[str, PermissionRequested] = field(default_factory=dict[str, PermissionRequested])
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    labels: set[str] = field(default_factory=set[str])
    call_ids: set[str] = field(default_factory=set[str])
    made: dict[str, int] = field(default_factory=dict[str, int])
    noticed: set[str] = field(default_factory=set[str])
    over: str = ""
    told: list[UserTold] = field(default_factory=list[UserTold])
    said: bool = False
    checks: int = 0
    mark: str = ""
    run: RunStarted | None = None
    finished: RunFinished | None = None
    sizes: tuple[int, ...] = ()
    settled: int = 0


def fold(events: Iterable[Event]) -> History:
    """Fold events, oldest first. A user message or a new run closes open calls as interrupted."""
    events = list(events)
    # An id that a call has used stays used, also where the model is not sent that call any more.
    ids: set[str | None] = set()
    if any(isinstance(e, ConversationRewound) for e in events):
        ids.update(c.id for e in events if isinstance(e, ModelReplied) for c in e.message.calls)
        events = without_rewound(events)
    history = History()
    calls: tuple[ToolCall, ...] = ()
    spent: list[Usage] = []
    waits: set[str | None] = set()
    """Calls of the last turn without a result so far."""
    asked: dict[str, PermissionRequested] = {}
    for event in events:
        # What is in every turn stands first: a long history is folded at each start.
        match event:
            case ModelReplied():
                _close(history, calls)
                message = event.message
                calls = message.calls
                waits = {c.id for c in calls}
                ids.update(waits)
                history.messages.append(message)
                spent.append(message.usage)
                history.turns += 1
            case CallFinished():
                result = event.result
                error = result.error
                if error is not None and error.code == "suspended":
                    history.waiting[result.call_id] = result
                    # Asked twice (its process ended in between), it waits for the question that it names.
                    if (question := asked.get(str(error.details.get("pending")))) is not None:
                        history.requests[result.call_id] = question
                    continue
                history.done[result.call_id] = result
                if result.notes.labels:
                    history.labels.update(result.notes.labels)
                waits.discard(result.call_id)
                if error is None or BEYOND not in error.details:
                    history.made[result.tool] = history.made.get(result.tool, 0) + 1
                if calls and not waits:
                    _close(history, calls)
                    calls = ()
            case CallStarted():
                if event.decision != "deny":
                    history.started.add(event.call_id)
                    # The answer came and it began: where the process ends now, nobody knows what it did.
                    history.waiting.pop(event.call_id, None)
            case UserSaid(message):
                _close(history, calls)
                calls = ()
                history.messages.append(message)
                history.said = True
                history.checks += event.by == "runtime" and message.text.startswith(UNTIL_NOTE)
                history.labels.update(event.labels)
                _drop_told(history.told, event)
            case UserTold():
                # Not in the transcript yet, and no end of the calls that are open.
                history.told.append(event)
                history.labels.update(event.labels)
            case RunStarted():
                _close(history, calls)
                calls = ()
                # A run that was killed, or waits, is left behind; what it was told is not.
                history.messages += (told.message for told in history.told)
                history.told.clear()
                history.mark = str(event.detail.get("mark", ""))
                if IMPORTED in event.detail:
                    history.labels.update((PRIVATE, UNTRUSTED))
                history.run, history.finished = event, None
                history.turns, history.said, history.over, history.checks = 0, False, "", 0
                history.made, history.noticed = {}, set()
                spent.clear()
            case PermissionRequested():
                # The first one: a call that goes on waiting is asked about again and keeps its key.
                history.requests.setdefault(event.call_id, event)
                asked[event.approval] = event
            case ContextCompacted():
                done = compact(
                    history.messages, event.budget_tokens, sizes=history.sizes, settled=history.settled
                )
                history.messages = list(done.messages)
                history.sizes, history.settled = done.sizes, done.settled
            case HistoryFolded():
                history.messages = list(event.messages)
                history.labels.update(event.labels)
                ids.update(event.call_ids)
                history.sizes, history.settled = event.sizes, event.settled
            case RunFinished():
                history.finished = event
            case Notice() if DAMAGED in event.detail:
                # It may have told that one of them began: nobody knows what it did.
                history.started.update(i for i in waits if i and i not in history.waiting)
            case Notice() if "limit" in event.detail:
                history.noticed.add(event.detail["limit"])
                if event.text.endswith(USED_UP):
                    history.over = event.text.removesuffix(USED_UP)
            case _:
                pass
    history.call_ids = {i for i in ids if i}
    history.usage = Usage.total(spent)
    history.open_calls = tuple(c for c in calls if c.id not in history.done)
    if not history.open_calls:
        _close(history, calls)
    return history


def without_rewound(events: Iterable[Event]) -> list[Event]:
    """The events without those that a person has taken back."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, ConversationRewound):
            start = next(
                (n for n, e in enumerate(out) if isinstance(e, RunStarted) and e.run == event.run), len(out)
            )
            del out[start:]
        else:
            out.append(event)
    return out


def folded(events: Sequence[Event], through: int) -> HistoryFolded:
    """What stands for a session's events before the start of a run.

    Args:
        events: all of them, or those behind an earlier HistoryFolded that stands first; the last is the run's start.
        through: number of the record before that.
    """
    history = fold(events)
    return HistoryFolded(
        through=through,
        messages=tuple(history.messages),
        said=tuple(user_messages(events)),
        labels=tuple(sorted(history.labels)),
        call_ids=tuple(sorted(history.call_ids)),
        sizes=history.sizes,
        settled=history.settled,
    )


def goes_before(events: Sequence[Event]) -> bool:
    """Whether a person has taken the conversation back to before the first of these events."""
    begun: set[str] = set()
    for event in events:
        if isinstance(event, RunStarted):
            begun.add(event.run)
        elif isinstance(event, ConversationRewound) and event.run not in begun:
            return True
    return False


def user_messages(events: Iterable[Event]) -> Iterator[UserSaid]:
    """What people said in a session themselves; what was imported is nobody's word."""
    foreign = False
    told: list[UserTold] = []
    for event in events:
        if isinstance(event, HistoryFolded):
            yield from event.said
        elif isinstance(event, RunStarted):
            foreign = IMPORTED in event.detail
        elif isinstance(event, UserTold) and not foreign:
            told.append(event)
        elif isinstance(event, UserSaid) and not foreign:
            _drop_told(told, event)
            yield event
    # Not read before a process ended: the next run begins with it.
    yield from (UserSaid(one.message, one.by, one.labels) for one in told)


def _drop_told(told: list[UserTold], said: UserSaid) -> None:
    """Take out what was read: its message stands in the transcript now."""
    for one in told:
        if one.message == said.message and one.by == said.by:
            told.remove(one)
            return


def interrupted_results(history: History) -> ResultsMessage:
    """The results of the last turn's calls where the conversation goes on without waiting for them."""
    last = next(m for m in reversed(history.messages) if isinstance(m, AssistantMessage))
    return _results(history, last.calls)


def _results(history: History, calls: tuple[ToolCall, ...]) -> ResultsMessage:
    done = history.done
    results = [done.get(c.id or "") or interrupted(c, history.started, history.waiting) for c in calls]
    return ResultsMessage(for_model(results, history.mark, calls))


def _close(history: History, calls: tuple[ToolCall, ...]) -> None:
    """Append the results of `calls`; one that has none is interrupted: nobody knows what it did."""
    if calls:
        history.messages.append(_results(history, calls))
    history.started.clear()
    history.done.clear()
    history.waiting.clear()
    history.requests.clear()


def interrupted(
    call: ToolCall, started: Container[str | None], waiting: Mapping[str, ToolResult] | None = None
) -> ToolResult:
    """The result of a call that the end of the process, or of the wait for it, left without one."""
    waited = None if waiting is None else waiting.get(call.id or "")
    if waited is not None:
        message = f"{call.name} waited for an answer that did not come before the conversation went on"
        hint = "It did not run. Call it again if it is still needed."
        if waited.error is not None and "inner" in waited.error.details:
            hint = "It ran up to there. Check what its calls have changed before calling again."
    elif call.id in started:
        message = f"the process ended while {call.name} ran; it is unknown whether it took effect"
        hint = "Check the state it would have changed before calling again."
    else:
        message = f"the process ended before {call.name} ran; it did not run"
        hint = "Call it again if it is still needed."
    failed = ToolResult.failed(Interrupted(message, hint=hint))
    return ToolResult(content=failed.content, error=failed.error, call_id=call.id or "", tool=call.name)


@dataclass(slots=True)
class OpenCalls:
    """The open calls of a history, parted.

    Attributes:
        results: those that have their result now, in call order.
        again: those that run now.
        pending: what the others go on waiting for.
    """

    results: list[tuple[ToolCall, ToolResult]] = field(default_factory=list[tuple[ToolCall, ToolResult]])
    rerun: list[ToolCall] = field(default_factory=list[ToolCall])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def split_calls(history: History, toolkit: Toolkit, answers: Mapping[str, Any]) -> OpenCalls:
    """Part the open calls; nothing is run or recorded.

    Args:
        history: as the stream tells it.
        kit: says which tools may run twice.
        answers: what was answered to calls that waited, by the key that they wait for.
    """
    out = OpenCalls()
    for call in history.open_calls:
        waiting = history.waiting.get(call.id or "")
        if history.over:
            # A call in spite of the last word's being without tools.
            out.results.append((call, failed_call(call, over_limit_error(call, history.over))))
        elif waiting is not None and waiting.error is not None:
            details = waiting.error.details
            if details.get("kind") == "approval" or "inner" in details:
                asked = history.requests.get(call.id or "")
                said_no = asked is not None and isinstance(answers.get(asked.approval), Refused)
                _run(call, out, refused=said_no)
            elif details.get("pending") in answers:
                out.results.append(
                    (call, answered_result(call.id or "", waiting.tool, answers[details["pending"]]))
                )
            else:
                out.pending += waits_of(details, call.id or "", waiting.tool)
        elif call.id in history.started and not _repeatable(call, toolkit):
            out.results.append((call, interrupted(call, history.started)))
        else:
            _run(call, out)
    return out


def waits_of(details: Mapping[str, Any], call_id: str, tool: str) -> list[dict[str, Any]]:
    """What a suspended call waits for: a program for each of its calls that wait, any other for one answer.

    Args:
        details: of its error.
        call_id, tool: the call.
    """
    inner = details.get("inner")
    return [dict(one) for one in inner] if inner else [{**details, "call_id": call_id, "tool": tool}]


def _run(call: ToolCall, out: OpenCalls, *, refused: bool = False) -> None:
    """Let it run, unless a secret that it was sent with is not in the record; a refused one needs none."""
    lost = None if refused else lost_secret(call)
    if lost is None:
        out.rerun.append(call)
    else:
        out.results.append((call, failed_call(call, lost)))


def _repeatable(call: ToolCall, toolkit: Toolkit) -> bool:
    found = toolkit.resolve(call.name)
    return found is not None and found.idempotent
