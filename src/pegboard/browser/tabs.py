"""Tabs: the open tabs of one session, and what their pages do by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pegboard.browser.chromium import REFUSED_BY_US, Chromium, SessionProxy
from pegboard.browser.failures import chromium_error
from pegboard.browser.snapshot import PageText, Secrets
from pegboard.core.errors import NotFound, TooLarge
from pegboard.net.destinations import Destination
from pegboard.ports.browser import Place, Tab

if TYPE_CHECKING:
    from playwright.async_api import (
        BrowserContext,
        ConsoleMessage,
        Dialog,
        Download,
        Page,
        ProxySettings,
        Request,
        Response,
        Route,
        WebSocketRoute,
    )

_MOST_TABS: Final = 20
_MOST_DOWNLOADS: Final = 20
_CONSOLE_LINES: Final = 200
_CONSOLE_CHARS: Final = 1_000
_WAITED_FOR: Final = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})
_DESTINATIONS: Final = 1_000
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


@dataclass(slots=True, kw_only=True, eq=False)
class OpenTab:
    """One tab.

    Attributes:
        id: `t1`, `t2` and so on; never given again.
        page: Playwright's page.
        text: its last snapshot.
        console: messages of its scripts, and requests that failed.
        in_flight: requests that have no answer yet.
        finished: set when one of them has its answer.
        dialog: the alert, confirm or prompt that it shows.
        crashed: its process has ended.
        interrupted: set when it shows a dialog, closes or crashes.
        blocked: an action that goes on once the dialog is answered.
    """

    id: str
    page: Page
    text: PageText
    console: deque[str] = field(default_factory=lambda: deque[str](maxlen=_CONSOLE_LINES))
    in_flight: set[Any] = field(default_factory=set[Any])
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    dialog: Dialog | None = None
    crashed: bool = False
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    blocked: asyncio.Future[Any] | None = None

    @property
    def dialog_text(self) -> str:
        """The dialog in words, empty where none is open."""
        if self.dialog is None:
            return ""
        default = self.dialog.default_value[:100]
        suggested = f", suggested answer {default!r}" if default else ""
        return f"{self.dialog.type} {self.dialog.message[:500]!r}{suggested}"


class Tabs:
    """The tabs, cookies and downloads of one session; everything here runs in the loop thread.

    Args:
        chromium: starts the browser.
        target: `host` or `sandbox`.
        profile: file with logins to start from; None = none.

    Attributes:
        open: the tabs by id.
        current: id of the current one, empty where none is open.
        opened: hosts that were navigated to on purpose.
        downloads: those that have begun and were not saved yet, by id.
        begun: set when a download begins.
        events: what pages did since the list was emptied, for the model.
        secrets: what password fields held.
        handed_over: a person uses the pages now, and nothing of it is noted.
        tried: what pages tried to reach since it was emptied; other threads may empty it.
    """

    def __init__(self, chromium: Chromium, target: str, profile: Path | None) -> None:
        self.open: dict[str, OpenTab] = {}
        self.current = ""
        self.opened: set[str] = set()
        self.downloads: dict[str, Download] = {}
        self.begun = asyncio.Event()
        self.events: list[str] = []
        self.secrets = Secrets()
        self.handed_over = False
        self.tried = deque[Destination](maxlen=_DESTINATIONS)
        self._chromium = chromium
        self._target = target
        self._profile = profile
        self._context: BrowserContext | None = None
        self._proxy: SessionProxy | None = None
        self._refused: dict[str, str] = {}
        self._counts = {"t": 0, "d": 0}
        self._creating = False
        self._tasks: set[asyncio.Future[Any]] = set()

    async def context(self) -> BrowserContext:
        """The session's own cookies and storage, made when they are first needed."""
        if self._context is not None:
            return self._context
        browser = await self._chromium.browser(self._target)
        kept = self._profile if self._profile is not None and self._profile.exists() else None
        if self._target == "sandbox":
            context = await browser.new_context(storage_state=kept, service_workers="block")
            # Its way out is not ours: what it asks for is at least checked here.
            await context.route("**/*", self._check_route)
            await context.route_web_socket("**/*", self._check_socket)
        else:
            context = await browser.new_context(storage_state=kept, proxy=await self.way_out())
        context.on("page", self._add)
        self._context = context
        return context

    async def way_out(self) -> ProxySettings:
        """The session's own proxy, as Playwright takes it; loopback goes through it as well."""
        if self._proxy is None:
            self._proxy = await SessionProxy.start(
                self._chromium.options, on_destination=self._note_destination
            )
        return {"server": self._proxy.address, "bypass": "<-loopback>"}

    async def close_way_out(self) -> None:
        """Cut every connection of the session's pages."""
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()

    def take_context(self) -> BrowserContext | None:
        """The context, for whoever closes it; the tabs are forgotten."""
        context, self._context = self._context, None
        for one in self.open.values():
            if one.blocked is not None:
                one.blocked.cancel()
        self.open.clear()
        self.current = ""
        return context

    async def new(self) -> OpenTab:
        """Open an empty tab.

        Raises:
            TooLarge: as many are open as may be.
        """
        context = await self.context()
        if len(self.open) >= _MOST_TABS:
            raise TooLarge(
                f"{len(self.open)} tabs are open, as many as may be",
                hint="Close some with action close and their tab.",
            )
        self._creating = True
        try:
            page = await context.new_page()
        finally:
            self._creating = False
        return next(t for t in self.open.values() if t.page == page)

    def find(self, id: str = "") -> OpenTab:
        """A tab by its id; the current one where that is empty.

        Raises:
            NotFound: it is not open.
        """
        found = self.open.get(id or self.current)
        if found is None:
            if not id:
                raise NotFound("no page is open", hint="Open one with action navigate.")
            raise NotFound(f"there is no tab {id!r}; open are: {', '.join(self.open) or 'none'}")
        return found

    def remove(self, one: OpenTab) -> None:
        """Forget a tab that is closed."""
        self.open.pop(one.id, None)
        if self.current == one.id:
            self.current = next(reversed(self.open), "")
        one.interrupted.set()

    def forget_download(self, download: Download) -> None:
        """It has been saved, and needs no mention."""
        for id in [id for id, known in self.downloads.items() if known is download]:
            del self.downloads[id]
            self.events = [e for e in self.events if not e.startswith(f"Download {id} ")]

    def place(self) -> Place:
        """Where the session is; see Browser."""
        current = self.open.get(self.current)
        if current is None:
            return Place(opened=frozenset(self.opened))
        return Place(
            url=current.page.url,
            tabs=tuple(Tab(id=t.id, url=t.page.url, current=t is current) for t in self.open.values()),
            opened=frozenset(self.opened),
            links={ref: url for tab in self.open.values() for ref, url in tab.text.links.items()},
        )

    async def listed(self) -> tuple[Tab, ...]:
        """All tabs, with the titles of pages that answer."""

        async def title(one: OpenTab) -> str:
            if one.dialog is None and not one.crashed:
                with contextlib.suppress(chromium_error(), TimeoutError):
                    async with asyncio.timeout(1.0):
                        return await one.page.title()
            return ""

        tabs = list(self.open.values())
        titles = await asyncio.gather(*map(title, tabs))
        hide = self.secrets.hide
        return tuple(
            Tab(id=one.id, url=hide(one.page.url), title=hide(text), current=one.id == self.current)
            for one, text in zip(tabs, titles, strict=True)
        )

    def why_refused(self, host: str) -> str:
        """Why the last connection to a host was refused, empty where it was not."""
        return self._refused.get(host) or ("" if self._proxy is None else self._proxy.refusal(host))

    # -- what pages do by themselves ------------------------------------------------------------

    def _add(self, page: Page) -> None:
        """Every page of the context, those that pages open too."""
        if len(self.open) >= _MOST_TABS:
            self.events.append("The page tried to open another tab; too many are open.")
            self._spawn(page.close())
            return
        id = self._next("t")
        one = self.open[id] = OpenTab(id=id, page=page, text=PageText(id))
        if not self._creating:
            self.events.append(f"The page opened tab {id}, which is the current one now.")
        self.current = id
        page.on("close", lambda _: self.remove(one))
        page.on("crash", lambda _: self._crash(one))
        page.on("dialog", lambda dialog: self._show_dialog(one, dialog))
        page.on("download", self._add_download)
        page.on("console", lambda message: self._note_console(one, message))
        page.on("pageerror", lambda error: self._note(one, f"error: {error}"))
        page.on("request", lambda request: self._begin_request(one, request))
        page.on("requestfinished", lambda request: self._end_request(one, request))
        page.on("requestfailed", lambda request: self._fail_request(one, request))
        page.on("response", lambda response: self._note_response(one, response))

    def _next(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind}{self._counts[kind]}"

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let something small end by itself; its failure concerns nobody."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda t: t.cancelled() or t.exception())

    def _crash(self, one: OpenTab) -> None:
        one.crashed = True
        one.interrupted.set()

    def _show_dialog(self, one: OpenTab, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":
            self._spawn(dialog.accept())
            return
        one.dialog = dialog
        one.interrupted.set()

    def _add_download(self, download: Download) -> None:
        if len(self.downloads) >= _MOST_DOWNLOADS:
            self._spawn(download.cancel())
            self.events.append("The page tried to start another download; too many are kept.")
            return
        id = self._next("d")
        self.downloads[id] = download
        self.begun.set()
        self.events.append(
            f"Download {id} has begun: {download.suggested_filename!r}. Save it with action download, text={id} and a path."
        )

    def _note(self, one: OpenTab, text: str) -> None:
        """Write a line into the tab's console."""
        if not self.handed_over:
            one.console.append(text[:_CONSOLE_CHARS])

    def _note_console(self, one: OpenTab, message: ConsoleMessage) -> None:
        if str(message.type) != "verbose":  # What Chromium itself remarks about the page.
            place = message.location
            self._note(
                one, f"{message.type}: {message.text} ({place.get('url', '')}:{place.get('lineNumber', 0)})"
            )

    def _begin_request(self, one: OpenTab, request: Request) -> None:
        if request.resource_type in _WAITED_FOR:
            one.in_flight.add(request)

    def _end_request(self, one: OpenTab, request: Request) -> None:
        one.in_flight.discard(request)
        one.finished.set()

    def _fail_request(self, one: OpenTab, request: Request) -> None:
        self._end_request(one, request)
        why = self.why_refused(urlsplit(request.url).hostname or "") or request.failure or ""
        self._note(one, f"request failed: {request.method} {request.url[:300]}: {why}")

    def _note_response(self, one: OpenTab, response: Response) -> None:
        if response.status_text == REFUSED_BY_US:
            why = self.why_refused(urlsplit(response.url).hostname or "") or "it cannot be reached"
            self._note(one, f"request refused: {response.url[:300]}: {why}")

    async def _check_route(self, route: Route) -> None:
        """Let a remote browser ask only for addresses that are public here, and hosts that no rule denies."""
        refused = await self._check(route.request.url)
        with contextlib.suppress(chromium_error()):  # The page may be gone meanwhile.
            await (route.abort("blockedbyclient") if refused else route.continue_())

    async def _check_socket(self, socket: WebSocketRoute) -> None:
        """The same for a WebSocket."""
        refused = await self._check(socket.url)
        with contextlib.suppress(chromium_error()):
            if refused:
                await socket.close(code=1008, reason="refused")
            else:
                socket.connect_to_server()

    async def _check(self, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS:
            return ""
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        reason = await self._chromium.options.check(host, port)
        if reason:
            self._refused[host] = reason
        self._note_destination(
            Destination(host=host, port=port, allowed=not reason, reason=reason, at=time.time())
        )
        return reason

    def _note_destination(self, seen: Destination) -> None:
        if not self.handed_over:
            self.tried.append(seen)
