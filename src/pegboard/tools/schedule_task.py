"""schedule_task: `cron` with three parameters, for a task and its schedule."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.schedules import JobRequest, Schedules
from pegboard.tools.cron import added, destination, effects_of_delivery


async def plan_schedule_task(call: ValidCall, context: Context) -> Plan:
    """As for `cron` with action add."""
    given = call.arguments
    context.port(Schedules).describe(_request(**given))
    what = f"{given['schedule']} {clip(given['task'], 0, 200)}"
    return Plan((Effect("schedule", f"add:{what}"), *effects_of_delivery(given)))


@tool(
    plan=plan_schedule_task,
    touches=("schedule", "send"),
    hints=("remind me", "schedule a task", "定时任务"),
    example={"task": "Send the weekly report.", "schedule": "every Monday at 9"},
)
async def schedule_task(
    task: Annotated[str, Field(min_length=1), Alias("message", "prompt")],
    schedule: Annotated[str, Field(min_length=1), Alias("cron_expr", "when")],
    channel: str = "",
    *,
    schedules: Inject[Schedules],
) -> ToolResult:
    """Schedule a task for later: once, or again and again.

    Use cron instead where it is offered: it can list and remove tasks too.

    Args:
        task: What is to be done then, as a complete instruction.
        schedule: A cron expression, every 10m, 20m, an ISO time, or a phrase such as every Monday at 9.
        channel: Channel that the answer goes to; where this session came from by default.

    Raises:
        InvalidArguments: the schedule cannot be read, or its time has passed.
    """
    return added(schedules, await schedules.add(_request(task, schedule, channel)))


def _request(task: str, schedule: str, channel: str) -> JobRequest:
    return JobRequest(message=task, schedule=schedule, to=destination(channel, ""))
