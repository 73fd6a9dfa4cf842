"""The gateway: the API of one workspace behind one address, and the worker that serves its sessions."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pegboard.app.app import App
from pegboard.core.policy.approval import SuspendAll
from pegboard.gateway.access import caller, check_scope, check_target, only_own
from pegboard.gateway.access_endpoints import AccessEndpoints
from pegboard.gateway.agui import Agui
from pegboard.gateway.approvals import ApprovalEndpoints
from pegboard.gateway.bodies import ChatRequest
from pegboard.gateway.channels import ChannelEndpoints
from pegboard.gateway.chat_completions import ChatCompletions
from pegboard.gateway.console import Console
from pegboard.gateway.errors import HANDLERS, Json, refusal
from pegboard.gateway.files import FileEndpoints
from pegboard.gateway.live import LiveRuns
from pegboard.gateway.nodes import NodeEndpoint
from pegboard.gateway.openapi import Endpoint, front_page, openapi_document
from pegboard.gateway.pages import PageEndpoints
from pegboard.gateway.runs import RunEndpoints
from pegboard.gateway.schedules import ScheduleEndpoints
from pegboard.gateway.sessions import SessionEndpoints
from pegboard.gateway.settings import SettingsEndpoints
from pegboard.gateway.settings_watch import SettingsWatch
from pegboard.gateway.socket import PATH, SocketEndpoint
from pegboard.gateway.tools import ToolEndpoints
from pegboard.gateway.webhooks import WebhookEndpoints
from pegboard.net.asgi.guard import Authenticate, owner_among
from pegboard.net.asgi.server import serve
from pegboard.ports.store import StoreError
from pegboard.services.gateway_control import ServedGateway, tell_restarted
from pegboard.services.principals import OWNER, Principal
from pegboard.services.runtime import Interaction
from pegboard.services.settings import SettingsFiles

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
        self._settings = SettingsWatch(app, notify)
        self._restarting = asyncio.Event()
        self._since = time.time()
        control = ServedGateway(
            SettingsFiles(app.paths, app.workspace), store=lambda: app.store, workspace=str(app.workspace),
            allowed=lambda: app.config.gateway.restart, restart=self._restarting.set,
            applied=self._settings.applied, status=self._status,
        )  # fmt: skip
        self._interaction = Interaction(approver=SuspendAll(), notify=notify, people=[control])
        self._live = LiveRuns(app.sessions, app.history, self._interaction, model=model)
        self._live.before_run = self._settings.check
        self._rate = Rate(RATE, BURST, clock=clock)
        self._owners: Authenticate = owner_among({})
        self._tokens = app.tokens
        self.console = Console()
        self._channels = app.open_channels(notify, gateway=True)
        self._chats = ChannelEndpoints(self._channels)
        self.endpoints = self._endpoints()
        self._nodes = NodeEndpoint(app)
        self._socket = SocketEndpoint(app, self._live, self.principal, self._rate.take)

    async def serve(
        self,
        *,
        host: str,
        port: int,
        tokens: Mapping[str, str],
        hosts: Sequence[str] = (),
        on_start: Callable[[int], None] | None = None,
        drain_s: float = DRAIN_S,
    ) -> bool:
        """Serve until cancelled; then take no more requests, let runs end for `drain_s` seconds, and stop.

        A run that has not ended by then is cancelled.

        Returns:
            True once an agent has asked for a restart and may: whoever runs this starts it again.

        Args:
            host, port, hosts, on_start: see `pegboard.net.asgi.server.serve`.
            tokens: tokens of owners, by name; those that `pegboard tokens` gave out hold besides.
            drain_s: seconds.

        Raises:
            OSError: the address cannot be used.
            StoreError: the history cannot be kept.
        """
        await self._app.store.connect()
        self._owners = owner_among(tokens)
        for session in await tell_restarted(self._app.store):
            self._interaction.notify(f"session {session}, which asked for the restart, is told")
        worker = self._app.worker(
            self._interaction, model=self._model, watcher=self._live, channels=self._channels
        )
        working = asyncio.ensure_future(worker.work())
        relaying = asyncio.ensure_future(self._app.nodes.serve())
        restart = asyncio.ensure_future(self._restarting.wait())
        watching = asyncio.ensure_future(self._settings.watch())
        paths = (e.public_path for e in self.endpoints if e.public)
        public = {PATH, *paths, *self._nodes.paths, *self.console.public}
        routes = [self._socket.route, *self._nodes.routes, *self._chats.routes, *self.console.routes]
        serving = asyncio.ensure_future(
            serve(
                [*(self._route(e) for e in self.endpoints), *routes], host=host, port=port, tokens=self.principal,
                hosts=hosts, public=public, refuse=refusal, handlers=HANDLERS, max_body=None,
                on_start=on_start, on_stop=self._live.stop,
            )
        )  # fmt: skip
        try:
            done, _ = await asyncio.wait(
                [working, serving, relaying, watching, restart], return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            self._live.stop()
            others: list[asyncio.Future[Any]] = [serving, watching, relaying, restart]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            worker.stop()
            tasks = [working, *self._live.tasks]
            await asyncio.wait(tasks, timeout=drain_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._restarting.is_set()

    def _status(self) -> Mapping[str, Any]:
        return {
            "since": self._since, "runs": self._live.going_on, "followers": self._live.followers,
            "settings_error": self._settings.error, "after_restart": list(self._settings.after_restart),
        }  # fmt: skip

    async def principal(self, token: str) -> Principal | None:
        """Whom a token belongs to; None if nobody.

        Raises:
            HTTPException: the store cannot be read (503).
        """
        if (owner := await self._owners(token)) is not None:
            return replace(OWNER, name=owner)
        try:
            return await self._tokens.find(token)
        except StoreError:
            raise HTTPException(503, "the tokens cannot be read now") from None

    # -- endpoints ----------------------------------------------------------------------------------

    def _endpoints(self) -> list[Endpoint]:
        app, live = self._app, self._live
        chat, E = ChatCompletions(app, live), Endpoint
        return [
            E(method="GET", path="/", handler=self.front, public=True, media="text/html"),
            E(method="GET", path="/openapi.json", handler=self.openapi, public=True),
            *RunEndpoints(app, live).endpoints,
            *ApprovalEndpoints(app).endpoints,
            *ToolEndpoints(app).endpoints,
            *SessionEndpoints(app, live).endpoints,
            *ScheduleEndpoints(app).endpoints,
            *FileEndpoints(app).endpoints,
            *SettingsEndpoints(app, live, self._settings).endpoints,
            *Agui(app, live).endpoints,
            *AccessEndpoints(app, self._tokens).endpoints,
            *self._chats.endpoints,
            *WebhookEndpoints(app, time.time).endpoints,
            *PageEndpoints(app).endpoints,
            E(method="GET", path="/v1/models", handler=chat.models),
            E(method="POST", path="/v1/chat/completions", handler=chat.complete, body=ChatRequest),
        ]

    async def front(self, request: Request) -> Response:
        """The console, or this list where it is not built."""
        if self.console.built:
            return await self.console.page(request)
        return HTMLResponse(front_page(self.endpoints, "The gateway is running."))

    async def openapi(self, request: Request) -> Any:
        """This API as an OpenAPI document."""
        return openapi_document(self.endpoints)

    def _route(self, endpoint: Endpoint) -> Route:
        handler: Callable[[Request], Awaitable[Any]] = endpoint.handler

        async def answer(request: Request) -> Response:
            who = caller(request)
            if request.method not in ("GET", "HEAD"):
                self._rate.take(who.name or endpoint.path)
            if not endpoint.public:
                check_scope(who, endpoint.method, endpoint.path)
                await check_target(who, request, self._app)
            made = await handler(request)
            if request.method not in ("GET", "HEAD"):
                self._app.look_now()
            if not endpoint.public:
                made = await only_own(who, made, self._app.store)
            response = made if isinstance(made, Response) else Json(made)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return Route(endpoint.path, answer, methods=[endpoint.method])
