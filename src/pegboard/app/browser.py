"""The Browser port: this machine's Chromium or a remote one, under the settings and the policy's rules about hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.browser.browser import ChromiumBrowser
from pegboard.browser.chromium import BrowserOptions
from pegboard.config.environment import environment as this_environment
from pegboard.core.effects import Effect
from pegboard.core.policy.rules import Situation
from pegboard.net.destinations import record_destination

if TYPE_CHECKING:
    from pegboard.app.ports import Assembly


def chromium_browser(assembly: Assembly) -> ChromiumBrowser:
    """The browser of an executor; nothing is started before the first action."""
    wiring, config = assembly.wiring, assembly.config
    situation = Situation(values={"tool": "browser"}, workspace=str(wiring.workspace or ""))

    def refuse(host: str, port: int) -> str:
        """What rules deny to the tool, pages may not load either."""
        named = f"[{host}]" if ":" in host else host
        target = named if port in (80, 443) else f"{named}:{port}"
        decision = wiring.policy((Effect("connect", target),), situation)
        return (decision.reason or decision.rule) if decision.verdict == "deny" else ""

    browser = ChromiumBrowser(
        BrowserOptions(
            folder=assembly.paths.state / "browser",
            environment=this_environment(),
            executable=config.browser.executable,
            headless=config.browser.headless,
            cdp_url=config.browser.cdp_url,
            allow=config.network.allow_hosts,
            allow_cidrs=config.network.allow_cidrs,
            refuse=refuse,
            on_destination=record_destination,
        )
    )
    wiring.closers.append(browser.close)
    return browser


__all__ = ["chromium_browser"]
