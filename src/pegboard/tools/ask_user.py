"""ask_user: ask the person at the other end, and wait for the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field

from pegboard.core.context import Context
from pegboard.core.effects import EMPTY_PLAN, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.policy.approval import Waiting
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.people import People, Question


def _labels(value: Any) -> Any:
    """Options by their labels: `{label, description}` comes too."""
    if not isinstance(value, list):
        return value
    rows = cast("list[Any]", value)
    return [
        cast("Mapping[str, Any]", one).get("label", "") if isinstance(one, Mapping) else one for one in rows
    ]


def plan_question(call: ValidCall, context: Context) -> Plan:
    """A question changes nothing and reaches nobody but the person who is there anyway."""
    return EMPTY_PLAN


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """One of several questions."""

    question: Annotated[str, Field(min_length=1, description="The question.")]
    options: Annotated[
        list[str], BeforeValidator(_labels), Field(max_length=4, description="Suggested answers.")
    ] = field(default_factory=list[str])
    multi_select: Annotated[bool, Field(description="Whether several may be chosen.")] = False


@tool(plan=plan_question, timeout_s=0, hints=("ask the user", "clarify a request", "问用户"))
async def ask_user(
    question: Annotated[str, Alias("prompt", "text", "message")] = "",
    options: Annotated[list[str], BeforeValidator(_labels), Field(max_length=4)] | None = None,
    multi_select: bool = False,
    questions: Annotated[list[AskedQuestion], Field(max_length=4)] | None = None,
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
        questions: Up to four questions to ask together, instead of question.
        timeout: Seconds to wait for the answer to each.

    Raises:
        InvalidArguments: nothing is asked.
    """
    first = (
        [AskedQuestion(question=question, options=options or [], multi_select=multi_select)]
        if question
        else []
    )
    asked = [
        Question(text=q.question, options=tuple(q.options), multi_select=q.multi_select, timeout_s=timeout)
        for q in (*first, *(questions or ()))
    ]
    if not asked:
        raise InvalidArguments("nothing is asked", hint="Give question, or questions.")
    answers = await people.ask(asked)
    if isinstance(answers, Waiting):
        return answers
    if len(asked) == 1:
        return ToolResult.from_text(answers[0], data={"answer": answers[0], "question": asked[0].text})
    pairs = [{"question": q.text, "answer": a} for q, a in zip(asked, answers, strict=True)]
    return ToolResult.from_text(
        "\n".join(f"{p['question']}\n{p['answer']}" for p in pairs), data={"answers": pairs}
    )
