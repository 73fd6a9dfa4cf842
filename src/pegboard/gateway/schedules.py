"""Schedules over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from pegboard.app.app import App
from pegboard.gateway.bodies import NewSchedule, ScheduleChange, flag, number, read_body
from pegboard.gateway.errors import Json
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.views import MAX_ROWS
from pegboard.ports.schedules import JobRequest


class ScheduleEndpoints:
    """The endpoints under `/api/schedules`.

    Args:
        app: whose services they call.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E, one = Endpoint, "/api/schedules/{id}"
        return [
            E(method="GET", path="/api/schedules", handler=self.list_schedules, query={"all": "boolean"}),
            E(method="POST", path="/api/schedules", handler=self.add_schedule, body=NewSchedule),
            E(method="POST", path="/api/schedules/preview", handler=self.preview_schedule, body=NewSchedule),
            E(method="PATCH", path=one, handler=self.change_schedule, body=ScheduleChange),
            E(method="DELETE", path=one, handler=self.remove_schedule),
            E(method="POST", path=f"{one}/run", handler=self.fire_schedule),
            E(method="GET", path=f"{one}/runs", handler=self.schedule_history, query={"limit": "integer"}),
        ]  # fmt: skip

    async def list_schedules(self, request: Request) -> Any:
        """The jobs of the workspace with their next times."""
        schedules = self._app.schedules
        jobs = await schedules.list(everywhere=flag(request, "all"))
        return {"zone": schedules.zone, "schedules": [schedules.describe(job) for job in jobs]}

    async def add_schedule(self, request: Request) -> Any:
        """Add a job."""
        body = await read_body(request, NewSchedule)
        job = await self._app.schedules.add(_request_of(body), session=body.session)
        return Json(self._app.schedules.describe(job), 201)

    async def preview_schedule(self, request: Request) -> Any:
        """What a job would be and when it would run; adds nothing."""
        return self._app.schedules.describe(_request_of(await read_body(request, NewSchedule)))

    async def change_schedule(self, request: Request) -> Any:
        """Change a job; fields that are left out stay as they are."""
        body = await read_body(request, ScheduleChange)
        changes = body.model_dump(exclude_unset=True, exclude_none=True)
        job = await self._app.schedules.update(request.path_params["id"], changes)
        return self._app.schedules.describe(job)

    async def remove_schedule(self, request: Request) -> Any:
        """Remove a job."""
        return self._app.schedules.describe(await self._app.schedules.remove(request.path_params["id"]))

    async def fire_schedule(self, request: Request) -> Any:
        """Run a job now."""
        return self._app.schedules.describe(await self._app.schedules.run(request.path_params["id"]))

    async def schedule_history(self, request: Request) -> Any:
        """What a job did, newest first."""
        limit = number(request, "limit", 20, most=MAX_ROWS, least=1)
        rows = await self._app.schedules.runs(request.path_params["id"], limit=limit)
        return {"runs": [self._app.schedules.describe(row) for row in rows]}


def _request_of(body: NewSchedule) -> JobRequest:
    return JobRequest(
        message=body.message, schedule=body.schedule, zone=body.zone, name=body.name, isolated=body.isolated,
        wake=body.wake, check=body.check,
    )  # fmt: skip
