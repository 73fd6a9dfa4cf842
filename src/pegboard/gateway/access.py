"""Access: what each endpoint asks of whoever calls it. One that is not listed here is the owner's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request

from pegboard.app.app import App
from pegboard.core.errors import NotFound, PermissionDenied
from pegboard.core.policy.approval import Approved
from pegboard.ports.store import Store
from pegboard.services.principals import Principal, Scope, may_see
from pegboard.store.answers import Answer
from pegboard.store.runs import RunList

SCOPES: Final[Mapping[tuple[str, str], Scope]] = {
    ("GET", "/api/me"): "view",
    ("GET", "/api/runs"): "view",
    ("POST", "/api/runs"): "talk",
    ("GET", "/api/runs/{id}"): "view",
    ("GET", "/api/runs/{id}/events"): "view",
    ("GET", "/api/runs/{id}/times"): "view",
    ("POST", "/api/runs/{id}/stop"): "talk",
    ("GET", "/api/runs/{id}/agents"): "view",
    ("GET", "/api/runs/{id}/export"): "view",
    ("GET", "/api/approvals"): "view",
    ("POST", "/api/approvals/{id}"): "talk",
    ("GET", "/api/tools"): "view",
    ("POST", "/api/tools/{name}/call"): "call",
    ("GET", "/api/sessions"): "view",
    ("GET", "/api/sessions/{key:path}"): "view",
    ("GET", "/api/sessions/{key:path}/notices"): "view",
    ("POST", "/api/sessions/{key:path}/messages"): "talk",
    ("GET", "/api/search"): "view-all",
    ("GET", "/api/schedules"): "view-all",
    ("GET", "/api/schedules/{id}/runs"): "view-all",
    ("GET", "/api/artifacts"): "view",
    ("GET", "/api/artifacts/{id}"): "view",
    ("GET", "/api/undo"): "view-all",
    ("GET", "/api/usage"): "view-all",
    ("GET", "/api/budgets"): "view-all",
    ("GET", "/api/policy"): "view-all",
    ("GET", "/api/files"): "call",
    ("GET", "/api/channels"): "view-all",
    ("GET", "/metrics"): "view-all",
    ("POST", "/agui"): "talk",
    ("GET", "/v1/models"): "talk",
    ("POST", "/v1/chat/completions"): "talk",
}


def caller(request: HTTPConnection) -> Principal:
    """Who sends a request; nobody with any rights at a public address."""
    owner = request.state.owner
    return owner if isinstance(owner, Principal) else Principal(name="", role="")


def check_scope(principal: Principal, method: str, path: str) -> None:
    """Let a request of an endpoint pass.

    Raises:
        HTTPException: the principal's role does not allow it (403).
    """
    scope: Scope = SCOPES.get((method, path), "administer")
    if not principal.may(scope):
        raise HTTPException(403, f"the role {principal.role} may not {scope}")


async def check_target(principal: Principal, request: Request, app: App) -> None:
    """Let a principal reach what a request names: the run or approval of its path, the session of its path or query.

    Raises:
        NotFound: it belongs to somebody else; that it is there is not told.
    """
    if principal.sees_all:
        return
    path, given = request.scope["route"].path, request.path_params
    wanted = [request.query_params["session"]] if "session" in request.query_params else []
    if path.startswith("/api/sessions/{key"):
        wanted.append(given["key"])
    elif path.startswith("/api/runs/{id}"):
        row = await RunList(app.store).get(given["id"])
        # What is short for an id, or `last`, could mean another run by the time it is looked up again.
        wanted.append("" if row is None else row.stream)
    elif path.startswith("/api/approvals/{id}"):
        waiting = await app.approvals.pending()
        wanted.append(next((call.session for call in waiting if call.key == given["id"]), ""))
    for session in wanted:
        if not await may_see(principal, session, app.store):
            raise NotFound(f"{request.url.path} is not there", hint="It may belong to somebody else.")


async def only_own(principal: Principal, made: Any, store: Store) -> Any:
    """What an endpoint gives, without rows of other principals' sessions in its lists."""
    if principal.sees_all or not isinstance(made, dict):
        return made
    shown = dict(cast("dict[str, Any]", made))
    for key, rows in shown.items():
        if isinstance(rows, list) and key in _LISTS:
            shown[key] = [r for r in cast("list[Any]", rows) if await may_see(principal, r["session"], store)]
    return shown


_LISTS: Final = frozenset({"runs", "approvals", "sessions"})
"""Lists whose rows tell their session."""


def check_answer(principal: Principal, kind: str, answer: Answer) -> None:
    """Let a principal answer what waits.

    Args:
        principal: who answers.
        kind: of what waits: `approval` or `question`.
        answer: what it says.

    Raises:
        PermissionDenied: approvals, or yeses that hold for everybody's calls, are not for its role.
    """
    if isinstance(answer, Approved) and answer.scope == "always" and not principal.may("administer"):
        raise PermissionDenied(
            f"the role {principal.role} may not answer with the scope always",
            hint="Use once, run or session.",
        )
    if kind == "approval" and not principal.may("approve"):
        raise PermissionDenied(
            f"the role {principal.role} may not answer approvals", hint="Ask the owner to answer it."
        )
