"""Events: what happens in a run, as values; the stream of them is the one history."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from pegboard.core.effects import Change, Effect, Verdict
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, Message, Usage, UserMessage

IMPORTED: Final = "imported"
"""Key in the detail of a run's start: the file that it came from. Its content is of unknown origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run begins."""

    type: ClassVar[str] = "run.started"
    run: str
    session: str
    agent: str
    model: str
    task: str
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """A run that had ended early or waited is taken up again; its later events stand behind this one."""

    type: ClassVar[str] = "run.resumed"
    run: str
    model: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class UserSaid:
    """A message went into the transcript in the user's place.

    Attributes:
        message: what was said.
        by: `user`; `runtime` for what the loop itself says (a budget that ended, a cut answer); else who wrote it:
            `subagent`, `schedule`, `session`, `process` and the like.
        labels: taint labels of what others wrote.
    """

    type: ClassVar[str] = "message.user"
    message: UserMessage
    by: str = "user"
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UserTold:
    """Somebody said something while the run was busy; the loop has not read it yet.

    Kept at once, so that a run which is killed before it reads it has not lost it. What it reads is told
    again by a `UserSaid` with the same message, in its place in the transcript.

    Attributes:
        message, by, labels: see UserSaid.
        source: the message's id in the inbox, empty if it did not come from there.
    """

    type: ClassVar[str] = "message.told"
    message: UserMessage
    by: str = "user"
    labels: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the model's text as it streams; not stored."""

    type: ClassVar[str] = "model.text"
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPiece:
    """A piece of the model's reasoning as it streams; not stored."""

    type: ClassVar[str] = "model.thinking"
    text: str


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """One model turn is complete."""

    type: ClassVar[str] = "model.replied"
    message: AssistantMessage


@dataclass(slots=True, kw_only=True)
class CallStarted:
    """A call was planned and decided; if allowed it runs now.

    Attributes:
        call_id, tool, arguments: the call, arguments as JSON-able values.
        effects, changes: what it will do.
        decision: allow, ask or deny; `rule` and `reason` say why.
        approver: who said yes or no, empty where nobody was asked.
        digest: what was approved, empty for calls without effects.
        observed: what rules in observation would have answered otherwise.
        parent: the id of the call that made it (`run_code`); empty if a model or a person did.
    """

    type: ClassVar[str] = "call.started"
    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    effects: tuple[Effect, ...] = ()
    changes: tuple[Change, ...] = ()
    decision: Verdict = "allow"
    rule: str = ""
    reason: str = ""
    approver: str = ""
    digest: str = ""
    observed: tuple[str, ...] = ()
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequested:
    """A call waits for a yes.

    Attributes:
        novel: what it would do for the first time.
        verdicts: `{decision, rule, reason}` for each of the effects.
    """

    type: ClassVar[str] = "permission.request"
    approval: str
    call_id: str
    tool: str
    effects: tuple[Effect, ...]
    changes: tuple[Change, ...] = ()
    reason: str = ""
    digest: str = ""
    novel: tuple[str, ...] = ()
    verdicts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionJudged:
    """Mode `auto`: a second model was asked about a call before a person.

    Attributes:
        approval: id of the request; the one that a person is shown if the answer is `ask`.
        call_id, tool: the call.
        answer: `allow`, or `ask` = a person decides; a model that could not answer means `ask` too.
        reason: the model's, or why it gave no answer.
        model: which model was asked.
        usage: what the answer took.
    """

    type: ClassVar[str] = "permission.judged"
    approval: str
    call_id: str
    tool: str
    answer: Literal["allow", "ask"]
    reason: str
    model: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUpdate:
    """A partial result of a running call; not stored."""

    type: ClassVar[str] = "call.update"
    call_id: str
    tool: str
    update: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationTried:
    """A confined command, or a page of the browser, tried to reach something through the egress proxy.

    Attributes:
        call_id, tool: the call that started the command or used the page; empty where a person started it.
        host, port: as asked for.
        allowed: whether it was let through.
        reason: why not, or the address that it went to.
        secrets: names of the secrets whose place holders were filled in on the way.
    """

    type: ClassVar[str] = "call.destination"
    call_id: str
    tool: str
    host: str
    port: int
    allowed: bool
    reason: str
    secrets: tuple[str, ...] = ()


@dataclass(slots=True)
class CallFinished:
    """A call has its one result."""

    type: ClassVar[str] = "call.finished"
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that a person should know and no model needs (a budget near its end, a retry)."""

    type: ClassVar[str] = "notice"
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class PayloadsPurged:
    """The content of a session's older records was deleted; the records themselves stay.

    Attributes:
        through: number of the last record whose content may be missing.
    """

    type: ClassVar[str] = "history.purged"
    through: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """The conversation was shortened to fit the model's window.

    The stream still holds everything: only what the model is sent from here on is shorter. The same
    messages and figures always give the same shorter messages, so a fold can do it again.

    Attributes:
        budget_tokens: what the messages may take, estimated.
        before_tokens, after_tokens: what they took, estimated.
        dropped: what was left out or shortened, one sentence each.
    """

    type: ClassVar[str] = "context.compacted"
    budget_tokens: int
    before_tokens: int
    after_tokens: int
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationRewound:
    """A person took the conversation back to before a run: the model is not sent that run and what followed it.

    The stream still holds everything.

    Attributes:
        run: the first run that is left out.
    """

    type: ClassVar[str] = "conversation.rewound"
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFolded:
    """What the events of a session before the start of one of its runs came to.

    It stands in their place where a long session is opened; the stream itself keeps all of them and never holds this.

    Attributes:
        through: number of the last record that it stands for.
        messages: the conversation as a model is sent it.
        said: what people said themselves.
        labels: taint labels of everything that the messages hold.
        call_ids: ids that calls have used.
        sizes, settled: what the last compaction said of the messages that it left.
    """

    type: ClassVar[str] = "history.folded"
    through: int
    messages: tuple[Message, ...] = ()
    said: tuple[UserSaid, ...] = ()
    labels: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    settled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """A run ends. `status`: done, suspended, limit, failed, cancelled, or denied for a single call that was refused."""

    type: ClassVar[str] = "run.finished"
    run: str
    status: str
    answer: str
    pending: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = field(default_factory=Usage)
    error: str = ""
    output: Any = None

    @property
    def was_cancelled(self) -> bool:
        """Whether somebody stopped it, or its process was ended."""
        # Records of earlier versions have the status failed and this error.
        return self.status == "cancelled" or self.error == "cancelled"


Event: TypeAlias = (
    RunStarted
    | RunResumed
    | UserSaid
    | UserTold
    | TextPiece
    | ThinkingPiece
    | ModelReplied
    | CallStarted
    | PermissionRequested
    | PermissionJudged
    | CallUpdate
    | DestinationTried
    | CallFinished
    | Notice
    | PayloadsPurged
    | ContextCompacted
    | ConversationRewound
    | HistoryFolded
    | RunFinished
)

BRANCHED: Final = "branched_from"
"""Key in a RunStarted's detail: the run that it is a copy of, in the session that was branched."""

TRANSIENT: frozenset[str] = frozenset({"model.text", "model.thinking", "call.update"})
"""Types of events that are shown and not stored."""


class Recorder(Protocol):
    """Where events go. `record` never blocks and never raises for a full disk: it remembers that
    and `flush` raises."""

    def record(self, event: Event) -> None:
        """Append one event."""
        ...

    async def flush(self, *, power_loss: bool = False) -> object:
        """Return when everything recorded so far survives SIGKILL (`power_loss`: and a power cut)."""
        ...


class MemoryRecorder:
    """Keeps the last events in memory.

    Args:
        keep: how many; an executor that lives for days must not grow. None = all.
    """

    __slots__ = ("_append", "events")

    def __init__(self, *, keep: int | None = 1000) -> None:
        self.events: deque[Event] = deque(maxlen=keep)
        self._append = self.events.append

    def record(self, event: Event) -> None:
        """Append one event; the oldest goes where there are too many."""
        append = self._append
        append(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """Nothing to wait for."""
