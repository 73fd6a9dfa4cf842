"""ChromiumBrowser: the Browser port over a Chromium of this machine or a remote one."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import Final

from pegboard.browser.chromium import BrowserOptions, Chromium, LoopThread
from pegboard.browser.session import BrowserSession
from pegboard.core.context import current_context
from pegboard.core.errors import InvalidArguments, Unavailable
from pegboard.ports.browser import NOWHERE, BrowserAction, BrowserReply, Close, Place, Target

_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_Key = tuple[str, str, str]


def session_of_call() -> str:
    """The session of the running call."""
    with contextlib.suppress(LookupError):
        return current_context().session
    return ""


class ChromiumBrowser:
    """Implements `Browser`. The browser starts with the first action, and ends with `close` or its last session.

    Args:
        options: how it runs and what it may reach.
        session: which session a call belongs to.
    """

    def __init__(self, options: BrowserOptions, *, session: Callable[[], str] = session_of_call) -> None:
        self._options = options
        self._session = session
        self._thread: LoopThread | None = None
        self._chromium: Chromium | None = None
        self._sessions: dict[_Key, BrowserSession] = {}
        self._last: dict[str, tuple[str, str]] = {}
        self._endings: set[asyncio.Future[None]] = set()

    async def place(self, *, target: Target | None = None, profile: str = "") -> Place:
        """See Browser."""
        found = self._sessions.get(self._key(target, profile))
        return NOWHERE if found is None or self._thread is None else await self._thread.run(_place(found))

    async def perform(
        self,
        action: BrowserAction,
        *,
        tab: str = "",
        timeout_s: float = 10.0,
        target: Target | None = None,
        profile: str = "",
        host: str | None = None,
    ) -> BrowserReply:
        """See Browser."""
        key = self._key(target, profile)
        if self._thread is None:
            self._thread = LoopThread()
        self._last[key[0]] = key[1:]
        session: list[BrowserSession] = []
        try:
            return await self._thread.run(self._perform(key, session, action, tab, timeout_s, host))
        finally:
            if (note := self._options.on_destination) is not None:
                for seen in (seen for one in session for seen in one.take_tried()):
                    note(seen)

    async def close(self) -> None:
        """End everything that was started."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                await thread.run(self._close())
            finally:
                await thread.end()

    def _key(self, target: Target | None, profile: str) -> _Key:
        session = self._session()
        last = self._last.get(session, ("sandbox" if self._options.cdp_url else "host", ""))
        if profile and not _PROFILE.fullmatch(profile):
            raise InvalidArguments(
                f"{profile!r} is not a profile's name", hint="Use letters, digits, '-' and '_', at most 64."
            )
        return session, target or last[0], profile or last[1]

    async def _perform(
        self,
        key: _Key,
        used: list[BrowserSession],
        action: BrowserAction,
        tab: str,
        timeout_s: float,
        host: str | None,
    ) -> BrowserReply:
        session = await self._opened(key)
        used.append(session)
        try:
            async with session.lock:
                reply = await session.perform(action, tab=tab, timeout_s=timeout_s, host=host)
        except Unavailable:
            if self._chromium is not None:
                await self._chromium.check(key[1])
            raise
        if isinstance(action, Close) and not action.tab:
            self._sessions.pop(key, None)
            self._last.pop(key[0], None)
            if not self._sessions and self._chromium is not None:
                chromium, self._chromium = self._chromium, None
                await chromium.close_all()
        return reply

    async def _opened(self, key: _Key) -> BrowserSession:
        if self._chromium is None:
            self._chromium = Chromium(self._options, self._gone)
        found = self._sessions.pop(key, None)
        while found is None and len(self._sessions) >= self._options.max_sessions:
            await self._sessions.pop(next(iter(self._sessions))).close()
        if found is None:
            kept = self._options.folder / "profiles" / f"{key[2]}.json" if key[2] else None
            found = BrowserSession(self._chromium, key[1], kept)
        self._sessions[key] = found
        return found

    def _gone(self, target: str) -> None:
        """A browser has crashed or was ended: its sessions start anew."""
        for key in [k for k in self._sessions if k[1] == target]:
            ending = asyncio.ensure_future(self._sessions.pop(key).close())
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def _close(self) -> None:
        for session in list(self._sessions.values()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await session.close()
        self._sessions.clear()
        await asyncio.gather(*self._endings)
        if self._chromium is not None:
            await self._chromium.close_all()
            self._chromium = None


async def _place(session: BrowserSession) -> Place:
    return session.place()


__all__ = ["ChromiumBrowser"]
