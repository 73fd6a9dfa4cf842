"""ask_user: ask the person at the other end, and wait for the answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pegboard.core.context import Context
from pegboard.core.effects import EMPTY_PLAN, Plan
from pegboard.core.policy.approval import Waiting
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.people import People, Question


def plan_question(call: ValidCall, context: Context) -> Plan:
    """A question changes nothing and reaches nobody but the person who is there anyway."""
    return EMPTY_PLAN


@tool(plan=plan_question, timeout_s=0, hints=("ask the user", "clarify a request", "问用户"))
async def ask_user(
    question: Annotated[str, Field(min_length=1), Alias("prompt", "text", "message")],
    options: Annotated[list[str], Field(max_length=4)] | None = None,
    multi_select: bool = False,
    timeout: Annotated[float, Field(ge=30, le=3600)] = 900,
    *,
    people: Inject[People],
) -> ToolResult | Waiting:
    """Ask the user a question and wait for the answer.

    Use it when the task cannot go on without a decision or a fact that only the user has. Do not use
    it to report progress.

    Args:
        question: The question, understandable on its own.
        options: Up to four suggested answers; the user may also answer freely.
        multi_select: Whether several options may be chosen.
        timeout: Seconds to wait for the answer.
    """
    asked = Question(
        text=question, options=tuple(options or ()), multi_select=multi_select, timeout_s=timeout
    )
    answers = await people.ask([asked])
    if isinstance(answers, Waiting):
        return answers
    return ToolResult.from_text(answers[0], data={"answer": answers[0], "question": question})
