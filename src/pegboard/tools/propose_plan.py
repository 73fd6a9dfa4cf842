"""propose_plan: show the user what shall be done, and begin when the user agrees."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import Conflict
from pegboard.core.hosts import host_note, shown_host
from pegboard.core.policy.policy import PROPOSE_PLAN
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.files import Files
from pegboard.ports.plans import Plans
from pegboard.ports.shell import Shell


async def plan_proposal(call: ValidCall, context: Context) -> Plan:
    """What the plan's files, commands and hosts come to: the effects that a yes allows.

    Raises:
        Conflict: the mode is not plan.
    """
    if not context.port(Plans).is_planning:
        raise Conflict(
            "propose_plan works only in mode plan, and this session is not in it",
            hint="Carry the task out; what needs approval is asked for when you do it.",
        )
    arguments = call.arguments
    effects: list[Effect] = []
    for path in arguments["files"] or ():
        effects.append(Effect("write", (await context.port(Files).resolve(path, write=True)).target))
    for command in arguments["commands"] or ():
        effects += context.port(Shell).inspect(command).effects
    effects += [
        Effect("connect", host, reason=host_note(host)) for host in map(shown_host, arguments["hosts"] or ())
    ]
    return Plan(tuple(dict.fromkeys(replace(e, unordered=False) for e in effects)))


@tool(name=PROPOSE_PLAN, plan=plan_proposal, level="confirm", timeout_s=0, hints=("present a plan",))
async def propose_plan(
    plan: Annotated[str, Field(min_length=1), Alias("text", "summary")],
    files: Annotated[list[str], Field(max_length=200), Alias("paths")] | None = None,
    commands: Annotated[list[str], Field(max_length=50)] | None = None,
    hosts: Annotated[list[str], Field(max_length=50)] | None = None,
    *,
    plans: Inject[Plans],
    workspace: Inject[Files],
    shell: Inject[Shell],
    planned: Inject[Plan],
) -> ToolResult:
    """Propose a plan to the user, and begin when the user agrees.

    In mode plan nothing can be changed: read what you need, then call this once with everything that
    the task takes. After a yes you may do exactly what you listed; anything else is asked for.

    Args:
        plan: What you will do and why, as Markdown.
        files: Every file that will be created or changed.
        commands: Every command that will be run, exactly as it will be run.
        hosts: Every host that commands or web tools will reach, such as pypi.org.
    """
    plans.start(planned.effects)
    text = "The user agreed. Carry the plan out now; what goes beyond it needs approval."
    return ToolResult.from_text(text, data={"plan": plan})
