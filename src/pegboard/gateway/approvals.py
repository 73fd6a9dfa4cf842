"""Approvals and the policy over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pegboard.app.app import App
from pegboard.core.errors import ConfigError, InvalidArguments, NotFound
from pegboard.core.policy.approval import Approved, Refused
from pegboard.gateway.access import caller, check_answer
from pegboard.gateway.bodies import ApprovalAnswer, PolicyQuestion, PolicyTest, read_body
from pegboard.gateway.errors import Json
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.views import shown
from pegboard.services.principals import Principal


class ApprovalEndpoints:
    """The endpoints under `/api/approvals` and `/api/policy`.

    Args:
        app: whose services they call.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E = Endpoint
        return [
            E(method="GET", path="/api/approvals", handler=self.list_approvals),
            E(method="POST", path="/api/approvals/{id}", handler=self.answer_approval, body=ApprovalAnswer),
            E(method="GET", path="/api/policy", handler=self.show_policy),
            E(method="DELETE", path="/api/policy/grants/{id}", handler=self.revoke_grant),
            E(method="POST", path="/api/policy/explain", handler=self.explain_call, body=PolicyQuestion),
            E(method="POST", path="/api/policy/test", handler=self.test_policy, body=PolicyTest),
        ]  # fmt: skip

    async def list_approvals(self, request: Request) -> Any:
        """What waits for a person: approvals and questions."""
        return {
            "approvals": [shown(self._app, call.to_dict()) for call in await self._app.approvals.pending()]
        }

    async def answer_approval(self, request: Request) -> Any:
        """Answer what waits; its run goes on."""
        body = await read_body(request, ApprovalAnswer)
        return await self.answer(caller(request), request.path_params["id"], body)

    async def answer(self, by: Principal, key: str, body: ApprovalAnswer) -> dict[str, Any]:
        """Answer what waits under a key; what was asked, with the answer.

        Raises:
            NotFound: nothing waits under it.
            PermissionDenied: the principal may not answer it.
            HTTPException: it is answered already (409).
            InvalidArguments: the answer does not fit.
        """
        call = next((c for c in await self._app.approvals.pending() if c.key == key), None)
        if call is None:
            raise NotFound(
                f"nothing waits under {key!r}: it was answered or has expired", hint="See GET /api/approvals."
            )
        if call.answer:
            raise HTTPException(409, f"{key} is answered already: {call.answer}")
        answer = _answer_of(body, by.name)
        check_answer(by, call.kind, answer)
        if (call.kind == "approval") == isinstance(answer, str):
            wanted = "decision" if call.kind == "approval" else "answer"
            raise InvalidArguments(f"{key} is a waiting {call.kind}", hint=f"Send {wanted}.")
        if isinstance(answer, Approved) and answer.scope not in call.scopes:
            raise InvalidArguments(
                f"a yes to {key} cannot have the scope {answer.scope}",
                hint=f"Allowed: {', '.join(call.scopes)}.",
            )
        await self._app.approvals.answer(key, answer)
        return {**shown(self._app, call.to_dict()), "answer": body.decision or "answered"}

    async def show_policy(self, request: Request) -> Any:
        """The mode and the rules that hold, in their order, and the approvals that were kept."""
        policy = self._app.policies.show()
        grants = [
            {
                "id": g.id, "rule": g.rule or "; ".join(f"allow {k}:{t} tool={g.tool}" for k, t in g.effects),
                "sender": g.sender, "tool": g.tool,
                "effects": [{"kind": k, "target": t} for k, t in g.effects], "scope": g.scope, "session": g.session,
                "workspace": g.workspace, "expires": g.expires_at, "uses": g.uses_left, "by": g.by,
            }
            for g in await self._app.approvals.grants()
        ]  # fmt: skip
        return shown(self._app, {**policy, "grants": grants})

    async def revoke_grant(self, request: Request) -> Any:
        """End an approval that was kept."""
        id = request.path_params["id"]
        try:
            await self._app.approvals.revoke(id)
        except ConfigError:
            raise NotFound(f"no grant {id!r}", hint="See GET /api/policy.") from None
        return {"id": id, "revoked": True}

    async def explain_call(self, request: Request) -> Any:
        """What the policy would decide about a call, effect by effect, and which rule says so."""
        body = await read_body(request, PolicyQuestion)
        told = await self._app.policies.explain(body.tool, body.arguments)
        if "error" in told:
            error = {name: told["error"].get(name, "") for name in ("code", "message", "hint")}
            return Json({"error": error}, 404 if error["code"] == "unknown_tool" else 400)
        rows: list[dict[str, Any]] = told["effects"]
        return {
            "decision": told["decision"], "rule": told["rule"], "reason": told["reason"],
            "effects": [{"kind": r["kind"], "target": r["target"]} for r in rows],
            "verdicts": [
                {
                    "effect": f"{r['kind']} {r['target']}", "verdict": r["decision"], "rule": r["rule"],
                    "reason": r.get("reason", ""), "tried": r["tried"],
                }
                for r in rows
            ],
            "observed": told.get("observed", []),
        }  # fmt: skip

    async def test_policy(self, request: Request) -> Any:
        """What rules would decide about calls: those that are sent, else the ones that hold."""
        body = await read_body(request, PolicyTest)
        calls = [call.model_dump(exclude_none=True) for call in body.calls]
        rows = await self._app.policies.test_calls(calls, rules=body.rules)
        return shown(self._app, {"calls": rows, "failed": sum(row["ok"] is False for row in rows)})


def _answer_of(body: ApprovalAnswer, owner: str) -> Approved | Refused | str:
    by = owner or "gateway"
    match body.decision:
        case None if body.answer is not None:
            return body.answer
        case "deny":
            return Refused(body.reason, by=by)
        case "allow" | "always" if body.answer is None:
            scope = body.scope or ("always" if body.decision == "always" else "once")
            if body.decision == "always" and scope != "always":
                raise InvalidArguments(f"decision always has no scope {scope}", hint="Leave scope out.")
            return Approved(scope=scope, expires_s=body.expires_s, uses=body.uses, by=by)
        case _:
            raise InvalidArguments(
                "send either decision or answer", hint='For example {"decision": "allow"}.'
            )
