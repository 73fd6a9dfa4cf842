"""Pages in a real Chromium: one browser for all tests here, one session each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from pegboard.core.errors import Conflict, InvalidArguments, NotFound, NotUnique, TimedOut, Unavailable
from pegboard.ports.browser import (
    AnswerDialog,
    Back,
    Click,
    Close,
    Download,
    Drag,
    Element,
    Evaluate,
    Fill,
    Hover,
    MakePdf,
    Navigate,
    Press,
    ReadConsole,
    ReadContent,
    Screenshot,
    Scroll,
    Select,
    SelectTab,
    TakeSnapshot,
    TypeText,
    Upload,
    UploadFile,
    Wait,
)
from tests.browser.site import Site, Visit, browsing, ref
from tests.ledger import owes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.fixture(scope="module")
def visits(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Visit]]:
    folder = tmp_path_factory.mktemp("browser")
    with browsing(folder, allow=(f"127.0.0.1:{site.port}",), max_download_bytes=1000) as (
        browser,
        current,
        _,
    ):
        # Stays open, so that the browser does.
        asyncio.run(Visit(browser, "first", current).do(Navigate(url=site.url("/form.html")), timeout_s=30))
        yield lambda session: Visit(browser, session, current)


@pytest.fixture
async def visit(visits: Callable[[str], Visit], request: pytest.FixtureRequest) -> Visit:
    return visits(request.node.name)


@pytest.fixture(autouse=True)
async def closed(visit: Visit) -> Iterator[None]:
    yield
    await visit.do(Close())


def at(text: str, name: str) -> Element:
    return Element(ref=ref(text, name))


@owes("M-34", "C-41", "X-49", "K-55")
async def test_a_form_is_filled_by_ref_and_sent(site: Site, visit: Visit) -> None:
    page = await visit.do(Navigate(url=site.url("/form.html")))
    assert page.title == "Form"
    shown = page.text

    changed = await visit.do(Fill(fields=[(at(shown, "Name"), "Ada & Söhne"), (at(shown, "News"), "true")]))
    await visit.do(Select(element=at(shown, "Colour"), values=["green"]))
    sent = await visit.do(Click(element=at(shown, "Send")))

    assert "Ada & Söhne" in changed.text
    assert "Thank you." in sent.text
    assert site.posted[-1] == {"name": ["Ada & Söhne"], "password": [""], "news": ["on"], "colour": ["green"]}


@owes("M-34", "X-49")
async def test_a_form_is_filled_by_selector_and_sent_with_enter(site: Site, visit: Visit) -> None:
    await visit.do(Navigate(url=site.url("/form.html")))

    await visit.do(Fill(fields=[(Element(selector="[name=name]"), "")]))
    sent = await visit.do(TypeText(text="Bob", element=Element(selector="[name=name]"), submit=True))

    assert sent.url == site.url("/submit")
    assert site.posted[-1]["name"] == ["Bob"]


@owes("X-49")
async def test_a_stale_ref_says_so_at_once_and_changes_nothing(site: Site, visit: Visit) -> None:
    form = (await visit.do(Navigate(url=site.url("/form.html")))).text
    controls = (await visit.do(Navigate(url=site.url("/controls.html")))).text
    await visit.do(Click(element=at(controls, "Vanish")))

    clock = asyncio.get_running_loop().time
    start = clock()
    for stale in (at(form, "Send"), at(controls, "Vanish"), Element(ref="t99e1"), Element(ref="f7e3")):
        with pytest.raises(NotFound):
            await visit.do(Click(element=stale), timeout_s=30)

    assert clock() - start < 10
    with pytest.raises(InvalidArguments, match="not a ref"):
        await visit.do(Click(element=Element(ref="the button")))
    with pytest.raises(NotFound, match="page has changed"):
        await visit.do(Fill(fields=[(Element(selector="input"), "typed"), (at(controls, "Vanish"), "x")]))
    assert "typed" not in (await visit.do(TakeSnapshot())).text


async def test_a_ref_keeps_its_tab(site: Site, visit: Visit) -> None:
    first = (await visit.do(Navigate(url=site.url("/form.html")))).text
    await visit.do(Navigate(url=site.url("/form.html"), new_tab=True))

    filled = await visit.do(Fill(fields=[(at(first, "Name"), "in the first")]))

    assert filled.tab == "t1"
    assert "in the first" in filled.text
    assert "in the first" not in (await visit.do(TakeSnapshot(), tab="t2")).text


@owes("K-55")
async def test_clicks_keys_hover_and_drag_do_what_a_person_does(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/controls.html")))).text

    assert "Hovered" in (await visit.do(Hover(at(shown, "Menu")))).text
    assert "double" in (await visit.do(Click(element=at(shown, "Twice"), double=True))).text
    assert "right" in (await visit.do(Click(element=at(shown, "Right"), button="right"))).text
    assert "key Escape" in (await visit.do(Press(key="Escape", element=at(shown, "Keys")))).text
    assert "key a" in (await visit.do(TypeText(text="a"))).text
    dropped = await visit.do(Drag(source=at(shown, "Parcel"), target=at(shown, "Shelf")))
    assert "dropped parcel" in dropped.text
    with pytest.raises(InvalidArguments, match="Unknown key"):
        await visit.do(Press(key="Nonsense"))


async def test_what_cannot_be_done_says_why_in_time(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/controls.html")))).text

    with pytest.raises(TimedOut, match=r"within 0\.5 s.*not enabled"):
        await visit.do(Click(element=at(shown, "Never")), timeout_s=0.5)
    with pytest.raises(TimedOut, match="no such element appeared"):
        await visit.do(Click(element=Element(selector="#none")), timeout_s=0.5)
    with pytest.raises(NotUnique, match="fits 7 elements"):
        await visit.do(Click(element=Element(selector="button")))
    with pytest.raises(InvalidArguments):
        await visit.do(Click(element=Element(selector="div[")))
    with pytest.raises(InvalidArguments, match="needs an element"):
        await visit.do(Click(element=Element()))
    with pytest.raises(TimedOut, match=r"within 0\.5 s"):
        await visit.do(Evaluate(expression="() => new Promise(() => {})"), timeout_s=0.5)


@owes("K-55")
async def test_waiting_ends_with_what_was_waited_for(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/controls.html")))).text
    await visit.do(Click(element=at(shown, "Later")))

    await visit.do(Wait(text="late"), timeout_s=5)
    await visit.do(Wait(element=Element(selector="#said")), timeout_s=5)
    await visit.do(Wait(element=at(shown, "Vanish")), timeout_s=5)

    with pytest.raises(TimedOut):
        await visit.do(Wait(text="never said"), timeout_s=0.3)
    await visit.do(Click(element=at(shown, "Vanish")))
    await visit.do(Wait(element=at(shown, "Vanish"), gone=True), timeout_s=5)
    await visit.do(Wait(url="**/controls.html"), timeout_s=5)


@owes("K-55")
async def test_a_dialog_is_reported_and_holds_up_the_page_until_it_is_answered(
    site: Site, visit: Visit
) -> None:
    shown = (await visit.do(Navigate(url=site.url("/dialogs.html")))).text

    asked = await visit.do(Click(element=at(shown, "Confirm")))
    assert "confirm 'Delete all?'" in asked.events[0]
    with pytest.raises(Conflict, match="Delete all"):
        await visit.do(TakeSnapshot())
    assert (await visit.do(AnswerDialog(accept=False))).title == "false"

    asked = await visit.do(Click(element=at(shown, "Prompt")))
    assert "suggested answer 'Bob'" in asked.events[0]
    assert (await visit.do(AnswerDialog(text="Ada"))).title == "Ada"

    assert "alert 'one'" in (await visit.do(Click(element=at(shown, "Twice")))).events[0]
    assert "alert 'two'" in (await visit.do(AnswerDialog())).events[0]
    assert (await visit.do(AnswerDialog())).title == "both"

    with pytest.raises(Conflict, match="no dialog"):
        await visit.do(AnswerDialog())
    assert (await visit.do(Click(element=at(shown, "Leave")))).title == "Form"


async def test_a_dialog_that_is_answered_late_still_ends_its_click(
    site: Site, visit: Visit, visits: Callable[[str], Visit]
) -> None:
    shown = (await visit.do(Navigate(url=site.url("/dialogs.html")))).text
    await visit.do(Click(element=at(shown, "Confirm")), timeout_s=1)
    # The click's own time runs out meanwhile.
    await visits("first").do(Evaluate(expression="new Promise(done => setTimeout(done, 2100))"))

    assert (await visit.do(AnswerDialog())).title == "true"


async def test_frames_are_shown_and_used_and_their_passwords_hidden(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/frames.html")))).text

    assert "Inside" in shown
    assert "inner-secret" not in shown
    assert "pressed inside" in (await visit.do(Click(element=at(shown, "Inside")))).text


@owes("K-55")
async def test_what_a_password_field_holds_is_shown_nowhere(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/form.html")))).text
    password = 'pa ss:"w0rd&'

    filled = await visit.do(Fill(fields=[(at(shown, "Password"), password)]))
    read = await visit.do(Evaluate(expression="document.forms[0].password.value"))
    revealed = await visit.do(Evaluate(expression="document.forms[0].password.type = 'text'"))
    shown_as_text = await visit.do(TakeSnapshot())
    in_address = await visit.do(
        Evaluate(
            expression="history.pushState(0, '', '?p=' + encodeURIComponent(document.forms[0].password.value))"
        )
    )
    short = await visit.do(Fill(fields=[(Element(selector="[name=password]"), "abc")]))

    assert "[hidden]" in filled.text
    for reply in (filled, read, revealed, shown_as_text, in_address):
        assert "w0rd" not in f"{reply.text} {reply.value} {reply.url}"
    assert "abc" in short.text  # It is an ordinary text field by now.


@owes("K-55")
async def test_a_page_that_changes_itself_shows_what_changed(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/app.html")))).text

    listed = await visit.do(Click(element=at(shown, "List")))
    assert listed.text.startswith("Changed in the snapshot:")
    assert "Item 19" in listed.text
    assert 'button "About"' not in listed.text
    about = await visit.do(Click(element=at(shown, "About")))
    assert about.title == "App /about"
    back = await visit.do(Back())

    assert back.title == "App /list"
    assert back.url == site.url("/app.html#/list")


async def test_scrolling_loads_more_of_an_endless_page_and_says_where_it_is(site: Site, visit: Visit) -> None:
    shown = await visit.do(Navigate(url=site.url("/endless.html")))
    assert "Item 20" not in shown.text

    for _ in range(10):
        reply = await visit.do(Scroll(direction="bottom"))
        if "Item 99" in (await visit.do(ReadContent())).text:
            break
    up = await visit.do(Scroll(direction="top"))

    assert "Item 99" in (await visit.do(ReadContent())).text
    assert "pixels" in reply.events[0]
    assert up.events[0].startswith("The page is scrolled to 0 of ")
    down = await visit.do(Scroll(pixels=300))
    assert down.events[0].startswith("The page is scrolled to 300 of ")


@owes("K-56")
async def test_tabs_are_listed_switched_and_closed_and_a_new_one_becomes_current(
    site: Site, visit: Visit
) -> None:
    shown = (await visit.do(Navigate(url=site.url("/links.html")))).text

    opened = await visit.do(Click(element=at(shown, "New tab")))
    assert "opened tab t2" in opened.events[0]
    assert (opened.tab, opened.title) == ("t2", "Form")
    listed = await visit.do(SelectTab("t1"))
    assert [(t.id, t.title, t.current) for t in listed.tabs] == [("t1", "Links", True), ("t2", "Form", False)]
    closed = await visit.do(Close("t1"))
    assert [t.id for t in closed.tabs] == ["t2"]

    with pytest.raises(NotFound, match=r"no tab 't1'.*t2"):
        await visit.do(TakeSnapshot(), tab="t1")


@owes("K-56", "C-41")
async def test_sessions_share_neither_tabs_nor_cookies(
    site: Site, visit: Visit, visits: Callable[[str], Visit]
) -> None:
    other = visits("another")
    await visit.do(Navigate(url=site.url("/form.html")))
    await visit.do(Evaluate(expression="document.cookie = 'user=ada'"))
    await other.do(Navigate(url=site.url("/whoami")))

    mine = await visit.do(Navigate(url=site.url("/whoami")))
    theirs = await other.do(ReadContent())

    assert (await visit.do(ReadContent())).text == "You are ada."
    assert theirs.text == "You are nobody."
    assert [t.id for t in mine.tabs] == ["t1"]
    await other.do(Close())
    with pytest.raises(NotFound, match="no page is open"):
        await other.do(TakeSnapshot())


@owes("K-55")
async def test_files_are_uploaded_to_a_field_and_through_a_chooser(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/controls.html")))).text
    file = UploadFile(name="notes.txt", data=b"twelve bytes", mime_type="text/plain")

    assert "notes.txt 12" in (await visit.do(Upload(element=at(shown, "Files"), files=[file]))).text
    assert "chosen notes.txt" in (await visit.do(Upload(element=at(shown, "Choose"), files=[file]))).text


@owes("K-55")
async def test_downloads_come_by_a_click_by_their_id_and_by_their_address(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/links.html")))).text

    clicked = await visit.do(Download(element=at(shown, "Report")))
    begun = await visit.do(Click(element=at(shown, "Report")))
    by_id = await visit.do(Download(id="d2"))
    address = await visit.do(Navigate(url=site.url("/report.csv")))

    assert clicked.data == by_id.data == b"a,b\n1,2\n"
    assert "/" not in clicked.name
    assert not clicked.events
    assert "Download d2 has begun" in begun.events[0]
    assert "Download d3 has begun" in address.events[0]
    with pytest.raises(NotFound, match="d3"):
        await visit.do(Download(id="d2"))


async def test_a_download_over_the_limit_is_refused(site: Site, visit: Visit) -> None:
    site.extra["/large.html"] = (
        f"<title>Large</title><a download href='data:text/plain,{'x' * 2000}'>Large</a>"
    )
    shown = (await visit.do(Navigate(url=site.url("/large.html")))).text

    with pytest.raises(Exception, match="2,000 bytes; the limit is 1,000"):
        await visit.do(Download(element=at(shown, "Large")))


@owes("M-34", "K-55")
async def test_pictures_and_pdf_are_what_they_say(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/endless.html")))).text

    screen = await visit.do(Screenshot())
    whole = await visit.do(Screenshot(full_page=True))
    one = await visit.do(Screenshot(element=Element(selector="li >> nth=0")))
    pdf = await visit.do(MakePdf())

    assert {r.data[:8] for r in (screen, whole, one)} == {b"\x89PNG\r\n\x1a\n"}
    height = [int.from_bytes(r.data[20:24]) for r in (screen, whole, one)]
    assert (height[0], height[2]) == (720, 60)
    assert height[1] > 720
    assert pdf.data[:5] == b"%PDF-"
    assert shown


@owes("K-55")
async def test_the_console_has_messages_errors_and_failed_requests(site: Site, visit: Visit) -> None:
    await visit.do(Navigate(url=site.url("/controls.html")))
    await visit.do(Evaluate(expression="fetch('http://10.1.2.3/x').catch(() => 0)"))

    said = (await visit.do(ReadConsole())).text

    for line in ("log: ready", "error: something is wrong", "thrown later", "10.1.2.3"):
        assert line in said


async def test_javascript_gives_its_value_or_its_error(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/form.html")))).text

    value = await visit.do(Evaluate(expression="() => ({sum: 1 + 2, list: ['a', null]})"))
    name = await visit.do(Evaluate(expression="e => e.name", element=at(shown, "Name")))

    assert value.value == {"sum": 3, "list": ["a", None]}
    assert name.value == "name"
    with pytest.raises(Exception, match="nothing is not defined"):
        await visit.do(Evaluate(expression="nothing.at.all"))


async def test_a_snapshot_of_one_element_leaves_all_refs_usable(site: Site, visit: Visit) -> None:
    shown = (await visit.do(Navigate(url=site.url("/form.html")))).text

    by_ref = await visit.do(TakeSnapshot(at(shown, "News")))
    by_selector = await visit.do(TakeSnapshot(Element(selector="select")))

    assert by_ref.text.startswith('- checkbox "News"')
    assert "green" in by_selector.text
    assert "Name" not in by_selector.text
    await visit.do(Click(element=at(shown, "Send")))


async def test_a_page_that_hangs_can_be_left(site: Site, visit: Visit) -> None:
    await visit.do(Navigate(url=site.url("/form.html")))

    with pytest.raises(TimedOut):
        await visit.do(Evaluate(expression="while (true) {}"), timeout_s=0.5)
    await visit.do(Close("t1"))

    assert (await visit.do(Navigate(url=site.url("/form.html")))).title == "Form"


@owes("web-24")
async def test_a_page_that_crashes_is_one_error_and_the_others_go_on(site: Site, visit: Visit) -> None:
    await visit.do(Navigate(url=site.url("/form.html")))
    crash = Navigate(url="chrome://crash", new_tab=True)

    with pytest.raises(Unavailable, match="crashed"):
        await visit.do(crash)

    again = await visit.do(Navigate(url=site.url("/links.html"), new_tab=True))
    assert again.title == "Links"
    assert "t1" in [t.id for t in again.tabs]


async def test_an_address_that_cannot_be_opened_says_why_and_the_next_one_opens(
    site: Site, visit: Visit
) -> None:
    for url, why in (
        ("http://127.0.0.1:1/", "browsers do not use that port"),
        ("https://127.0.0.1:1234/", "not public"),
        (
            site.url("/redirect?to=/redirect%3Fto%3D/x").replace("http:", "https:"),
            "does not speak TLS|cannot be opened",
        ),
    ):
        with pytest.raises(Exception, match=why):
            await visit.do(Navigate(url=url))
        assert (await visit.do(Navigate(url=site.url("/form.html")))).title == "Form"


async def test_an_error_page_of_the_server_is_shown_as_it_is(site: Site, visit: Visit) -> None:
    assert "Not here." in (await visit.do(Navigate(url=site.url("/missing")))).text
    assert (await visit.place()).opened == {f"127.0.0.1:{site.port}"}


@owes("web-24")
async def test_many_sessions_at_once_have_each_their_own_page(
    site: Site, visits: Callable[[str], Visit], visit: Visit
) -> None:
    async def one(number: int) -> str:
        site.extra[f"/n{number}"] = f"<title>Number {number}</title>"
        browser = visit.browser
        return (
            await browser.perform(Navigate(url=site.url(f"/n{number}"), new_tab=True), timeout_s=20)
        ).title

    await visit.do(Navigate(url=site.url("/form.html")))
    titles = await asyncio.gather(*(one(n) for n in range(5)))

    assert titles == [f"Number {n}" for n in range(5)]
