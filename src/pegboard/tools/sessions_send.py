"""sessions_send: give another session a message, and wait for its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import Notes, ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.sessions import SessionAccess


async def plan_sessions_send(call: ValidCall, context: Context) -> Plan:
    """The session is looked up, so that rules and questions name its whole key."""
    given = call.arguments
    session, label, agent = (str(given.get(k) or "") for k in ("session", "label", "agent"))
    if not (session or label or agent):
        raise InvalidArguments("say whom: give session, label or agent")
    row = await context.port(SessionAccess).find(session, label=label, agent=agent)
    # Who may be written to is settled by what the session may see.
    return Plan((Effect("send", f"session:{row.key}", at_least="allow"),), private=row.key)


@tool(
    plan=plan_sessions_send,
    touches=("send",),
    idempotent=True,
    timeout_s=0,
    hints=("message another session", "ask another agent", "发送消息给会话"),
    example={"session": "telegram:user:123456", "message": "The report is ready."},
)
async def sessions_send(
    message: Annotated[str, Field(min_length=1, pattern=r"\S"), Alias("text", "content")],
    session: Annotated[str, Alias("sessionKey", "session_key", "key")] = "",
    label: str = "",
    agent: Annotated[str, Alias("agentId", "agent_id")] = "",
    timeout_s: Annotated[float, Field(ge=0, le=600), Alias("timeoutSeconds", "timeout")] = 0,
    *,
    plan: Inject[Plan],
    sessions: Inject[SessionAccess],
) -> ToolResult:
    """Give another session a message. Name it by one of session, label or agent.

    Args:
        message: What to tell it, complete: it does not see this conversation.
        session: Its key, as sessions_list shows it, or a short form such as telegram:123456.
        label: Its label.
        agent: The session last used of this agent.
        timeout_s: Seconds to wait for its answer; 0 does not wait.

    Raises:
        NotFound: there is no such session.
        BudgetExceeded: the sessions have answered each other too often, or too much was sent within a minute.
    """
    reply = await sessions.send(plan.private, message, timeout_s=timeout_s)
    match reply.status:
        case "answered":
            text = reply.answer or "It gave no answer."
        case "queued":
            text = f"Session {reply.session} reads it when it runs next."
        case "late":
            text = f"Session {reply.session} has not answered within {timeout_s:g} s; its answer comes later."
        case status:
            why = f" ({reply.error})" if reply.error else ""
            text = f"The run of session {reply.session} ended: {status}{why}. {reply.answer}".rstrip()
    data = {
        "sessionKey": reply.session, "status": reply.status, "reply": reply.answer, "error": reply.error,
        "message": reply.id,
    }  # fmt: skip
    return replace(ToolResult.from_text(text, data=data), notes=Notes(labels=reply.labels))
