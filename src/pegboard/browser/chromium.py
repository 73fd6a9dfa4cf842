"""Chromium: one browser process, its driver, and the proxies that are its only way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from pegboard.core.errors import Unavailable
from pegboard.net.addresses import classify
from pegboard.net.destinations import Destination, Resolve, names, resolve_here, split_rule, within
from pegboard.net.egress import Dial, EgressProxy, dial_out
from pegboard.net.names import local_name

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

T = TypeVar("T")

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
"""Names under which Chromium is looked for."""

_FLAGS: Final = (
    # Loopback goes through the proxy as well, and no name is resolved but by the proxy.
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    # WebRTC and QUIC would leave by UDP, past any HTTP proxy.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy",
    "--disable-quic",
    "--disable-dev-shm-usage",
    # An error page must not load its address again by itself.
    "--disable-auto-reload",
)
REFUSED_BY_US: Final = "Pegboard"
"""The reason phrase of the proxy's own answers."""

_START_S: Final = 60.0
_END_S: Final = 10.0
_MARK: Final = "CHROMIUM_OWNER"
_NO_SANDBOX: Final = "No usable sandbox"
"""How Chromium says that it can make none: neither user namespaces nor its setuid helper are there."""
_LONGEST_TMPDIR: Final = 40
"""Characters that leave room for Chromium's own folders and names below it."""
_DRIVER_STARTS: Final = threading.Lock()
_KEPT_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_DISPLAY_VARIABLES: Final = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """How the browser runs and what it may reach.

    Attributes:
        folder: for its temporary files, and for kept logins; made 0700.
        environment: where the program is found and, for a window, the display.
        executable: the program; empty = the first of PROGRAMS on the PATH.
        headless: without a window.
        cdp_url: DevTools address of a remote browser, empty if there is none.
        allow, allow_cidrs: private hosts (`host` or `host:port`) and networks that the owner opened.
        refuse: why a host and port must not be reached, empty if they may.
        on_destination: called after each action, in the context of its caller, with every place that pages tried to
            reach since the last one, each once; not with those of a person who uses them.
        max_download_bytes: of one download.
        max_sessions: sessions with open tabs; the one unused for longest is closed for the next.
        resolve, dial: how names become addresses and addresses connections.
        window_flags: more flags for a window.
    """

    folder: Path
    environment: Mapping[str, str]
    executable: str = ""
    headless: bool = True
    cdp_url: str = ""
    allow: Sequence[str] = ()
    allow_cidrs: Sequence[str] = ()
    refuse: Callable[[str, int], str] = field(default=lambda host, port: "")
    on_destination: Callable[[Destination], None] | None = None
    max_download_bytes: int = 100 << 20
    max_sessions: int = 16
    resolve: Resolve = resolve_here
    dial: Dial = dial_out
    window_flags: Sequence[str] = ()

    def refused(self, host: str, port: int) -> str:
        """Why a host must not be reached whatever its addresses are: a local name, or a rule of the owner's."""
        opened = names([*map(split_rule, self.allow)], host, port)
        return ("" if opened or _is_address(host) else local_name(host)) or self.refuse(host, port)

    async def check(self, host: str, port: int) -> str:
        """Why a browser whose way out is not ours must not be sent there, empty if it may."""
        if reason := self.refused(host, port):
            return reason
        if names([*map(split_rule, self.allow)], host, port):
            return ""
        try:
            addresses = [host] if _is_address(host) else await self.resolve(host, port)
            for address in addresses:
                if not within(address, self.allow_cidrs) and (reason := classify(address)):
                    return f"its address {address} is not public ({reason})"
        except (OSError, ValueError) as problem:
            return f"{host} has no address ({problem})"
        return ""

    @property
    def display(self) -> bool:
        """Whether a person could see a window."""
        return bool(self.environment.get("DISPLAY") or self.environment.get("WAYLAND_DISPLAY"))


class LoopThread:
    """A thread with an event loop of its own: the browser outlives the loop of any one call."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="pegboard-browser", daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something there; cancelling the caller cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def end(self) -> None:
        """Stop the loop and the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        await asyncio.to_thread(self._thread.join, _END_S)
        if not self._thread.is_alive():
            self.loop.close()


class Chromium:
    """Starts browsers and ends them with all that they started; everything here runs in the loop thread.

    Args:
        options: see BrowserOptions.
        on_exit: called with `host` or `sandbox` when that browser is gone.
    """

    def __init__(self, options: BrowserOptions, on_exit: Callable[[str], None]) -> None:
        self._options = options
        self._on_exit = on_exit
        self._driver: Playwright | None = None
        self._no_way_out: SessionProxy | None = None
        self._browsers: dict[str, Browser] = {}
        self._starting = asyncio.Lock()
        self._token = secrets.token_hex(8)
        self.folder = options.folder / "running" / f"{os.getpid()}-{self._token}"
        self._temporary = ""
        # For a program that ends without closing it; after SIGKILL the next start removes the folder.
        self._leftovers = weakref.finalize(self, _remove, self._token, self.folder)

    @property
    def options(self) -> BrowserOptions:
        """How it runs."""
        return self._options

    async def browser(self, target: str) -> Browser:
        """The browser of a target (`host`, `sandbox`, or `window` for a person), started where it does not run.

        Raises:
            Unavailable: it cannot be started; the hint says what is missing.
        """
        async with self._starting:
            running = self._browsers.get(target)
            if running is not None and running.is_connected():
                return running
            driver = await self._start_driver()
            try:
                started = await (
                    self._connect(driver) if target == "sandbox" else self._launch(driver, target)
                )
            except Unavailable:
                if not self._browsers:
                    await self._stop_driver()  # It may be what failed.
                raise
            started.on("disconnected", lambda _: self._gone(target, started))
            self._browsers[target] = started
            return started

    async def close(self, target: str) -> None:
        """End one browser."""
        browser = self._browsers.pop(target, None)
        if browser is not None:
            with contextlib.suppress(Exception):  # It may be gone already, in any state.
                async with asyncio.timeout(_END_S):
                    await browser.close()

    async def check(self, target: str) -> None:
        """Forget everything that runs where the browser of a target gives no answer: its driver has crashed."""
        browser = self._browsers.get(target)
        if browser is None:
            return
        try:
            async with asyncio.timeout(_END_S):
                await (await browser.new_context()).close()
        except Exception:  # noqa: BLE001  A driver that is gone fails in many ways.
            lost = list(self._browsers)
            self._browsers.clear()
            self._driver = None
            await asyncio.to_thread(_end_marked, self._token)
            for one in lost:
                self._on_exit(one)

    async def close_all(self) -> None:
        """End the browsers, the driver and the proxy, and remove the temporary files."""
        for target in list(self._browsers):
            await self.close(target)
        await self._stop_driver()
        if self._no_way_out is not None:
            await self._no_way_out.close()
            self._no_way_out = None
        await asyncio.to_thread(_remove, self._token, self.folder)

    def _gone(self, target: str, browser: Browser) -> None:
        if self._browsers.get(target) is browser:
            del self._browsers[target]
            self._on_exit(target)

    async def _start_driver(self) -> Playwright:
        await asyncio.to_thread(self._make_folder)
        if self._driver is not None:
            return self._driver
        try:
            from playwright.async_api import async_playwright
        except ImportError:
            raise Unavailable(
                "the browser needs the package playwright, which is not installed",
                hint="Install it with: pip install 'pegboard[browser]'",
            ) from None
        transport: Any = import_module("playwright._impl.transport")
        with _DRIVER_STARTS:
            own = transport.get_driver_env
            # It keeps the pages' profile in TMPDIR, and takes no other environment than this process's.
            transport.get_driver_env = lambda: {**own(), "TMPDIR": self._temporary}
            try:
                self._driver = await async_playwright().start()
            finally:
                transport.get_driver_env = own
        return self._driver

    async def _stop_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(Exception):  # It may have crashed.
                async with asyncio.timeout(_END_S):
                    await driver.stop()

    async def _launch(self, driver: Playwright, target: str) -> Browser:
        program = self._program()
        window = target == "window" or not self._options.headless
        if window and not self._options.display:
            raise Unavailable(
                "no display is available, so a browser window cannot be shown",
                hint="Run Pegboard in a desktop session, or fill in a login with secret://NAME references.",
            )
        if self._no_way_out is None:
            self._no_way_out = await SessionProxy.start(self._options, hosts=())
        try:
            # Chromium's own sandbox does not work for root.
            return await self._start(driver, program, window=window, sandbox=os.geteuid() != 0)
        except Exception as error:
            text = str(error) or type(error).__name__
            if _NO_SANDBOX not in text:
                raise Unavailable(
                    f"{program} could not be started: {text.splitlines()[0][:300]}",
                    hint="Try the program by hand, or set another one as executable under [browser].",
                ) from error
        return await self._start(driver, program, window=window, sandbox=False)

    async def _start(self, driver: Playwright, program: str, *, window: bool, sandbox: bool) -> Browser:
        assert self._no_way_out is not None
        return await driver.chromium.launch(
            executable_path=program,
            headless=not window,
            args=[
                *_FLAGS,
                # What Chromium asks for by itself (updates, accounts) is refused; each session has a proxy of its own.
                f"--proxy-server={self._no_way_out.address}",
                *(self._options.window_flags if window else ()),
            ],
            env=dict(self._environment(window)),
            chromium_sandbox=sandbox,
            downloads_path=self.folder / "downloads",
            artifacts_dir=self.folder / "artifacts",
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=_START_S * 1000,
        )

    async def _connect(self, driver: Playwright) -> Browser:
        if not self._options.cdp_url:
            raise Unavailable(
                "no remote browser is configured for target 'sandbox'",
                hint="Set cdp_url under [browser], or use target 'host'.",
            )
        try:
            return await driver.chromium.connect_over_cdp(
                self._options.cdp_url, timeout=_START_S * 1000, artifacts_dir=self.folder / "artifacts"
            )
        except Exception as error:
            # Its address may hold a token; what the driver says of it repeats the address.
            host = urlsplit(self._options.cdp_url).hostname or "its address"
            raise Unavailable(
                f"the remote browser at {host} cannot be reached ({type(error).__name__})",
                hint="Ask the user to check cdp_url under [browser], and whether the browser runs.",
                retryable=True,
            ) from error

    def _program(self) -> str:
        wanted = self._options.executable
        found = find_chromium(wanted, self._options.environment)
        if found is None:
            what = f"the browser {wanted}" if wanted else "Chromium"
            raise Unavailable(
                f"{what} is not installed",
                hint="Install it with: apt-get install chromium, or set executable under [browser].",
            )
        return found

    def _environment(self, window: bool) -> Mapping[str, str]:
        """No keys of ours, and a home folder that ends with the browser."""
        names = (*_KEPT_VARIABLES, *(_DISPLAY_VARIABLES if window else ()))
        given = self._options.environment
        return {
            **{name: given[name] for name in names if name in given},
            "HOME": str(self.folder / "home"),
            "TMPDIR": self._temporary,
            _MARK: self._token,
        }

    def _make_folder(self) -> None:
        for old in self.folder.parent.glob("*-*"):
            # Of processes that were killed before they could remove theirs.
            pid = old.name.partition("-")[0]
            if pid.isdigit() and not Path("/proc", pid).exists():
                _remove_files(old)
        for name in ("home", "downloads", "artifacts"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        link = self.folder / "tmp"
        if not link.exists():
            # Elsewhere, since Chromium puts a socket there, whose path may have 107 bytes (unix(7)).
            place = None if len(tempfile.gettempdir()) <= _LONGEST_TMPDIR else "/tmp"
            self._temporary = tempfile.mkdtemp(prefix="pegboard-browser-", dir=place)
            link.unlink(missing_ok=True)
            link.symlink_to(self._temporary)


class SessionProxy:
    """The only way out of one session's pages."""

    def __init__(self, proxy: EgressProxy, listener: socket.socket) -> None:
        self._proxy = proxy
        self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"

    @classmethod
    async def start(
        cls,
        options: BrowserOptions,
        *,
        hosts: Sequence[str] | None = None,
        on_destination: Callable[[Destination], None] | None = None,
    ) -> SessionProxy:
        """Listen on a loopback port; `hosts` may be reached, None = all that `options` does not refuse."""
        proxy = EgressProxy(
            hosts,
            allow_private=options.allow,
            allow_cidrs=options.allow_cidrs,
            resolve=options.resolve,
            refuse=options.refused,
            on_destination=on_destination,
            most_attempts=None,
            dial=options.dial,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        made = cls(proxy, listener)
        await proxy.serve(listener)
        return made

    def refusal(self, host: str) -> str:
        """Why the last connection to a host was refused, empty where it was not."""
        last = next((d for d in reversed(self._proxy.destinations) if d.host == host), None)
        return "" if last is None or last.allowed else last.reason

    async def close(self) -> None:
        """Stop, and cut every connection."""
        await self._proxy.close()


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        classify(host)
        return True
    return False


def find_chromium(executable: str, environment: Mapping[str, str]) -> str | None:
    """Where the program is: the one of the settings, or the first of PROGRAMS; None if it is not installed."""
    path = environment.get("PATH", os.defpath)
    names = (executable,) if executable else PROGRAMS
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def why_unsandboxed(program: str, environment: Mapping[str, str]) -> str:
    """Why pages run without Chromium's own sandbox here, empty if they have it; starts it where only that can tell."""
    if os.geteuid() == 0:
        return "Chromium's sandbox does not work for root"
    with tempfile.TemporaryDirectory(prefix="pegboard-doctor-") as folder:
        known = {name: environment[name] for name in _KEPT_VARIABLES if name in environment}
        argv = [
            program,
            "--headless",
            "--disable-gpu",
            f"--user-data-dir={folder}",
            "--dump-dom",
            "about:blank",
        ]
        try:
            done = subprocess.run(
                argv, env={**known, "HOME": folder, "TMPDIR": folder}, capture_output=True, text=True, errors="replace",
                stdin=subprocess.DEVNULL, timeout=_END_S * 2, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{program} does not start ({type(error).__name__})"
    missing = "there are neither user namespaces for ordinary users nor Chromium's setuid helper"
    return missing if _NO_SANDBOX in done.stderr else ""


def _remove(token: str, folder: Path) -> None:
    """End what a browser left running, and remove its files."""
    _end_marked(token)
    _remove_files(folder)


def _remove_files(folder: Path) -> None:
    link = folder / "tmp"
    if link.is_symlink():
        shutil.rmtree(link.readlink(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _end_marked(token: str) -> None:
    """Kill what a browser left running: every process that has its mark in the environment."""
    mark = f"{_MARK}={token}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)
        except OSError:
            continue


__all__ = [
    "PROGRAMS",
    "REFUSED_BY_US",
    "BrowserOptions",
    "Chromium",
    "LoopThread",
    "SessionProxy",
    "find_chromium",
    "why_unsandboxed",
]
