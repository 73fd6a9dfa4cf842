"""Approval of calls that clients make: by their users if the owner trusts the clients, else by the owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from pegboard.core.call.call import new_id
from pegboard.core.errors import ToolError
from pegboard.core.policy.approval import Answer, ApprovalRequest, Approved, Refused, Waiting
from pegboard.mcp.request_context import InputRequired, Json, RequestContext, current_request
from pegboard.ports.people import Question, waiting_for

_MAX = 4_000


class Waits(Protocol):
    """Where calls wait for the owner of this server."""

    async def taken(self, request: ApprovalRequest) -> Approved | Refused | None:
        """The owner's answer to this very call, used up by that; None while there is none."""
        ...

    async def kept(self, request: ApprovalRequest, client: str) -> str:
        """Keep the call; the key to answer it by, empty where it cannot be kept."""
        ...


class ClientApprover:
    """Asks the user of a client that the owner trusts; other calls wait for the owner.

    Args:
        trusted: the owner vouches that its clients show questions to a person and do not answer themselves.
        yes: the owner answers everything with once (`--yes`), but for what only a person may answer.
        waits: where calls wait; None = they are refused.
    """

    def __init__(self, *, trusted: bool, approved: bool = False, waits: Waits | None = None) -> None:
        self._trusted = trusted
        self._yes = approved
        self._waits = waits

    async def decide(self, request: ApprovalRequest) -> Answer:
        """The answer: of the owner, of the client's user, or Waiting; else a refusal that says how to allow it."""
        if self._yes and not (request.tainted or request.person):
            return Approved(by="--yes")
        given = None if self._waits is None else await self._waits.taken(request)
        if given is not None:
            return given
        exchange = current_request()
        if exchange is None or not self._trusted:
            return await self._wait(request, "this client is not trusted to give it (--trust-clients)")
        if not exchange.supports("elicitation"):
            return await self._wait(request, "this client cannot ask its user (no elicitation)")
        return await _elicited(exchange, request)

    async def _wait(self, request: ApprovalRequest, why: str) -> Answer:
        first = request.asking[0] if request.asking else None
        rule = f"allow {first.kind}:{first.target}" if first else f"allow tool={request.tool}"
        always = f"the owner of this server can allow it for good with a rule such as {rule!r}"
        exchange = current_request()
        client = "" if exchange is None else str(exchange.peer.info.get("name", ""))[:60]
        key = "" if self._waits is None else await self._waits.kept(request, client)
        if not key:
            return Refused(f"it needs approval, and {why}; {always}")
        how = (
            f"{request.tool} needs approval, and {why}. Its owner answers with: pegboard approvals approve {key} "
            f"(or deny). Make the same call again after that; {always}."
        )
        return Waiting("approval", key, None, {"how": how})


async def _elicited(ctx: RequestContext, request: ApprovalRequest) -> Answer:
    schema = {
        "type": "object",
        "properties": {"decision": {"type": "string", "enum": ["allow once", "refuse"], "title": "Decision"}},
        "required": ["decision"],
    }
    try:
        answer = await ctx.elicit(_text(request), schema, key=f"approve-{request.digest[:16]}")
    except InputRequired:
        # The client calls again with the answer; until then nothing has run.
        return Refused("the client has to answer first")
    except ToolError as error:
        return Refused(f"the client gave no answer: {error.message}")
    if answer.get("action") == "accept" and _content(answer).get("decision") == "allow once":
        return Approved(by=f"client {str(ctx.peer.info.get('name', ''))[:60]}")
    return Refused("the user refused", by="client")


class ClientPeople:
    """The user of the calling client as the People port: `ask_user` through elicitation."""

    async def ask(self, questions: Sequence[Question]) -> Sequence[str] | Waiting:
        """The answers; Waiting where the client cannot ask or its user does not answer."""
        exchange = current_request()
        answers: list[str] = []
        for number, question in enumerate(questions, 1):
            field: dict[str, Any] = {"type": "string", "title": "Answer"}
            if question.options:
                field["description"] = "Suggested: " + " / ".join(question.options)
            schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
            if exchange is None or not exchange.supports("elicitation"):
                return waiting_for(questions, new_id("q"))
            answer = await exchange.elicit(question.text[:_MAX], schema, key=f"question-{number}")
            if answer.get("action") != "accept":
                return waiting_for(questions, new_id("q"))
            answers.append(str(_content(answer).get("answer", "")))
        return answers


def _content(answer: Json) -> Json:
    given: Any = answer.get("content")
    return cast("Json", given) if isinstance(given, dict) else {}


def _text(request: ApprovalRequest) -> str:
    lines = [f"{request.tool} wants to:"]
    lines += [f"{'?' if e in request.asking else ' '} {e}" for e in request.effects]
    lines += [c.summary() for c in request.changes]
    lines += [c.diff for c in request.changes if c.diff]
    lines.append(f"It asks because: {request.reason}")
    return "\n".join(lines)[:_MAX]
