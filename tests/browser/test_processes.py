"""What a browser starts ends with it, however it ends; and a login is handed over to a person."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegboard.core.errors import InvalidArguments, Unavailable
from pegboard.ports.browser import (
    Close,
    Evaluate,
    HandOver,
    Navigate,
    ReadConsole,
    ReadContent,
    TakeBack,
    TakeSnapshot,
)
from tests.browser.site import Site, Visit, browsing
from tests.ledger import owes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def marked(folder: Path) -> dict[int, str]:
    """Processes with this folder in their environment or command line, and their names."""
    out: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "environ").read_bytes() + (place / "cmdline").read_bytes()
            if str(folder).encode() in words and int(place.name) != os.getpid():
                out[int(place.name)] = (place / "comm").read_text().strip()
        except OSError:
            continue
    return out


def wait_until_gone(folder: Path, seconds: float = 10.0) -> dict[int, str]:
    """What is left of a browser after some time at most."""
    end = time.monotonic() + seconds
    while (left := marked(folder)) and time.monotonic() < end:
        os.sched_yield()
    return left


async def test_a_browser_that_crashes_in_the_middle_is_one_error_and_the_next_action_has_a_new_one(
    site: Site, tmp_path: Path
) -> None:
    with browsing(tmp_path, allow=(f"127.0.0.1:{site.port}",)) as (browser, current, _):
        visit = Visit(browser, "main", current)
        await visit.do(Navigate(url=site.url("/form.html")), timeout_s=30)
        running = marked(tmp_path)
        assert "chromium" in running.values()
        waiting = asyncio.ensure_future(visit.do(Evaluate(expression="new Promise(() => {})"), timeout_s=30))
        await asyncio.sleep(0)

        for pid in running:
            os.kill(pid, signal.SIGKILL)

        with pytest.raises(Unavailable, match="ended"):
            await asyncio.wait_for(waiting, 20)
        # What a process left that was killed itself goes with the next start, and nothing of one that runs.
        (left := tmp_path / "running" / "99999999-x" / "downloads").mkdir(parents=True)
        (kept := tmp_path / "running" / f"{os.getppid()}-x").mkdir()
        again = await visit.do(Navigate(url=site.url("/form.html")), timeout_s=30)
        assert (left.exists(), kept.exists()) == (False, True)
        assert (again.title, again.tab) == ("Form", "t1")
        assert not set(running) & set(marked(tmp_path))
        # Closing ends what was started for it, and leaves no files.
        await visit.do(Close())
        assert wait_until_gone(tmp_path) == {}
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


async def test_a_driver_that_crashes_is_started_again(site: Site, tmp_path: Path) -> None:
    with browsing(tmp_path, allow=(f"127.0.0.1:{site.port}",)) as (browser, current, _):
        visit = Visit(browser, "main", current)
        await visit.do(Navigate(url=site.url("/form.html")), timeout_s=30)
        (driver,) = [
            int(p.parent.name)
            for p in Path("/proc").glob("[0-9]*/stat")
            if (words := p.read_text().rpartition(")")[2].split())[1] == str(os.getpid())
            and b"run-driver" in (p.parent / "cmdline").read_bytes()
            and words
        ]

        os.kill(driver, signal.SIGKILL)

        with pytest.raises(Unavailable):
            await visit.do(TakeSnapshot())
        assert (await visit.do(Navigate(url=site.url("/form.html")), timeout_s=30)).title == "Form"
    assert wait_until_gone(tmp_path) == {}


PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from pegboard.browser.browser import ChromiumBrowser
from pegboard.browser.chromium import BrowserOptions
from pegboard.ports.browser import Navigate

async def main():
    options = BrowserOptions(folder=Path(sys.argv[1]), environment=dict(os.environ), allow=(sys.argv[3],))
    browser = ChromiumBrowser(options)
    await browser.perform(Navigate(url=sys.argv[2]), timeout_s=30)
    print("open", flush=True)
    if sys.argv[4] == "wait":
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["SIGKILL", "not closed"])
def test_nothing_is_left_running_when_the_program_ends_without_closing_it(
    site: Site, tmp_path: Path, end: str
) -> None:
    place, how = tmp_path / "state", "wait" if end == "SIGKILL" else "end"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, place, site.url("/form.html"), f"127.0.0.1:{site.port}", how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "open\n"
    assert "chromium" in marked(place).values()

    if end == "SIGKILL":
        program.kill()
    program.wait(30)
    program.stdout.close()

    assert wait_until_gone(place) == {}


@owes("K-56")
async def test_a_profile_keeps_a_login_for_the_next_session_and_no_other(site: Site, tmp_path: Path) -> None:
    with browsing(tmp_path, allow=(f"127.0.0.1:{site.port}",)) as (browser, current, _):
        one, two = Visit(browser, "one", current), Visit(browser, "two", current)
        await one.do(Navigate(url=site.url("/form.html")), profile="shop", timeout_s=30)
        await one.do(Evaluate(expression="document.cookie = 'user=ada; max-age=1000'"))
        await one.do(Close())

        await two.do(Navigate(url=site.url("/whoami")), timeout_s=30)
        anonymous = await two.do(ReadContent())
        await two.do(Navigate(url=site.url("/whoami")), profile="shop")
        known = await two.do(ReadContent())

        assert (anonymous.text, known.text) == ("You are nobody.", "You are ada.")
        kept = tmp_path / "profiles" / "shop.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        with pytest.raises(InvalidArguments, match="profile"):
            await two.do(Navigate(url=site.url("/whoami")), profile="../shop")


@owes("K-55")
async def test_a_login_by_the_person_is_the_agents_afterwards_and_what_they_typed_is_noted_nowhere(
    site: Site, tmp_path: Path
) -> None:
    site.extra["/login.html"] = (
        "<title>Login</title><input type=password><script>document.querySelector('input').oninput ="
        " e => { document.cookie = 'user=ada' }</script>"
    )
    # The window is there without a display: the flag makes it headless again.
    flags = ("--headless",)
    environment = {**os.environ, "DISPLAY": ":none"}
    with browsing(
        tmp_path, allow=(f"127.0.0.1:{site.port}",), window_flags=flags, environment=environment
    ) as (browser, current, _):
        visit = Visit(browser, "main", current)
        await visit.do(Navigate(url=site.url("/login.html")), timeout_s=30)

        await visit.do(HandOver(), timeout_s=30)
        await visit.type_there("correct horse")
        back = await visit.do(TakeBack())
        console = await visit.do(ReadConsole())
        await visit.do(Navigate(url=site.url("/whoami")))

        assert (await visit.do(ReadContent())).text == "You are ada."
        assert "horse" not in f"{back} {console}"


async def test_without_a_display_a_hand_over_says_what_to_do(site: Site, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    with browsing(tmp_path, allow=(f"127.0.0.1:{site.port}",), environment=environment) as (
        browser,
        current,
        _,
    ):
        visit = Visit(browser, "main", current)
        await visit.do(Navigate(url=site.url("/form.html")), timeout_s=30)

        with pytest.raises(Unavailable, match="no display") as caught:
            await visit.do(HandOver())

        assert "secret://" in caught.value.hint
        assert (await visit.do(TakeSnapshot())).title == "Form"
