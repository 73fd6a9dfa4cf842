"""BrowserSession: the tabs, cookies and downloads of one session, and what can be done in them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from pegboard.browser.chromium import REFUSED_BY_US, Chromium
from pegboard.browser.failures import as_tool_error, chromium_error, refused
from pegboard.browser.snapshot import FACTS, changed_lines, read_ref
from pegboard.browser.tabs import OpenTab, Tabs
from pegboard.core.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    TimedOut,
    TooLarge,
    Unavailable,
)
from pegboard.net.destinations import Destination
from pegboard.net.urls import host_of
from pegboard.ports.browser import (
    AnswerDialog,
    Back,
    BrowserAction,
    BrowserReply,
    Click,
    Close,
    Download,
    Drag,
    Element,
    Evaluate,
    Fill,
    HandOver,
    Hover,
    MakePdf,
    Navigate,
    Place,
    Press,
    ReadConsole,
    ReadContent,
    Screenshot,
    Scroll,
    Select,
    SelectTab,
    TakeBack,
    TakeSnapshot,
    TypeText,
    Upload,
    Wait,
)
from pegboard.store.private_file import replace_private

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Locator, Page

_SETTLE_S: Final = 3.0
_ERROR_PAGE: Final = "chrome-error://"
_LOOK: Final = (SelectTab, Close, ReadConsole, AnswerDialog)
"""Actions that a page which shows a dialog can still do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    text: str = ""
    value: Any = None
    data: bytes = b""
    name: str = ""
    mime_type: str = ""
    changes: bool = False


_CHANGES: Final = _Outcome(changes=True)


class BrowserSession:
    """One session in one browser; everything here runs in the loop thread.

    Args:
        chromium: starts the browser, and a window for the person.
        target: `host` or `sandbox`.
        profile: file that logins are kept in; None = they end with the session.
    """

    def __init__(self, chromium: Chromium, target: str, profile: Path | None) -> None:
        self.target = target
        self.lock = asyncio.Lock()
        self._chromium = chromium
        self._profile = profile
        self._tabs = Tabs(chromium, target, profile)
        self._window: BrowserContext | None = None

    def place(self) -> Place:
        """Where it is; see Browser."""
        return self._tabs.place()

    def take_tried(self) -> Iterator[Destination]:
        """What pages tried to reach since the last time, each place once; from any thread."""
        known: set[tuple[str, int, bool]] = set()
        tried = self._tabs.tried
        while tried:
            seen = tried.popleft()
            if (key := (seen.host, seen.port, seen.allowed)) not in known:
                known.add(key)
                yield seen

    async def perform(
        self, action: BrowserAction, *, tab: str, timeout_s: float, host: str | None
    ) -> BrowserReply:
        """Do one thing; see Browser."""
        self._tabs.events = []
        try:
            if self._tabs.handed_over and not isinstance(action, HandOver | Close):
                await self._take_back()
            return await self._perform(action, tab, timeout_s, host)
        except TimeoutError:
            raise TimedOut(
                f"the page did not finish {_name(action)} within {timeout_s:g} s",
                hint="Give a longer timeout, or close the tab if the page hangs.",
            ) from None
        except chromium_error() as error:
            raise as_tool_error(error, _name(action), timeout_s, self._tabs.why_refused) from error

    async def close(self) -> None:
        """Close the tabs, after the logins are saved where they are kept."""
        window, self._window = self._window, None
        context = self._tabs.take_context()
        self._tabs.handed_over = False
        for one in (window, context):
            with contextlib.suppress(chromium_error(), OSError):  # The browser may have crashed.
                if one is context and context is not None:
                    await self._save_profile(context)
                if one is not None:
                    await one.close()
        await self._tabs.close_way_out()

    # -- actions --------------------------------------------------------------------------------

    async def _perform(
        self, action: BrowserAction, id: str, timeout_s: float, host: str | None
    ) -> BrowserReply:
        match action:
            case Navigate(new_tab=new) if new or not (id or self._tabs.open):
                one = await self._tabs.new()
            case SelectTab(tab=wanted):
                if wanted or self._tabs.open:
                    self._tabs.current = self._tabs.find(wanted).id
                return await self._reply(_Outcome(text=await self._listed()))
            case Close():
                await self._close_tab(action.tab)
                return await self._reply(_Outcome(text=await self._listed() if self._tabs.open else ""))
            case HandOver():
                await self._hand_over(self._tabs.find(id), timeout_s)
                return await self._reply(_Outcome())
            case TakeBack():
                return await self._reply(_Outcome(text=await self._listed()))
            case _:
                one = self._tabs.find(id or _tab_of(action))
        self._tabs.current = one.id
        if one.dialog is not None and not isinstance(action, _LOOK):
            raise Conflict(
                f"tab {one.id} shows a dialog: {one.dialog_text}",
                hint="Answer it first: action dialog with accept true or false.",
            )
        if host is not None and host_of(one.page.url) != host:
            raise Conflict(
                f"tab {one.id} has gone to {host_of(one.page.url) or 'an empty page'} meanwhile, so nothing was done",
                hint="Take a snapshot to see the page, and decide again.",
            )
        if isinstance(action, AnswerDialog):
            outcome = await self._uninterrupted(one, self._answer(one, action, timeout_s))
        else:
            outcome = await self._uninterrupted(one, self._act(one, action, timeout_s))
        return await self._reply(outcome)

    async def _uninterrupted(self, one: OpenTab, work: Coroutine[Any, Any, _Outcome]) -> _Outcome:
        """What some work gives, or nothing where a dialog stops the page first; it goes on once that is answered."""
        one.interrupted.clear()
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(one.interrupted.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            stopped.cancel()
        if one.crashed:
            task.cancel()
            with contextlib.suppress(Exception):  # It is gone in any case.
                await one.page.close()
            self._tabs.remove(one)
            raise Unavailable(
                f"the page in tab {one.id} crashed; the tab is closed",
                hint="Open it again with action navigate, or go on without it.",
                retryable=True,
            )
        if not task.done() and one.dialog is not None:
            one.blocked = task
            task.add_done_callback(lambda t: t.cancelled() or t.exception())
            return _Outcome()
        return await task

    async def _act(self, one: OpenTab, action: BrowserAction, timeout_s: float) -> _Outcome:
        before = set(one.in_flight)
        async with asyncio.timeout(timeout_s + 1):
            outcome = await self._do(one, action, timeout_s)
        if not outcome.changes:
            return outcome
        await self._settle(one, before, timeout_s)
        # A tab that the page opens becomes the current one, and may come late.
        shown = None
        while (now := self._tabs.open.get(self._tabs.current)) is not shown:
            if now is None or now.dialog is not None:
                break
            if shown is not None:
                await self._settle(now, set(), timeout_s)
            outcome, shown = replace(outcome, text=await self._changes(now, timeout_s)), now
        return outcome

    async def _do(self, one: OpenTab, action: BrowserAction, timeout_s: float) -> _Outcome:
        page, limit = one.page, timeout_s * 1000
        match action:
            case Navigate():
                await self._navigate(one, action.url, limit)
            case Back():
                if (
                    await page.go_back(wait_until="domcontentloaded", timeout=limit) is None
                    and page.url == "about:blank"
                ):
                    raise NotFound("there is no page to go back to")
            case TakeSnapshot(element):
                return _Outcome(text=await self._snapshot(one, element, timeout_s))
            case ReadContent(element):
                where = page.locator("body") if element is None else await self._locate(one, element)
                return _Outcome(text=self._tabs.secrets.hide(await where.inner_text(timeout=limit)))
            case Click(element=element):
                await self._click(one, action, element, limit)
            case TypeText():
                await self._type(one, action, limit)
            case Fill(fields=fields):
                await self._fill(one, fields, submit=action.submit, limit=limit)
            case Select(element=element, values=values):
                await (await self._locate(one, element)).select_option(list(values), timeout=limit)
            case Press(key=key, element=None):
                await page.keyboard.press(key)
            case Press(key=key, element=element):
                await (await self._locate(one, cast(Element, element))).press(key, timeout=limit)
            case Hover(element):
                await (await self._locate(one, element)).hover(timeout=limit)
            case Drag(source=source, target=target):
                source_at, target_at = await self._locate(one, source), await self._locate(one, target)
                await source_at.drag_to(target_at, timeout=limit)
            case Scroll():
                await self._scroll(one, action, limit)
            case Wait():
                await self._wait(one, action, timeout_s)
            case Upload(element=element, files=files):
                await self._upload(one, element, [_payload(f) for f in files], limit)
            case Download():
                return await self._download(one, action, timeout_s)
            case ReadConsole():
                return _Outcome(text=self._tabs.secrets.hide("\n".join(one.console)))
            case MakePdf():
                return _Outcome(
                    data=await page.pdf(print_background=True), name="page.pdf", mime_type="application/pdf"
                )
            case Screenshot(element=None):
                data = await page.screenshot(full_page=action.full_page, timeout=limit)
                return _Outcome(data=data, name="page.png", mime_type="image/png")
            case Screenshot(element=element):
                data = await (await self._locate(one, cast(Element, element))).screenshot(timeout=limit)
                return _Outcome(data=data, name="element.png", mime_type="image/png")
            case Evaluate():
                return await self._evaluate(one, action)
            case _:
                raise AssertionError(action)
        return _CHANGES

    async def _navigate(self, one: OpenTab, url: str, limit: float) -> None:
        self._tabs.begun.clear()
        if one.page.url.startswith(_ERROR_PAGE):
            # So that an error page of this address can be told from the one that is there.
            await one.page.goto("about:blank", timeout=limit)
        try:
            response = await one.page.goto(url, wait_until="domcontentloaded", timeout=limit)
        except chromium_error() as error:
            if "ERR_ABORTED" in str(error) or "Download is starting" in str(error):
                # A file instead of a page: Chromium stays where it was.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2.0):
                        await self._tabs.begun.wait()
                        return
            if "net::" in str(error):
                await _error_page(one.page)
            raise
        if response is not None and response.status_text == REFUSED_BY_US:
            host = urlsplit(response.url).hostname or ""
            said = (await response.text()).strip()
            await one.page.goto("about:blank", timeout=limit)
            if reason := self._tabs.why_refused(host):
                raise refused(host, reason)
            raise Unavailable(said, retryable=True)
        self._tabs.opened.add(host_of(url))

    async def _click(self, one: OpenTab, action: Click, element: Element, limit: float) -> None:
        where = await self._locate(one, element)
        link = one.text.links.get(element.ref)
        if action.double:
            await where.dblclick(button=action.button, timeout=limit)
        else:
            await where.click(button=action.button, timeout=limit)
        if link is not None:
            self._tabs.opened.add(host_of(link))

    async def _type(self, one: OpenTab, action: TypeText, limit: float) -> None:
        if action.element is None:
            await one.page.keyboard.type(action.text)
            if action.submit:
                await one.page.keyboard.press("Enter")
            return
        where = await self._locate(one, action.element)
        if await _kind(where, limit) == "input:password":
            self._tabs.secrets.add(action.text)
        await where.press_sequentially(action.text, timeout=limit)
        if action.submit:
            await where.press("Enter", timeout=limit)

    async def _fill(
        self, one: OpenTab, fields: Sequence[tuple[Element, str]], *, submit: bool, limit: float
    ) -> None:
        # All are looked up before any is changed: one stale ref leaves the form as it was.
        found = [(await self._locate(one, element), value) for element, value in fields]
        for where, value in found:
            match await _kind(where, limit):
                case "input:checkbox" | "input:radio":
                    await where.set_checked(
                        value.strip().lower() in ("true", "1", "on", "yes"), timeout=limit
                    )
                case "select":
                    await where.select_option(value, timeout=limit)
                case kind:
                    if kind == "input:password":
                        self._tabs.secrets.add(value)
                    await where.fill(value, timeout=limit)
        if submit and found:
            await found[-1][0].press("Enter", timeout=limit)

    async def _scroll(self, one: OpenTab, action: Scroll, limit: float) -> None:
        page = one.page
        if action.element is not None:
            await (await self._locate(one, action.element)).scroll_into_view_if_needed(timeout=limit)
            return
        if action.direction in ("top", "bottom"):
            end = "0" if action.direction == "top" else "document.documentElement.scrollHeight"
            await page.evaluate(f"() => window.scrollTo({{top: {end}, behavior: 'instant'}})")
        else:
            size = page.viewport_size or {"width": 1280, "height": 720}
            side = "height" if action.direction in ("down", "up") else "width"
            step = (action.pixels or size[side]) * (-1 if action.direction in ("up", "left") else 1)
            # The wheel scrolls what is under the mouse: a list inside the page too.
            await page.mouse.move(size["width"] / 2, size["height"] / 2)
            await page.mouse.wheel(*((0, step) if side == "height" else (step, 0)))
        await asyncio.sleep(0.1)
        at, end_at = cast(
            "list[int]",
            await page.evaluate(
                "() => { const e = document.scrollingElement ?? document.documentElement;"
                " return [Math.round(e.scrollTop), e.scrollHeight - e.clientHeight]; }"
            ),
        )
        self._tabs.events.append(f"The page is scrolled to {at} of {max(at, end_at)} pixels.")

    async def _wait(self, one: OpenTab, action: Wait, timeout_s: float) -> None:
        limit, state = timeout_s * 1000, "hidden" if action.gone else "visible"
        if action.url:
            await one.page.wait_for_url(action.url, timeout=limit, wait_until="domcontentloaded")
        if action.text:
            await one.page.get_by_text(action.text).first.wait_for(state=state, timeout=limit)
        if action.element is not None:
            where = action.element
            if where.ref and not action.gone:
                await (await self._locate(one, where)).wait_for(state=state, timeout=limit)
            elif where.ref:
                await one.page.get_by_ref(read_ref(where.ref)[1]).wait_for(state=state, timeout=limit)
            else:
                await one.page.locator(where.selector).first.wait_for(state=state, timeout=limit)
        if not (action.url or action.text or action.element):
            await asyncio.sleep(timeout_s)

    async def _upload(self, one: OpenTab, element: Element, files: Any, limit: float) -> None:
        where = await self._locate(one, element)
        if await _kind(where, limit) == "input:file":
            await where.set_input_files(files, timeout=limit)
            return
        async with one.page.expect_file_chooser(timeout=limit) as chosen:
            await where.click(timeout=limit)
        await (await chosen.value).set_files(files, timeout=limit)

    async def _download(self, one: OpenTab, action: Download, timeout_s: float) -> _Outcome:
        if action.element is not None:
            async with one.page.expect_download(timeout=timeout_s * 1000) as begun:
                await (await self._locate(one, action.element)).click(timeout=timeout_s * 1000)
            download = await begun.value
        elif action.id in self._tabs.downloads:
            download = self._tabs.downloads[action.id]
        else:
            known = ", ".join(self._tabs.downloads) or "none"
            raise NotFound(f"there is no download {action.id!r}; known are: {known}")
        try:
            path = await download.path()
        except chromium_error():
            path = None
        failure = await download.failure()
        if path is None or failure:
            raise Unavailable(
                f"the download of {download.url[:200]} failed: {failure or 'cancelled'}", retryable=True
            )
        size = path.stat().st_size
        if size > self._chromium.options.max_download_bytes:
            raise TooLarge(
                f"the download has {size:,} bytes; the limit is {self._chromium.options.max_download_bytes:,}"
            )
        data = await asyncio.to_thread(path.read_bytes)
        self._tabs.forget_download(download)
        await download.delete()
        return _Outcome(data=data, name=download.suggested_filename, mime_type="application/octet-stream")

    async def _evaluate(self, one: OpenTab, action: Evaluate) -> _Outcome:
        if action.element is None:
            value = await one.page.evaluate(action.expression)
        else:
            value = await (await self._locate(one, action.element)).evaluate(action.expression)
        shown = self._tabs.secrets.hide(json.dumps(value, ensure_ascii=False, default=str))
        return _Outcome(text=shown, value=json.loads(shown))

    async def _answer(self, one: OpenTab, action: AnswerDialog, timeout_s: float) -> _Outcome:
        dialog, one.dialog = one.dialog, None
        if dialog is None:
            raise Conflict(f"no dialog is open in tab {one.id}", hint="Take a snapshot to see the page.")
        if action.accept:
            await dialog.accept(action.text)
        else:
            await dialog.dismiss()
        blocked, one.blocked = one.blocked, None
        if blocked is not None:
            # Its own time may have run out while the dialog was open; what it did is done all the same.
            with contextlib.suppress(chromium_error(), TimeoutError):
                return cast(_Outcome, await blocked)
        await self._settle(one, set(), timeout_s)
        return _Outcome(text=await self._changes(one, timeout_s), changes=True)

    # -- elements and what the page shows --------------------------------------------------------

    async def _locate(self, one: OpenTab, element: Element) -> Locator:
        """The element; a ref is looked up at once, a selector is waited for by what uses it.

        Raises:
            NotFound: nothing has that ref any more.
            InvalidArguments: neither a ref nor a selector, or a ref that is none, or one of another tab.
        """
        if not element.ref:
            if not element.selector:
                raise InvalidArguments(
                    "this action needs an element", hint="Give its ref from a snapshot, or a selector."
                )
            return one.page.locator(element.selector)
        tab, own = read_ref(element.ref)
        if tab not in ("", one.id):
            raise InvalidArguments(
                f"the ref {element.ref} is of tab {tab}, and the action is for tab {one.id}"
            )
        found = one.page.get_by_ref(own)
        try:
            there = await found.count() == 1
        except chromium_error():
            there = False  # Its frame is gone.
        if not there:
            raise NotFound(
                f"no element has the ref {element.ref} any more: the page has changed since that snapshot",
                hint="Take a new snapshot and use a ref from it.",
            )
        return found

    async def _settle(self, one: OpenTab, before: set[Any], timeout_s: float) -> None:
        """Wait for what the action has set off: a new document, scripts, requests; not for what ran before it."""
        await asyncio.sleep(0.05)
        now = self._tabs.open.get(self._tabs.current, one)
        with contextlib.suppress(chromium_error()):
            await now.page.wait_for_load_state("domcontentloaded", timeout=timeout_s * 1000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_SETTLE_S, timeout_s)):
                while now.in_flight - before:
                    now.finished.clear()
                    await now.finished.wait()

    async def _changes(self, one: OpenTab, timeout_s: float) -> str:
        last = one.text.shown
        now, other = await self._read(one, timeout_s)
        return now if other or not last else changed_lines(last, now)

    async def _snapshot(self, one: OpenTab, element: Element | None, timeout_s: float) -> str:
        if element is None:
            return (await self._read(one, timeout_s))[0]
        where = await self._locate(one, element)
        own = read_ref(element.ref)[1] if element.ref else ""
        if not own:
            part = await where.aria_snapshot(mode="ai", timeout=timeout_s * 1000)
            first = re.search(r"\[ref=(\w+)\]", part)
            own = "" if first is None else first[1]
        # A snapshot of a part alone would make the refs of all others stale.
        await self._read(one, timeout_s)
        return one.text.part(own)

    async def _read(self, one: OpenTab, timeout_s: float) -> tuple[str, bool]:
        """The page's snapshot, and whether it is of another document than the last one."""
        page = one.page
        try:
            text, facts = await asyncio.gather(_aria(page, timeout_s), _facts(page))
        except chromium_error() as error:
            if "context was destroyed" not in str(error):
                raise
            # The page was just changing over to another one.
            await page.wait_for_load_state("domcontentloaded", timeout=timeout_s * 1000)
            text, facts = await asyncio.gather(_aria(page, timeout_s), _facts(page))
        base, passwords = facts
        for value in passwords:
            self._tabs.secrets.add(value)
        return one.text.show(self._tabs.secrets.hide(text), base)

    async def _listed(self) -> str:
        tabs = await self._tabs.listed()
        return "\n".join(
            f"{'*' if t.current else '-'} {t.id}: {t.title or '(no title)'} {t.url}" for t in tabs
        )

    async def _reply(self, outcome: _Outcome) -> BrowserReply:
        tabs = await self._tabs.listed()
        if self._tabs.current and not any(t.current for t in tabs):
            tabs = await self._tabs.listed()  # Another tab came meanwhile.
        current = next((t for t in tabs if t.current), None)
        events = list(self._tabs.events)
        one = self._tabs.open.get(self._tabs.current)
        if one is not None and one.dialog is not None:
            events.append(f"The page shows a dialog: {one.dialog_text}. Answer it with action dialog.")
        return BrowserReply(
            url="" if current is None else current.url,
            title="" if current is None else current.title,
            tab="" if current is None else current.id,
            text=outcome.text,
            events=tuple(self._tabs.secrets.hide(e) for e in events),
            tabs=tabs,
            value=outcome.value,
            data=outcome.data,
            name=outcome.name,
            mime_type=outcome.mime_type,
        )

    async def _close_tab(self, id: str) -> None:
        if not id:
            await self.close()
            return
        one = self._tabs.find(id)
        if one.dialog is not None:
            with contextlib.suppress(chromium_error()):
                await one.dialog.dismiss()
        await one.page.close()
        self._tabs.remove(one)

    # -- hand-over ------------------------------------------------------------------------------

    async def _hand_over(self, one: OpenTab, timeout_s: float) -> None:
        """Show the page to the person: in this browser where it has a window, else in one of their own."""
        self._tabs.handed_over = True
        try:
            if self.target == "sandbox" or not self._chromium.options.headless:
                await one.page.bring_to_front()
                return
            browser = await self._chromium.browser("window")
            state = await (await self._tabs.context()).storage_state()
            self._window = await browser.new_context(
                storage_state=state, no_viewport=True, proxy=await self._tabs.way_out()
            )
            page = await self._window.new_page()
            with contextlib.suppress(chromium_error()):
                await page.goto(one.page.url, wait_until="domcontentloaded", timeout=timeout_s * 1000)
        except BaseException:
            self._tabs.handed_over = False
            raise

    async def _take_back(self) -> None:
        """Go on as whoever the person has logged in as."""
        await asyncio.gather(*(_heard_out(one.page) for one in self._tabs.open.values()))
        self._tabs.handed_over = False
        window, self._window = self._window, None
        context = await self._tabs.context()
        if window is not None:
            with contextlib.suppress(chromium_error()):  # The person may have closed the whole window.
                await context.set_storage_state(await window.storage_state(indexed_db=True))
                await window.close()
            await self._chromium.close("window")
            if (one := self._tabs.open.get(self._tabs.current)) is not None:
                with contextlib.suppress(chromium_error()):
                    await one.page.reload(wait_until="domcontentloaded", timeout=10_000)
        await self._save_profile(context)

    async def _save_profile(self, context: BrowserContext) -> None:
        if self._profile is None:
            return
        state = json.dumps(await context.storage_state(indexed_db=True))
        replace_private(self._profile, state)


async def _heard_out(page: Page) -> None:
    """Wait until all that a page has said so far has arrived: an answer comes after it."""
    with contextlib.suppress(chromium_error(), TimeoutError):
        async with asyncio.timeout(1):
            await page.evaluate("0")


async def _error_page(page: Page) -> None:
    """Wait for the error page of an address that failed: coming late, it would end the next navigation."""
    with contextlib.suppress(chromium_error()):
        await page.wait_for_url(f"{_ERROR_PAGE}**", wait_until="commit", timeout=1_000)


async def _aria(page: Page, timeout_s: float) -> str:
    return await page.aria_snapshot(mode="ai", timeout=timeout_s * 1000)


async def _facts(page: Page) -> tuple[str, list[str]]:
    """Where the page's links start, and what password fields hold, those in frames too."""

    async def of(frame: Any) -> list[Any]:
        # A frame that hangs or goes away must not keep the page from being read.
        with contextlib.suppress(chromium_error(), TimeoutError):
            async with asyncio.timeout(2.0):
                return cast("list[Any]", await frame.evaluate(FACTS))
        return ["", []]

    main, *others = await asyncio.gather(page.evaluate(FACTS), *(of(f) for f in page.frames[1:]))
    return str(main[0]), [str(v) for one in (main, *others) for v in one[1]]


async def _kind(where: Locator, limit: float) -> str:
    """`input:TYPE` or the tag's name, in small letters."""
    return cast(
        str,
        await where.evaluate(
            "e => { const t = e.tagName.toLowerCase(); return t === 'input' ? `input:${e.type}` : t; }",
            timeout=limit,
        ),
    )


def _payload(file: Any) -> Mapping[str, Any]:
    return {"name": file.name, "mimeType": file.mime_type, "buffer": file.data}


def _element_of(action: BrowserAction) -> Element | None:
    """The first element that an action names."""
    match action:
        case Fill(fields=[(element, _), *_]) | Drag(source=element):
            return element
        case _:
            return getattr(action, "element", None)


def _tab_of(action: BrowserAction) -> str:
    """The tab that an action's ref is of."""
    element = _element_of(action)
    return read_ref(element.ref)[0] if element is not None and element.ref else ""


def _name(action: BrowserAction) -> str:
    words = re.sub(r"(?<!^)([A-Z])", r" \1", type(action).__name__).lower()
    element = _element_of(action)
    return f"{words} ({element})" if element is not None else words


__all__ = ["BrowserSession"]
