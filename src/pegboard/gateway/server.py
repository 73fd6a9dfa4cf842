"""The gateway: the API of one workspace behind one address, and the worker that serves its sessions."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pegboard.app.app import App
from pegboard.core.policy.approval import SuspendAll
from pegboard.gateway.api import Api
from pegboard.gateway.bodies import (
    ApprovalAnswer,
    CallBody,
    ChatRequest,
    ConfigChange,
    NewRun,
    NewSchedule,
    ScheduleChange,
    UndoBody,
)
from pegboard.gateway.chat_completions import ChatCompletions
from pegboard.gateway.errors import HANDLERS, Json, refusal
from pegboard.gateway.live import LiveRuns
from pegboard.gateway.openapi import Endpoint, front_page, openapi_document
from pegboard.net.asgi.server import serve
from pegboard.services.runtime import Interaction

RATE: Final = 20.0
"""Requests a second, other than GET, that a client may send for long."""
BURST: Final = 200
"""Such requests that it may send at once."""
DRAIN_S: Final = 10.0
"""Seconds that running requests and runs get to end when the gateway is stopped."""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Rate:
    """A bucket of tokens by owner: `burst` at once, refilled at `per_s` a second.

    Args:
        per_s, burst: see above.
        clock: monotonic seconds.
    """

    def __init__(self, per_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, owner: str) -> None:
        """Count one request.

        Raises:
            HTTPException: there were too many (429).
        """
        now = self._clock()
        left, at = self._left.get(owner, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._per_s)
        if left < 1:
            wait = math.ceil((1 - left) / self._per_s)
            raise HTTPException(429, "too many requests", {"Retry-After": str(wait)})
        self._left[owner] = (left - 1, now)


class Gateway:
    """Serves an App over HTTP.

    Args:
        app: whose services are served, over its workspace.
        notify: is given each sentence that the person at the terminal should know.
        model: as `--model` takes it, for runs that name none.
        clock: monotonic seconds, for the rate limit.
    """

    def __init__(
        self,
        app: App,
        notify: Callable[[str], None],
        *,
        model: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._model = model
        # What asks is suspended; the worker takes the run further once a person has answered.
        self._interaction = Interaction(approver=SuspendAll(), notify=notify)
        self._live = LiveRuns(app.sessions, app.history, self._interaction, model=model)
        self._rate = Rate(RATE, BURST, clock=clock)
        self.endpoints = self._endpoints()

    async def serve(
        self,
        *,
        host: str,
        port: int,
        tokens: Mapping[str, str],
        hosts: Sequence[str] = (),
        on_start: Callable[[int], None] | None = None,
        drain_s: float = DRAIN_S,
    ) -> None:
        """Serve until cancelled; then take no more requests, let runs end for `drain_s` seconds, and stop.

        A run that has not ended by then is cancelled.

        Args:
            host, port, tokens, hosts, on_start: see `pegboard.net.asgi.server.serve`.
            drain_s: seconds.

        Raises:
            OSError: the address cannot be used.
            StoreError: the history cannot be kept.
        """
        await self._app.store.connect()
        worker = self._app.worker(self._interaction, model=self._model, watcher=self._live)
        working = asyncio.ensure_future(worker.work())
        serving = asyncio.ensure_future(
            serve(
                [self._route(e) for e in self.endpoints], host=host, port=port, tokens=tokens, hosts=hosts,
                public={e.path for e in self.endpoints if e.public}, refuse=refusal, handlers=HANDLERS, max_body=None,
                on_start=on_start, on_stop=self._live.stop,
            )
        )  # fmt: skip
        try:
            done, _ = await asyncio.wait([working, serving], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._live.stop()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            worker.stop()
            tasks = [working, *self._live.tasks]
            await asyncio.wait(tasks, timeout=drain_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- endpoints ----------------------------------------------------------------------------------

    def _endpoints(self) -> list[Endpoint]:
        api, chat = Api(self._app, self._live), ChatCompletions(self._app, self._live)
        whole, text, yes = "integer", "string", "boolean"
        E = Endpoint
        return [
            E(method="GET", path="/", handler=self.front, public=True, media="text/html"),
            E(method="GET", path="/openapi.json", handler=self.openapi, public=True),
            E(method="GET", path="/api/health", handler=api.health, public=True),
            E(method="GET", path="/api/runs", handler=api.list_runs,
              query={"session": text, "status": text, "limit": whole, "all": yes}),
            E(method="POST", path="/api/runs", handler=api.start_run, body=NewRun),
            E(method="GET", path="/api/runs/{id}", handler=api.show_run),
            E(method="GET", path="/api/runs/{id}/events", handler=api.follow_run, media="text/event-stream"),
            E(method="GET", path="/api/approvals", handler=api.list_approvals),
            E(method="POST", path="/api/approvals/{id}", handler=api.answer_approval, body=ApprovalAnswer),
            E(method="GET", path="/api/tools", handler=api.list_tools),
            E(method="POST", path="/api/tools/{name}/call", handler=api.call_tool, body=CallBody,
              query={"preview": yes}),
            E(method="GET", path="/api/sessions", handler=api.list_sessions, query={"all": yes}),
            E(method="GET", path="/api/sessions/{key:path}", handler=api.show_session,
              query={"after": whole, "limit": whole}),
            E(method="GET", path="/api/schedules", handler=api.list_schedules, query={"all": yes}),
            E(method="POST", path="/api/schedules", handler=api.add_schedule, body=NewSchedule),
            E(method="PATCH", path="/api/schedules/{id}", handler=api.change_schedule, body=ScheduleChange),
            E(method="DELETE", path="/api/schedules/{id}", handler=api.remove_schedule),
            E(method="POST", path="/api/schedules/{id}/run", handler=api.fire_schedule),
            E(method="GET", path="/api/schedules/{id}/runs", handler=api.schedule_history, query={"limit": whole}),
            E(method="GET", path="/api/artifacts", handler=api.list_artifacts, query={"session": text}),
            E(method="GET", path="/api/artifacts/{id}", handler=api.show_artifact,
              query={"session": text, "version": whole, "diff": whole}),
            E(method="GET", path="/api/undo", handler=api.list_undo),
            E(method="POST", path="/api/undo", handler=api.undo, body=UndoBody),
            E(method="GET", path="/api/usage", handler=api.usage, query={"days": whole}),
            E(method="GET", path="/api/config", handler=api.show_config),
            E(method="PATCH", path="/api/config", handler=api.change_config, body=ConfigChange),
            E(method="GET", path="/api/config/schema", handler=api.config_schema),
            E(method="GET", path="/metrics", handler=api.metrics, media="text/plain"),
            E(method="GET", path="/v1/models", handler=chat.models),
            E(method="POST", path="/v1/chat/completions", handler=chat.complete, body=ChatRequest),
        ]  # fmt: skip

    async def front(self, request: Request) -> Response:
        """This page."""
        return HTMLResponse(front_page(self.endpoints, "The gateway is running."))

    async def openapi(self, request: Request) -> Any:
        """This API as an OpenAPI document."""
        return openapi_document(self.endpoints)

    def _route(self, endpoint: Endpoint) -> Route:
        handler: Callable[[Request], Awaitable[Any]] = endpoint.handler

        async def answer(request: Request) -> Response:
            if request.method not in ("GET", "HEAD"):
                self._rate.take(request.state.owner)
            made = await handler(request)
            response = made if isinstance(made, Response) else Json(made)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return Route(endpoint.path, answer, methods=[endpoint.method])
