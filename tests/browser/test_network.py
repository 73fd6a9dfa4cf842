"""What a page may reach: everything goes through the checking proxy, and the proxy's dial is recorded here."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegboard.core.errors import PermissionDenied, Unavailable
from pegboard.net.destinations import Destination
from pegboard.ports.browser import Click, Close, Element, Evaluate, HandOver, Navigate, ReadConsole, TakeBack
from tests.browser.site import Names, RecordingDial, Site, Visit, browsing, ref
from tests.ledger import owes

pytestmark = pytest.mark.slow

PUBLIC = "93.184.216.34"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


class Guarded:
    """A browser whose names are all answered here, and whose every connection is recorded."""

    def __init__(self, visit: Visit, dial: RecordingDial, names: Names, tried: list[Destination]) -> None:
        self.visit = visit
        self.dial = dial
        self.names = names
        self.tried = tried


@pytest.fixture(scope="module")
def guarded(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    dial = RecordingDial()
    names = Names(
        {
            "shop.example": ["127.0.0.1"],
            "metadata.example": ["169.254.169.254"],
            "mapped.example": ["::ffff:10.0.0.1"],
            "rebinding.example": [PUBLIC, "127.0.0.1"],
            "metadata.google.internal": [PUBLIC],
            "denied.example": [PUBLIC],
        }
    )
    with browsing(
        tmp_path_factory.mktemp("browser"),
        allow=(f"shop.example:{site.port}",),
        resolve=names,
        dial=dial,
        refuse=lambda host, port: "a rule denies it" if host == "denied.example" else "",
    ) as (browser, current, tried):
        yield Guarded(Visit(browser, "main", current), dial, names, tried)


@pytest.fixture
async def page(guarded: Guarded, site: Site) -> Guarded:
    await guarded.visit.do(Navigate(url=site.url("/form.html", "shop.example")), timeout_s=30)
    guarded.dial.dialled.clear()
    guarded.names.asked.clear()
    return guarded


FETCHES = [
    "http://metadata.example/latest/meta-data/", "https://metadata.example/", "http://169.254.169.254/latest/",
    "http://[::ffff:169.254.169.254]/", "http://mapped.example/", "http://127.0.0.1:{port}/form.html",
    "http://localhost:{port}/form.html", "http://[::1]:{port}/", "http://2130706433:{port}/", "http://0x7f.1:{port}/",
    "http://metadata.google.internal/", "http://denied.example/", "http://10.1.2.3:8080/", "http://0.0.0.0:{port}/",
]  # fmt: skip


@owes("K-35", "web-01")
@pytest.mark.parametrize("url", FETCHES)
async def test_a_page_cannot_be_opened_at_an_address_that_is_not_public(
    page: Guarded, site: Site, url: str
) -> None:
    with pytest.raises(PermissionDenied, match=r"not public|local|denies"):
        await page.visit.do(Navigate(url=url.format(port=site.port)))

    assert page.dial.dialled == []


async def test_scripts_of_a_page_reach_nothing_that_is_not_public(page: Guarded, site: Site) -> None:
    asked = [u.format(port=site.port) for u in FETCHES]
    before = len(site.seen)

    answers = await page.visit.do(
        Evaluate(
            expression=f"Promise.all({asked!r}.map(u => fetch(u, {{mode: 'no-cors'}}).then(a => a.type, () => 'refused')))"
        ),
        timeout_s=20,
    )

    # A refusal of plain http is an answer of the proxy's, which a page cannot read either.
    assert set(answers.value) <= {"refused", "opaque"}
    assert page.dial.dialled == []
    assert site.seen[before:] == []
    assert "metadata.example" in (await page.visit.do(ReadConsole())).text


async def test_a_redirect_to_a_private_address_ends_there(page: Guarded, site: Site) -> None:
    hop = site.url("/redirect?to=http://metadata.example/latest/", "shop.example")

    with pytest.raises(PermissionDenied, match=r"metadata\.example"):
        await page.visit.do(Navigate(url=hop))

    assert {d for d, _ in page.dial.dialled} == {"127.0.0.1"}
    assert {p for _, p in page.dial.dialled} == {site.port}


@owes("web-03")
async def test_a_name_that_changes_its_address_is_connected_to_where_it_was_checked(
    page: Guarded, site: Site
) -> None:
    before = len(site.seen)

    # The icon of the error page asks for the name again, and may be refused before the page is read.
    with pytest.raises((Unavailable, PermissionDenied)):
        await page.visit.do(Navigate(url=site.url("/form.html", "rebinding.example")))
    with pytest.raises(PermissionDenied, match="loopback"):
        await page.visit.do(Navigate(url=site.url("/form.html", "rebinding.example")))

    assert page.dial.dialled == [(PUBLIC, site.port)]
    assert site.seen[before:] == []


async def test_a_click_on_a_link_to_a_private_address_opens_nothing(page: Guarded, site: Site) -> None:
    site.extra["/trap.html"] = "<title>Trap</title><a href='http://metadata.example/latest/'>Prize</a>"
    shown = await page.visit.do(Navigate(url=site.url("/trap.html", "shop.example")))
    page.dial.dialled.clear()

    clicked = await page.visit.do(Click(element=Element(ref=ref(shown.text, "Prize"))))

    assert page.dial.dialled == []
    assert "not public" in clicked.text
    await page.visit.do(Navigate(url=site.url("/form.html", "shop.example")))


async def greeting(visit: Visit, url: str) -> object:
    """What a WebSocket says first to a script of the page."""
    connect = (
        "u => new Promise(done => { const s = new WebSocket(u); s.onmessage = m => done(m.data);"
        " s.onclose = s.onerror = () => done('refused') })"
    )
    return (await visit.do(Evaluate(expression=f"({connect})('{url}')"))).value


async def test_websockets_go_the_same_way(page: Guarded, site: Site) -> None:
    assert await greeting(page.visit, f"ws://shop.example:{site.port}/socket") == "hello"
    assert ("127.0.0.1", site.port) in page.dial.dialled
    page.dial.dialled.clear()
    for url in (f"ws://127.0.0.1:{site.port}/socket", "wss://metadata.example/", "ws://mapped.example/"):
        assert await greeting(page.visit, url) == "refused"
    assert page.dial.dialled == []


async def test_service_workers_go_the_same_way(page: Guarded, site: Site) -> None:
    """They run on secure origins alone, and loopback is one: this page is opened for it."""
    with browsing(
        Path(page.visit.browser._options.folder).with_name("worker"),  # pyright: ignore[reportPrivateUsage]
        allow=(f"127.0.0.1:{site.port}",), resolve=page.names, dial=page.dial,
    ) as (browser, current, tried):  # fmt: skip
        visit = Visit(browser, "main", current)
        await visit.do(Navigate(url=site.url("/form.html")), timeout_s=30)
        ask = """async urls => {
          await navigator.serviceWorker.register('/worker.js');
          const {active} = await navigator.serviceWorker.ready;
          const said = [];
          for (const url of urls) said.push(await new Promise(done => {
            navigator.serviceWorker.onmessage = m => done(m.data); active.postMessage(url);
          }));
          return said;
        }"""
        urls = [site.url("/form.html"), "http://metadata.example/", f"http://localhost:{site.port}/"]
        page.dial.dialled.clear()
        answers = await visit.do(Evaluate(expression=f"({ask})({urls!r})"), timeout_s=20)

        assert answers.value[0] == "basic"
        assert {address for address, _ in page.dial.dialled} == {"127.0.0.1"}
        assert [d.host for d in tried if not d.allowed] == ["metadata.example", "localhost"]


async def test_nothing_leaves_by_udp(page: Guarded) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        port = listener.getsockname()[1]
        server = f"{{urls: 'stun:127.0.0.1:{port}'}}"
        stun = (
            f"new Promise(done => {{ const c = new RTCPeerConnection({{iceServers: [{server}]}}); const found = [];"
            " c.onicecandidate = e => e.candidate ? found.push(e.candidate.candidate) : done(found);"
            " c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o)) })"
        )
        quic = f"(async () => {{ const t = new WebTransport('https://127.0.0.1:{port}/'); await t.ready }})().catch(() => 'refused')"

        candidates = await page.visit.do(Evaluate(expression=stun), timeout_s=30)
        transport = await page.visit.do(
            Evaluate(expression=f"self.WebTransport ? {quic} : 'refused'"), timeout_s=30
        )

        with pytest.raises(BlockingIOError):
            listener.recv(2048)
    assert [c for c in candidates.value if " udp " in c.lower()] == []
    assert transport.value == "refused"


async def test_chromium_itself_asks_for_nothing(page: Guarded) -> None:
    """Updates, accounts, time: only what pages asked for was ever looked up."""
    hosts = {d.host for d in page.tried}

    assert not [h for h in hosts if h.endswith(("googleapis.com", "google.com", "gstatic.com", "debian.org"))]
    assert not [h for h in page.names.asked if h.endswith(".com")]


async def test_local_files_and_scripts_are_no_addresses_of_pages(page: Guarded, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("top secret")

    moved = await page.visit.do(
        Evaluate(
            expression=f"(location = 'file://{tmp_path}/secret.txt', fetch('file://{tmp_path}/secret.txt')).then(() => 'read', () => 'refused')"
        )
    )

    assert moved.value == "refused"
    assert "shop.example" in moved.url


@owes("M-35")
async def test_a_remote_browser_is_used_by_its_address_and_sent_to_no_private_place(
    site: Site, tmp_path: Path
) -> None:
    flags = [
        "--headless",
        "--no-sandbox",
        "--remote-debugging-port=0",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    # All of its own connections end here, whatever it is sent to.
    flags += [
        "--host-resolver-rules=MAP shop.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "about:blank",
    ]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    remote = subprocess.Popen(
        ["chromium", *flags], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert remote.stderr is not None
        said = next(line for line in remote.stderr if "DevTools listening on" in line)
        names = Names({"shop.example": [PUBLIC], "metadata.example": ["169.254.169.254"]})
        with browsing(
            tmp_path / "browser",
            cdp_url=said.split(" on ")[1].strip(),
            resolve=names,
            allow=("none.example",),
        ) as (browser, current, _):
            visit = Visit(browser, "main", current)
            opened = await visit.do(Navigate(url=site.url("/form.html", "shop.example")), timeout_s=30)
            assert opened.title == "Form"
            with pytest.raises(PermissionDenied, match="metadata"):
                await visit.do(Navigate(url="http://metadata.example/"))
            with pytest.raises(PermissionDenied, match="loopback"):
                await visit.do(Navigate(url=site.url("/form.html")))
            await visit.do(Navigate(url=site.url("/form.html", "shop.example")))
            assert await greeting(visit, f"ws://shop.example:{site.port}/socket") == "hello"
            spoken = len(site.spoken)
            assert await greeting(visit, f"ws://127.0.0.1:{site.port}/socket") == "refused"
            assert len(site.spoken) == spoken

            # A person uses the remote browser in its own window; what its pages say meanwhile is not noted.
            await visit.do(HandOver())
            await visit.type_there("correct horse")
            await visit.do(TakeBack())
            await visit.do(Evaluate(expression="console.log('the agent again')"))
            noted = (await visit.do(ReadConsole())).text
            assert "the agent again" in noted
            assert "horse" not in noted
            await visit.do(Close())
            assert remote.poll() is None  # It is not ours to end.
    finally:
        remote.kill()
        remote.communicate()


async def test_without_a_remote_browser_the_target_sandbox_says_what_to_set(tmp_path: Path) -> None:
    with browsing(tmp_path) as (browser, _, _):
        with pytest.raises(Unavailable, match="no remote browser"):
            await browser.perform(Navigate(url="http://shop.example/"), target="sandbox")
    with browsing(tmp_path, cdp_url="http://127.0.0.1:9/?token=Qx7vR2mKp9") as (browser, _, _):
        with pytest.raises(Unavailable, match=r"remote browser at 127\.0\.0\.1 cannot be reached") as refused:
            await browser.perform(Navigate(url="http://shop.example/"))
        assert "Qx7vR2mKp9" not in str(refused.value)  # A model reads this, and the address may hold a token.


async def test_where_chromium_is_missing_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with browsing(tmp_path, executable="no-such-chromium") as (browser, _, _):
        with pytest.raises(Unavailable, match="no-such-chromium is not installed") as caught:
            await browser.perform(Navigate(url="http://shop.example/"))

    assert "apt-get install chromium" in caught.value.hint
