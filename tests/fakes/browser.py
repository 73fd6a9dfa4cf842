"""FakeBrowser: the Browser port as a page that only notes what is done to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.ports.browser import BrowserAction, BrowserReply, Navigate, Place, Tab, Target


class FakeBrowser:
    """A browser of one tab. `actions` is what was done, `options` with which tab, host and so on.

    Args:
        url: where the tab is; empty = none is open.
        opened, links: see `Place`.
        reply: what every action brings, beside the place.
    """

    def __init__(
        self,
        url: str = "",
        *,
        opened: tuple[str, ...] = (),
        links: Mapping[str, str] | None = None,
        **reply: Any,
    ) -> None:
        self.url = url
        self._opened = frozenset(opened)
        self._links = dict(links or {})
        self.reply = reply
        self.actions: list[BrowserAction] = []
        self.options: list[dict[str, Any]] = []

    async def place(self, *, target: Target | None = None, profile: str = "") -> Place:
        """See Browser."""
        tabs = (Tab(id="t1", url=self.url, current=True),) if self.url else ()
        return Place(url=self.url, tabs=tabs, opened=self._opened, links=self._links)

    async def perform(self, action: BrowserAction, **options: Any) -> BrowserReply:
        """See Browser."""
        self.actions.append(action)
        self.options.append(options)
        if isinstance(action, Navigate):
            self.url = self.reply.get("url") or action.url
        return BrowserReply(
            **{"url": self.url, "title": "Page", "tab": "t1" if self.url else "", **self.reply}
        )
