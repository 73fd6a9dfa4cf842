"""Approving through the client: elicitation counts only where the owner trusts the clients (decisions 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pegboard.core.approval import Answer, ApprovalRequest, Approved, Refused, Waiting
from pegboard.core.errors import ToolError
from pegboard.core.pipeline import new_id
from pegboard.mcp.exchange import InputWanted, Json, current_exchange
from pegboard.ports.people import Question

_MAX = 4_000


class ClientApprover:
    """Asks the user of the calling client.

    Args:
        trusted: the owner vouches that its clients show questions to a person and do not answer themselves.
        yes: the owner answers everything with once (`--yes`).
    """

    def __init__(self, *, trusted: bool, yes: bool = False) -> None:
        self._trusted = trusted
        self._yes = yes

    async def decide(self, request: ApprovalRequest) -> Answer:
        """Ask, or refuse and say how to allow it."""
        if self._yes:
            return Approved(by="--yes")
        exchange = current_exchange()
        first = request.asking[0] if request.asking else None
        rule = f"allow {first.kind}:{first.target}" if first else f"allow tool={request.tool}"
        how = f"the owner of this server can allow it with a rule such as {rule!r}, or start it with --trust-clients"
        if exchange is None or not self._trusted:
            return Refused(f"it needs approval, and this client is not trusted to give it; {how}")
        if not exchange.can("elicitation"):
            return Refused(f"it needs approval, and this client cannot ask its user (no elicitation); {how}")
        schema = {
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": ["allow once", "refuse"], "title": "Decision"}
            },
            "required": ["decision"],
        }
        try:
            answer = await exchange.elicit(_text(request), schema, key=f"approve-{request.digest[:16]}")
        except InputWanted:
            # The client calls again with the answer; until then nothing has run.
            return Refused("the client has to answer first")
        except ToolError as error:
            return Refused(f"the client gave no answer: {error.message}")
        if answer.get("action") == "accept" and _content(answer).get("decision") == "allow once":
            return Approved(by=f"client {str(exchange.peer.info.get('name', ''))[:60]}")
        return Refused("the user refused", by="client")


class ClientPeople:
    """The user of the calling client as the People port: `ask_user` through elicitation."""

    async def ask(self, questions: Sequence[Question]) -> Sequence[str] | Waiting:
        """The answers; Waiting where the client cannot ask or its user does not answer."""
        exchange = current_exchange()
        answers: list[str] = []
        for number, question in enumerate(questions, 1):
            field: dict[str, Any] = {"type": "string", "title": "Answer"}
            if question.options:
                field["description"] = "Suggested: " + " / ".join(question.options)
            schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
            if exchange is None or not exchange.can("elicitation"):
                return Waiting("question", new_id("q"), None, {"question": question.text})
            answer = await exchange.elicit(question.text[:_MAX], schema, key=f"question-{number}")
            if answer.get("action") != "accept":
                return Waiting("question", new_id("q"), None, {"question": question.text})
            answers.append(str(_content(answer).get("answer", "")))
        return answers


def _content(answer: Json) -> Json:
    given: Any = answer.get("content")
    return cast("Json", given) if isinstance(given, dict) else {}


def _text(request: ApprovalRequest) -> str:
    lines = [f"{request.tool} wants to:"]
    lines += [f"{'?' if e in request.asking else ' '} {e}" for e in request.effects]
    lines += [c.diff for c in request.changes if c.diff]
    lines.append(f"It asks because: {request.reason}")
    return "\n".join(lines)[:_MAX]
