"""Approvals: what is asked, what may be answered, who answers."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast

from pegboard.core.content import ToolCall
from pegboard.core.effects import Change, Effect, Plan
from pegboard.core.errors import BuildError, format_value
from pegboard.core.tool import Tool


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: the same value always gives the same text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def sha256_of(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of a value."""
    import hashlib

    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def tool_digest(tool: Tool) -> str:
    """SHA-256 (hex) of a tool's name, description and schema: its definition as a model sees it."""
    return sha256_of([tool.name, tool.description, tool.schema])


def approval_digest(
    tool: Tool,
    arguments: Mapping[str, Any],
    plan: Plan,
    *,
    session: str,
    workspace: str,
    policy: str,
    environment: tuple[str, ...] = (),
) -> str:
    """SHA-256 (hex) over the tool's definition, canonical arguments, effects, changes with
    before-hashes, workspace, session, policy revision and environment (sandbox backend and
    variable names). Two calls with one digest do the same thing to the same state.
    """
    return sha256_of(
        [tool_digest(tool), dict(arguments), plan.digest(), session, workspace, policy, list(environment)]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """One call that may run only after a yes.

    Attributes:
        id: the approval's id.
        call: the call as it will run (canonical name, decoded arguments).
        tool: the tool's canonical name.
        effects: the exact effects; the ones that asked stand in `asking`.
        changes: the exact file changes, with diffs.
        reason: which rule or default asks, one sentence.
        digest: what a yes is bound to.
        novel: what is done for the first time in this workspace, such as `host evil.example`.
        tainted: sources of untrusted and of private content for which it asks; empty where it asks for
            another reason. Only a person lifts such a question.
        person: it changes protected files, which only a person allows either.
        session, agent, run: where the call runs.
        verdicts: `{decision, rule, reason}` for each of the effects.
    """

    id: str
    call: ToolCall
    tool: str
    effects: tuple[Effect, ...]
    asking: tuple[Effect, ...] = ()
    changes: tuple[Change, ...] = ()
    reason: str = ""
    digest: str = ""
    novel: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()
    person: bool = False
    session: str = ""
    agent: str = ""
    run: str = ""
    verdicts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A yes.

    Attributes:
        scope: once, run (this tool towards these targets until the run ends), session, or always (these targets,
            this tool, this workspace).
        expires_s: seconds until a session or always grant ends; None = 30 days for always.
        uses: how often the grant may be used, None = no limit.
        by: who said so.
    """

    scope: Literal["once", "run", "session", "always"] = "once"
    expires_s: float | None = None
    uses: int | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A no; the model sees the reason."""

    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nobody can answer now: the question is kept and the call is suspended.

    Attributes:
        kind: approval, question, subagent, message.
        key: id under which the answer will come.
        deadline: seconds since the epoch at which it lapses, None = never.
        detail: what is asked, JSON-able.
    """

    kind: str
    key: str
    deadline: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


Answer: TypeAlias = Approved | Refused | Waiting
AnswerWord: TypeAlias = Literal["allow", "deny", "always", "session", "run"]


class Approver(Protocol):
    """Whoever answers approval requests.

    One that also has `async def decide_all(requests)` gets the requests of one turn's calls as one list; it returns an
    answer to all, or a list with an answer to each.
    """

    async def decide(self, request: ApprovalRequest) -> Answer | AnswerWord | str:
        """Answer one request; the words `allow`, `run`, `session`, `always`, `deny` are accepted."""
        ...


def answer_of(value: object) -> Answer:
    """The Answer that a word or value means; anything else is a refusal that says so."""
    match value:
        case Approved() | Refused() | Waiting():
            return value
        case "allow" | "once" | "yes" | True:
            return Approved()
        case "run":
            return Approved(scope="run")
        case "session":
            return Approved(scope="session")
        case "always":
            return Approved(scope="always")
        case "deny" | "no" | False | None:
            return Refused()
        case _:
            return Refused(
                f"the approver answered {value!r}, which is none of allow, run, session, always, deny"
            )


AskAll: TypeAlias = Callable[[Sequence[ApprovalRequest]], Awaitable[object]]


def decide_all_of(approver: object) -> AskAll | None:
    """How an approver answers a list of requests; None = it is asked about each alone."""
    return getattr(approver, "decide_all", None)


async def ask_all(approver: Approver, requests: Sequence[ApprovalRequest]) -> list[Answer]:
    """The answers in order: to one list if the approver takes lists, else to each request alone.

    Raises:
        ValueError: a list came back that does not hold one answer for each.
    """
    together = decide_all_of(approver)
    if together is None or len(requests) < 2:
        return [answer_of(a) for a in await asyncio.gather(*(approver.decide(r) for r in requests))]
    answers = await together(requests)
    if not isinstance(answers, list | tuple):
        return [answer_of(answers)] * len(requests)
    each = cast("Sequence[object]", answers)
    if len(each) != len(requests):
        raise ValueError(f"decide_all gave {len(each)} answers to {len(requests)} requests")
    return [answer_of(a) for a in each]


def approver_of(given: object) -> Approver:
    """An approver from what a developer gave: an object with `decide`, or a function, sync or async.

    Raises:
        BuildError: it is neither, or only its `decide_all` is async.
    """
    decide = None if isinstance(given, type) else getattr(given, "decide", None)
    if inspect.iscoroutinefunction(decide):
        return cast(Approver, given)
    if decide is not None and decide_all_of(given) is not None:
        raise BuildError(
            f"{given!r:.80} has decide_all: write both as async def decide and async def decide_all"
        )
    function = decide if callable(decide) else given
    if isinstance(function, type) or not callable(function):
        raise BuildError(
            f"{given!r:.80} is not an approver: give an object with `async def decide(request)`, or a function"
        )
    return CallbackApprover(function)


class DenyAll:
    """Nobody is there: every request is refused.

    Args:
        reason: what the refusal says.
        person_reason: what it says where only a person may approve; None = the same.
    """

    def __init__(
        self, reason: str = "no one is here to approve it", *, person_reason: str | None = None
    ) -> None:
        self._reason = reason
        self._person_reason = person_reason or reason

    async def decide(self, request: ApprovalRequest) -> Refused:
        """Refuse."""
        return Refused(self._person_reason if request.tainted or request.person else self._reason)


NOBODY = DenyAll()
"""What answers where no approver was given."""


class AllowOnce:
    """`--yes`: every request is approved once; lifts neither a deny nor a question that only a person answers."""

    def __init__(self, by: str = "--yes") -> None:
        self._by = by

    async def decide(self, request: ApprovalRequest) -> Approved | Refused:
        """Approve once; refuse where only a person may say yes."""
        if request.tainted or request.person:
            return Refused(f"{request.reason}; {self._by} does not answer that, only a person does", self._by)
        return Approved(by=self._by)


class NamedByPerson:
    """For one call that a person has named word for word: naming it was the yes. It lifts no deny.

    Args:
        by: how the record names the person.
    """

    def __init__(self, by: str) -> None:
        self._by = by

    async def decide(self, request: ApprovalRequest) -> Approved:
        """Approve once."""
        return Approved(by=self._by)


class SuspendAll:
    """Every request is kept for a later answer (`--on-ask suspend`)."""

    async def decide(self, request: ApprovalRequest) -> Waiting:
        """Keep it waiting under its own id."""
        return Waiting("approval", request.id)


class CallbackApprover:
    """Asks a function, sync or async, that returns any accepted answer."""

    def __init__(self, function: Callable[[ApprovalRequest], Any | Awaitable[Any]]) -> None:
        if not callable(cast(object, function)):
            raise BuildError(
                f"CallbackApprover takes a function of the request, got {format_value(function)}"
            )
        self._function = function

    async def decide(self, request: ApprovalRequest) -> Any:
        """The function's answer."""
        answer: Any = self._function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer
