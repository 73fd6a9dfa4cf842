"""schedule_task: `cron` with three parameters, for a task and its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from pegboard.core.effects import Effect
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import tool
from pegboard.ports.schedules import JobRequest, Schedules
from pegboard.tools.cron import added, destination, effects_of_delivery


def effects_of_scheduling(given: Mapping[str, Any]) -> list[Effect]:
    """As for `cron` with action add."""
    what = f"{given.get('schedule', '')} {clip(str(given.get('task', '')), 0, 200)}"
    return [Effect("schedule", f"add:{what}"), *effects_of_delivery(given)]


@tool(
    touches=("schedule", "send"),
    effects=effects_of_scheduling,
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
    request = JobRequest(message=task, schedule=schedule, to=destination(channel, ""))
    return added(schedules, await schedules.add(request))
