"""What the contract of chat channels asks of every fake platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from pegboard.app.app import App
from pegboard.core.policy.approval import SuspendAll
from pegboard.net.client import HttpClient
from pegboard.net.listening import stop_listening
from pegboard.ports.channel import ChatChannel
from pegboard.services.runtime import Interaction


@dataclass
class Shown:
    """A message of ours as people see it: no markup, no escapes.

    Attributes:
        id: what it is named by there.
        text: what is read.
        files: name and bytes.
        chat, thread, reply_to: where it stands.
        buttons: text and value.
        code: the blocks of code in it.
        reactions: of us.
        edits: how often it was changed.
    """

    id: str
    text: str = ""
    files: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    chat: str = ""
    thread: str = ""
    reply_to: str = ""
    buttons: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    code: list[str] = field(default_factory=list[str])
    reactions: list[str] = field(default_factory=list[str])
    edits: int = 0


class Platform:
    """A fake platform; a context manager. What is not common to all stands in the class of the kind.

    Attributes:
        kind: of its channels.
        chat, group, thread: ids of a chat with one person, of a group, and of a thread in it.
        sender: id of a person.
        shown: our messages, oldest first.
        refuse: statuses and headers of refusals that the next requests that send something get.
        requests: how many requests came, by what they do.
        us: what we are called there.
        connections: how often we connected.
        token: what it knows us by; empty = it needs none. `wrong_token`: it refuses it.
        limits: whether it limits what we send.
        connects: whether we connect to it; else its people connect to us.
        acknowledges: whether what was not acknowledged comes again. `keeps`: by itself, at the next connection.
        captions: whether a file can come with a text.
    """

    kind = ""
    chat = ""
    group = ""
    thread = ""
    sender = ""
    us = ""
    token = ""
    limits = True
    connects = True
    acknowledges = True
    keeps = False
    captions = True

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self.refuse: list[tuple[int, float]] = []
        self.requests: list[str] = []
        self.url = ""
        self.wrong_token = False
        self.connections = 0

    # -- the platform ---------------------------------------------------------------------------

    def routes(self) -> Sequence[BaseRoute]:
        """Its API."""
        return ()

    def channel(self, name: str = "c") -> ChatChannel:
        """A channel that talks to it."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """The channel's table in the settings."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """What the options name."""
        return {"CHAT_TOKEN": self.token}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """It runs until the block ends."""
        async with serving([*self.routes()]) as self.url:
            yield

    @asynccontextmanager
    async def serving(self, app: App, notify: Callable[[str], None], *, model: str) -> AsyncGenerator[None]:
        """A worker of an App with a channel to it works until the block ends; what asks is suspended."""
        worker = app.worker(Interaction(approver=SuspendAll(), notify=notify), model=model)
        task = asyncio.ensure_future(worker.work())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def ready(self) -> None:
        """Return once people see what we send."""

    # -- people -----------------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        sender: str = "",
        thread: str = "",
        mention: bool = False,
        files: Sequence[tuple[str, str, bytes]] = (),
        again: bool = False,
    ) -> str:
        """Somebody writes; the id of the message there.

        Args:
            text: what.
            chat, sender: where and who; empty = the person in the chat with us.
            thread: in a thread.
            mention: with our name before it.
            files: name, media type and bytes of what comes with it.
            again: the platform hands over the last message a second time, as if we had not acknowledged it.
        """
        raise NotImplementedError

    async def press(self, shown: Shown, value: str, *, sender: str = "") -> None:
        """Somebody presses a button under a message of ours."""
        raise NotImplementedError

    async def break_connection(self) -> None:
        """What receives is cut off; it may connect again."""
        raise NotImplementedError

    def refusal(self) -> Response | None:
        """The answer to a request that is refused now, None if none is."""
        if not self.refuse:
            return None
        status, wait_s = self.refuse.pop(0)
        headers = {"Retry-After": f"{wait_s:g}"} if wait_s else {}
        return JSONResponse({"ok": False, "error": "refused"}, status, headers)


def http() -> HttpClient:
    """A client that reaches loopback: the settings name the platform's URL."""
    return HttpClient(allow_cidrs=["127.0.0.0/8"], timeout_s=30)


@asynccontextmanager
async def serving(routes: list[BaseRoute]) -> AsyncGenerator[str]:
    """Routes on a free port of loopback; its URL."""
    config = uvicorn.Config(
        Starlette(routes=routes), host="127.0.0.1", port=0, log_level="critical", access_log=False, lifespan="off",
        ws="websockets-sansio", timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    # Signals stay with the tests.
    task = asyncio.ensure_future(server._serve())  # pyright: ignore[reportPrivateUsage]
    try:
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        if server.started:
            await stop_listening(*server.servers)
        server.should_exit = server.force_exit = True
        await asyncio.wait([task], timeout=10)


async def form_of(request: Request) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]]:
    """Fields and files of a request with a form."""
    fields: dict[str, str] = {}
    files: dict[str, tuple[str, bytes]] = {}
    async with request.form() as form:
        for name, value in form.multi_items():
            if isinstance(value, str):
                fields[name] = value
            else:
                files[name] = (value.filename or "", await value.read())
    return fields, files
