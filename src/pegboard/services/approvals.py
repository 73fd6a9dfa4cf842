"""Approvals: what suspended runs and MCP clients wait for, the answers that people give later, and those they keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pegboard.core.call.call import new_id
from pegboard.core.effects import Change, Effect
from pegboard.core.errors import ConfigError
from pegboard.core.events import PermissionRequested, RunFinished, RunStarted
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused
from pegboard.core.policy.grants import Grant
from pegboard.core.policy.policy import PROPOSE_PLAN
from pegboard.core.policy.rules import Rule
from pegboard.services.history import History
from pegboard.store.answers import Answer, Answers
from pegboard.store.grants import StoredGrants
from pegboard.store.runs import RunList, RunRow

CLIENTS: Final = "mcp"
"""The agent of a client's waiting call; nothing resumes its run but the client's own next call."""

MAX_WAITING: Final = 100

SCOPES: Final = ("once", "run", "session", "always")
"""How long a yes may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """One call that waits for somebody.

    Attributes:
        key: what an answer is given to.
        kind: approval, question, subagent or message.
        run, session, task: where it waits.
        call_id, tool: the call.
        effects, changes, reason, novel: what an approval is asked for, and what of it is done for the first time.
        question: what a person is asked, empty for approvals. `options`: the answers that are suggested.
        since: seconds since the epoch.
        answer: what was answered already, empty while nothing was.
        verdicts: the policy's answer to each of the effects, with the rule that gave it and why.
        agent, model: who asks.
    """

    key: str
    kind: str
    run: str
    session: str
    task: str
    call_id: str
    tool: str
    effects: tuple[Effect, ...] = ()
    changes: tuple[Change, ...] = ()
    reason: str = ""
    novel: tuple[str, ...] = ()
    question: str = ""
    options: tuple[str, ...] = ()
    since: float = 0.0
    answer: str = ""
    verdicts: tuple[Mapping[str, Any], ...] = ()
    agent: str = ""
    model: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """How long a yes to it may hold; none where it is no approval."""
        if self.kind != "approval":
            return ()
        # A plan is allowed as a whole, and a client's call is asked for again each time.
        return SCOPES[:1] if self.tool == PROPOSE_PLAN or self.agent == CLIENTS else SCOPES

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "approval": self.key, "kind": self.kind, "run": self.run, "session": self.session,
            "task": self.task, "call_id": self.call_id, "tool": self.tool,
            "effects": [e.to_dict() for e in self.effects], "changes": [c.to_dict() for c in self.changes],
            "reason": self.reason, "novel": list(self.novel), "question": self.question, "since": self.since, "answer": self.answer,
            "verdicts": [dict(v) for v in self.verdicts], "agent": self.agent, "model": self.model,
            "scopes": list(self.scopes),
        }  # fmt: skip


class Approvals:
    """The waiting calls of the history. Its records are their one account; only answers are rows of their own.

    An MCP client's call that waits for the owner is a run of its own in a session of its own; the client repeats
    the call once it is answered. An answer holds for exactly the call that was shown, and is used up by it: its key
    is the digest that an approval binds.

    Args:
        history: where they lie.
        grants: the answers that were kept for later calls; None = they are not looked at here.
        clock: gives answers their time.
    """

    def __init__(
        self, history: History, grants: StoredGrants | None = None, *, clock: Clock | None = None
    ) -> None:
        self._history = history
        self._grants = grants
        self._clock = clock

    @property
    def _answers(self) -> Answers:
        return Answers(self._history.store, clock=self._clock)

    # -- runs that wait ---------------------------------------------------------------------------

    async def pending(self, run: str | None = None) -> list[PendingCall]:
        """What waits now, of one run or of all, newest first."""
        if run is None:
            rows = await self._history.runs(status="suspended")
        else:
            row = await RunList(self._history.store).get(run)
            rows = [] if row is None or row.status != "suspended" else [row]
        return [call for row in rows if await self._is_last(row) for call in await self._waiting_calls(row)]

    async def answer(self, key: str, answer: Answer) -> PendingCall:
        """Keep an answer; the run goes on with it when it is resumed.

        Args:
            key: a waiting call's key, or the unique start of one.
            answer: Approved or Refused for an approval, text for a question; a Refused fits both.

        Raises:
            ConfigError: nothing waits under that key any more, or the answer does not fit it.
        """
        matches = [p for p in await self.pending() if p.key.startswith(key)]
        exact = [p for p in matches if p.key == key] or matches
        if len(exact) != 1:
            what = "nothing is waiting" if not matches else f"{len(matches)} calls wait"
            raise ConfigError(
                f"{what} under {key!r}: it was answered or has expired; see: pegboard approvals"
            )
        call = exact[0]
        if (call.kind == "approval") == isinstance(answer, str):
            verb = "approve or deny it" if call.kind == "approval" else "answer it with a text"
            raise ConfigError(f"{call.key} is a waiting {call.kind}; {verb}")
        await self._answers.give(call.key, answer)
        return call

    async def answer_run(self, run: str, answer: Answer) -> list[PendingCall]:
        """Keep one answer to all that a run waits for and that it fits; these calls."""
        calls = [c for c in await self.pending(run) if (c.kind == "approval") != isinstance(answer, str)]
        for call in calls:
            await self._answers.give(call.key, answer)
        return calls

    async def answers(self, run: str) -> Mapping[str, Answer]:
        """The answers to what a run waits for, by key."""
        return await self._answers.of([call.key for call in await self.pending(run)])

    async def forget(self, keys: Iterable[str]) -> None:
        """Delete answers that have been used."""
        await self._answers.used(keys)

    # -- calls of MCP clients that wait -------------------------------------------------------------

    async def taken(self, request: ApprovalRequest) -> Approved | Refused | None:
        """The owner's answer to this very call, used up by it; None while there is none."""
        key, session = _key(request), _session(request)
        for row in await self._history.runs(session=session, limit=1, status="suspended"):
            answer = (await self.answers(row.id)).get(key)
            if isinstance(answer, Approved | Refused):
                await self.forget([key])
                word = "approved" if isinstance(answer, Approved) else "refused"
                await self._write(session, row.id, RunFinished(run=row.id, status="done", answer=word))
                return answer
        return None

    async def kept(self, request: ApprovalRequest, client: str) -> str:
        """Keep the call waiting; the key under which `pegboard approvals` shows it, empty if too many wait."""
        key, session = _key(request), _session(request)
        if await self._history.runs(session=session, limit=1, status="suspended"):
            return key
        waiting = [r for r in await self._history.runs(status="suspended") if r.agent == CLIENTS]
        if len(waiting) >= MAX_WAITING:
            return ""
        run = new_id("run")
        task = f"the MCP client {client or 'without a name'} calls {request.tool}; it repeats the call once it is answered"
        pending = {"pending": key, "kind": "approval", "call_id": request.call.id, "tool": request.tool}
        await self._write(
            session,
            run,
            RunStarted(run=run, session=session, agent=CLIENTS, model="", task=task),
            PermissionRequested(
                approval=key, call_id=request.call.id or "", tool=request.tool, effects=request.effects,
                changes=request.changes, reason=request.reason, digest=request.digest, novel=request.novel,
                verdicts=request.verdicts,
            ),
            RunFinished(run=run, status="suspended", answer="", pending=(pending,)),
        )  # fmt: skip
        return key

    # -- answers that were kept for later calls -----------------------------------------------------

    async def grants(self) -> list[Grant]:
        """The answers that hold for later calls."""
        if self._grants is None:
            return []
        await self._grants.refresh()
        return list(self._grants.list())

    async def give(
        self,
        rule: str,
        sender: str,
        *,
        workspace: str,
        expires_s: float,
        uses: int | None = None,
        by: str = "",
    ) -> Grant:
        """Allow one sender more for a while, where the policy would ask. Denials, the mode's ceiling and what only a
        person answers stay as they are.

        Args:
            rule: what, as an allow rule writes it: `exec:git push **`, with or without `allow` before it.
            sender: who, as `CHANNEL:SENDER`: `telegram:42`, or `gateway:NAME` for the token of that name.
            workspace: where, a real path.
            expires_s: how long, in seconds.
            uses: how often; None = as often as wanted.
            by: who gives it.

        Raises:
            ConfigError: the rule allows nothing, or the sender has no channel.
        """
        if self._grants is None:
            raise ConfigError("grants are not kept here")
        line = rule if rule.split(" ", 1)[0] in ("allow", "ask", "deny") else f"allow {rule}"
        parsed = Rule.parse(line, source="grant")
        if parsed.verdict != "allow" or parsed.override or parsed.observe:
            raise ConfigError(f"{rule!r} is no plain allow rule; write for example: exec:git push **")
        channel, _, who = sender.partition(":")
        if not channel or not who:
            raise ConfigError(
                f"expected CHANNEL:SENDER, got {sender!r}; for example telegram:42 or gateway:ann"
            )
        grant = Grant(
            id=new_id("gr"), tool="", effects=(), workspace=workspace, sender=sender, rule=line, by=by,
            expires_at=(self._clock or SystemClock()).now() + expires_s, uses_left=uses,
        )  # fmt: skip
        await self._grants.give(grant)
        return grant

    async def revoke(self, grant: str) -> None:
        """End a grant.

        Raises:
            ConfigError: there is no grant of that id.
        """
        if self._grants is None or not await self._grants.revoke(grant):
            raise ConfigError(f"no grant with ID {grant!r}; see: pegboard grants")

    # -- inside -------------------------------------------------------------------------------------

    async def _is_last(self, row: RunRow) -> bool:
        """Whether the session has not gone on without it."""
        return (await self._history.runs(session=row.stream, limit=1))[0].id == row.id

    async def _waiting_calls(self, row: RunRow) -> list[PendingCall]:
        requests: dict[str, PermissionRequested] = {}
        waiting: tuple[Mapping[str, Any], ...] = ()
        types = (PermissionRequested.type, RunFinished.type)
        for event in await self._history.events(row.stream, run=row.id, types=types):
            if isinstance(event, PermissionRequested):
                requests[event.approval] = event
            elif isinstance(event, RunFinished):
                waiting = event.pending
        answers = await self._answers.of([str(one.get("pending")) for one in waiting])
        out: list[PendingCall] = []
        for one in waiting:
            key = str(one.get("pending"))
            asked = requests.get(key)
            out.append(
                PendingCall(
                    key=key, kind=str(one.get("kind")), run=row.id, session=row.stream, task=row.task,
                    call_id=str(one.get("call_id")), tool=str(one.get("tool")),
                    effects=() if asked is None else asked.effects,
                    changes=() if asked is None else asked.changes,
                    reason="" if asked is None else asked.reason,
                    novel=() if asked is None else asked.novel,
                    question=str(one.get("question", "")), since=row.ended,
                    options=tuple(map(str, one.get("options") or ())),
                    answer=_answer_text(answers.get(key)),
                    verdicts=() if asked is None else asked.verdicts, agent=row.agent, model=row.model,
                )
            )  # fmt: skip
        return out

    async def _write(
        self, session: str, run: str, *events: RunStarted | PermissionRequested | RunFinished
    ) -> None:
        async with self._history.log(session, run=run) as log:
            for event in events:
                log.record(event)


def _key(request: ApprovalRequest) -> str:
    return f"ap-mcp-{request.digest[:24]}"


def _session(request: ApprovalRequest) -> str:
    return f"mcp:waiting:{request.digest[:32]}"


def _answer_text(answer: Answer | None) -> str:
    match answer:
        case None:
            return ""
        case Approved():
            return "approved"
        case Refused():
            return "refused"
        case text:
            return text
