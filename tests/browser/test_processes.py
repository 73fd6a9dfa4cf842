"""What a browser starts ends with it, however it ends; and a login is handed over to a person."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
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
        (temporary := tmp_path / "temporary" / "profile").mkdir(parents=True)
        (left.parent / "tmp").symlink_to(temporary)
        (kept := tmp_path / "running" / f"{os.getppid()}-x").mkdir()
        again = await visit.do(Navigate(url=site.url("/form.html")), timeout_s=30)
        assert (left.exists(), temporary.exists(), kept.exists()) == (False, False, True)
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
    # Short, as the usual one is: Chromium puts a socket there.
    temporary = Path(tempfile.mkdtemp(prefix="test-"))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, place, site.url("/form.html"), f"127.0.0.1:{site.port}", how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "open\n"
    if end == "SIGKILL":
        assert "chromium" in marked(place).values()
        program.kill()
    program.wait(30)
    program.stdout.close()

    assert wait_until_gone(place) == {}
    if end == "not closed":
        assert (list(temporary.iterdir()), list((place / "running").iterdir())) == ([], [])
    shutil.rmtree(temporary, ignore_errors=True)


# Runs a program as nobody in a user namespace: sys.argv[1] says whether further ones can be made in it.
AS_NOBODY = """
import ctypes, os, sys
made, mapped = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    if ctypes.CDLL(None).unshare(0x10000000):
        os._exit(77)
    os.write(made[1], b"x"), os.read(mapped[0], 1)
    if sys.argv[1] == "without":
        open("/proc/sys/user/max_user_namespaces", "w").write("0")
    os.setgroups([]), os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)
    os.execvp(sys.argv[2], sys.argv[2:])
os.read(made[0], 1)
for name in ("uid_map", "gid_map"):
    open(f"/proc/{pid}/{name}", "w").write("0 0 65536\\n")
os.write(mapped[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""

SANDBOXED = """
import asyncio, os, sys
from pathlib import Path
from pegboard.browser.browser import ChromiumBrowser
from pegboard.browser.chromium import BrowserOptions, find_chromium, why_unsandboxed
from pegboard.ports.browser import Navigate

async def main():
    browser = ChromiumBrowser(BrowserOptions(folder=Path(sys.argv[1]), environment=dict(os.environ), allow=(sys.argv[3],)))
    shown = await browser.perform(Navigate(url=sys.argv[2]), timeout_s=60)
    flags = [(p / "cmdline").read_bytes().split(b"\\0") for p in Path("/proc").glob("[0-9]*") if p.stat().st_uid == os.getuid()]
    print(shown.title, any(b"--no-sandbox" in f for f in flags))
    await browser.close()
    print(why_unsandboxed(find_chromium("", os.environ), os.environ))

asyncio.run(main())
"""


def readable_python() -> str:
    """An interpreter that an ordinary user can run with the packages of this one; empty where there is none."""
    other = shutil.which("python3", path="/usr/bin") or ""
    asked = [other, "-c", "import sys; print(*sys.version_info[:2])"]
    same = other and subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return other if same == [str(part) for part in sys.version_info[:2]] else ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("namespaces", "off"), [("with", False), ("without", True)])
def test_an_ordinary_user_has_chromiums_sandbox_wherever_it_can_be_made(
    site: Site, namespaces: str, *, off: bool
) -> None:
    python = readable_python()
    if not python:
        pytest.skip("no interpreter that an ordinary user can run")
    home = Path(tempfile.mkdtemp(prefix="test-"))
    os.chown(home, 65534, 65534)
    argv = [sys.executable, "-c", AS_NOBODY, namespaces, python, "-c", SANDBOXED, str(home / "state")]

    done = subprocess.run(
        [*argv, site.url("/form.html"), f"127.0.0.1:{site.port}"], capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": ":".join(sys.path)}, cwd=home,
    )  # fmt: skip

    left = [p for p in home.iterdir() if p.name not in ("state", ".config")]
    shutil.rmtree(home, ignore_errors=True)
    if done.returncode == 77:
        pytest.skip("no user namespaces here")
    assert done.stdout.splitlines()[:1] == [f"Form {off}"], done.stderr
    assert ("neither user namespaces" in done.stdout) is off
    assert left == []


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


@owes("K-55", "G-22")
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
