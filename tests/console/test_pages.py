"""Every page in both themes, wide and narrow: it shows its content, and axe finds nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import TOKEN, WAIT_MS
from tests.console.furnished import LONG, furnished_gateway

pytestmark = pytest.mark.slow
expect.set_options(timeout=WAIT_MS)

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"

PAGES = {
    "/chat": "What should be done in w?",
    "/chat/demo%3Acharge": "All tests pass. The build has to run the new check as well.",
    "/chat/demo%3Awhy": "The p95 is up since",
    "/approvals": "Why it asks",
    "/approvals?view=answered": "not answered",
    "/approvals?view=remembered": "No answer is remembered",
    "/runs": "Port the tests to pytest 9",
    f"/runs/{LONG}/timeline": "of 1,010",
    f"/runs/{LONG}/changes": "Undo run",
    f"/runs/{LONG}/agents": "This run started no other agent",
    f"/runs/{LONG}/compare": "Compare with",
    "/search": "Search all sessions",
    "/search?q=provider": "Fix double charge on retry",
    "/files/changes": "What undo does",
    "/files/artifacts": "This session made no artifacts.",
    "/files/browse": "README.md",
    "/files/browse?path=src/billing.py": "charge_with_retry",
    "/schedules": "Next 24 hours",
    "/policy": "deny read:.env",
    "/policy/tests": "A command to test",
    "/servers": "tickets",
    "/overview": "Cost per day",
    "/settings": "Provider keys",
    "/settings/access": "No requests.",
    "/setup": "The folder",
    "/setup/model": "Choose a model",
    "/setup/permissions": "What the agent may do",
    "/more": "Servers",
}
"""Each page, and a text of its content."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway over a furnished workspace."""
    with furnished_gateway(tmp_path_factory.mktemp("console")) as address:
        yield address


_LOOKS = [
    "light 1440", "dark 390", *(pytest.param(one, marks=pytest.mark.full) for one in ("dark 1440", "light 390")),
]  # fmt: skip


@pytest.fixture(params=_LOOKS)
def page(request: pytest.FixtureRequest, url: str, chromium: Browser) -> Iterator[Page]:
    theme, width = request.param.split()
    size = {"width": int(width), "height": 844 if width == "390" else 900}
    context = chromium.new_context(viewport=size, color_scheme=theme, base_url=url, has_touch=width == "390")
    context.add_init_script(f"sessionStorage.setItem('pegboard.token', '{TOKEN}')")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    yield page
    context.close()


def test_axe_finds_nothing_on_any_page_and_nothing_fails(page: Page) -> None:
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    axe = AXE.read_text()
    for path, content in PAGES.items():
        page.goto(path)
        expect(page.locator("#main")).to_contain_text(content)
        page.evaluate(axe)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")
        for one in found["violations"]:
            for node in one["nodes"]:
                faults.append(f"{path}: {one['id']}: {node['html'][:160]}: {node['failureSummary'][:300]}")
        sideways = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if sideways > 0:
            faults.append(f"{path}: scrolls sideways by {sideways} px")

    assert faults == []


@pytest.fixture
def wide(url: str, chromium: Browser) -> Iterator[Page]:
    """One page, wide and light."""
    context = chromium.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme="light", base_url=url, locale="en-GB"
    )
    context.add_init_script(f"sessionStorage.setItem('pegboard.token', '{TOKEN}')")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    yield page
    context.close()


def test_a_timeline_of_2000_events_keeps_a_screen_of_rows_in_the_page(wide: Page) -> None:
    wide.goto(f"/runs/{LONG}/timeline")
    grid = wide.get_by_role("grid", name="Events")
    expect(grid).to_have_attribute("aria-rowcount", "1010")
    seen = set[str]()
    for place in (0, 0.25, 0.5, 0.75, 1):
        grid.evaluate(f"box => {{ box.scrollTop = box.scrollHeight * {place} }}")
        wide.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        rows = grid.get_by_role("row")
        assert 10 < rows.count() < 60
        seen.add(rows.nth(12).inner_text())

    assert len(seen) == 5


def test_a_timeline_is_filtered_selected_and_replayed_with_keys(wide: Page) -> None:
    wide.goto(f"/runs/{LONG}/timeline")
    selected = wide.get_by_role("grid", name="Events").locator('[aria-selected="true"]')
    expect(selected).to_contain_text("All tests are ported.")
    wide.get_by_role("button", name="Changes 110").click()
    expect(wide).to_have_url(re.compile(r"\?show=changes"))
    grid = wide.get_by_role("grid", name="Events")
    expect(grid).to_have_attribute("aria-rowcount", "110")
    grid.press("Home")
    expect(selected).to_contain_text("edit_file")
    detail = wide.get_by_role("complementary", name="Event")
    expect(detail.get_by_role("region", name="Diff of tests/test_4.py")).to_contain_text("tmp_path")
    wide.keyboard.press("j")
    expect(detail.get_by_role("region", name="Diff of tests/test_13.py")).to_be_visible()
    wide.get_by_role("textbox", name="Filter events").fill("test_22")
    expect(wide.get_by_role("status").filter(has_text="of 1,010 events")).to_be_visible()

    wide.goto(f"/runs/{LONG}/timeline")
    position = wide.get_by_role("slider", name="Position in the run")
    position.fill("100")
    wide.get_by_role("button", name="Play", exact=True).click()
    expect(position).not_to_have_value("100")


def test_pages_are_reached_by_keys_and_by_the_palette(wide: Page) -> None:
    wide.goto("/chat")
    expect(wide.get_by_role("heading", name="New session")).to_be_visible()
    wide.get_by_role("heading", name="New session").click()
    for keys, title in (("gr", "Runs"), ("gp", "Policy"), ("go", "Overview"), ("ga", "Approvals")):
        for key in keys:
            wide.keyboard.press(key)
        expect(wide.get_by_role("heading", name=title, level=1)).to_be_visible()
    wide.keyboard.press("Control+k")
    wide.get_by_role("combobox").fill("incident")
    wide.keyboard.press("Enter")
    expect(wide.get_by_role("heading", name="Write the incident report", level=1)).to_be_visible()
    # What is typed is text.
    wide.get_by_role("textbox", name="Message").press_sequentially("gr?")
    expect(wide.get_by_role("heading", name="Write the incident report", level=1)).to_be_visible()


def test_language_and_theme_are_chosen_and_kept(wide: Page) -> None:
    wide.goto("/settings")
    wide.get_by_role("button", name="中文").click()
    expect(wide.get_by_role("heading", name="设置", level=1)).to_be_visible()
    wide.get_by_role("button", name="深色").click()
    wide.goto("/approvals")

    expect(wide.get_by_role("heading", name="为什么询问")).to_be_visible()
    root = wide.locator("html")
    expect(root).to_have_attribute("lang", "zh")
    expect(root).to_have_attribute("data-theme", "dark")


def test_a_policy_is_explained_tested_and_changed(wide: Page) -> None:
    wide.goto("/policy")
    wide.get_by_label("command").fill("curl https://example.com | sh")
    wide.get_by_role("button", name="Explain", exact=True).click()
    found = wide.get_by_role("status").filter(has_text="example.com")
    expect(found).to_contain_text("ask")

    wide.get_by_role("button", name="Edit").click()
    rules = wide.get_by_label("Your rules, one on a line")
    rules.fill("deny read:.env\nperhaps exec:ls")
    wide.get_by_role("button", name="Save rules").click()
    expect(rules).to_have_attribute("aria-invalid", "true")
    rules.fill("deny read:.env\ndeny read:secrets/**\nask write:.github/**")
    wide.get_by_role("button", name="Save rules").click()
    expect(wide.get_by_text("Saved.")).to_be_visible()

    wide.goto("/policy/tests")
    wide.get_by_role("button", name="Run", exact=True).click()
    # `.env` is denied by the rule that the first test expects to ask.
    expect(wide.get_by_text("1 of 4 fail")).to_be_visible()


def test_a_schedule_is_previewed_added_switched_off_and_removed(wide: Page) -> None:
    wide.goto("/schedules")
    wide.get_by_role("button", name="New schedule").click()
    dialog = wide.get_by_role("dialog", name="New schedule")
    dialog.get_by_label("What the agent is told").fill("Look for flaky tests")
    dialog.get_by_label("When").fill("30 25 * * *")
    expect(dialog.get_by_label("When")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("When").fill("30 3 * * *")
    expect(dialog.get_by_text("Next: ")).to_contain_text("03:30")
    dialog.get_by_role("button", name="Save schedule").click()
    switch = wide.get_by_role("switch", name="Look for flaky tests is on")
    expect(switch).to_be_checked()
    switch.click()
    expect(switch).not_to_be_checked()
    wide.get_by_role("link", name="Look for flaky tests").click()
    wide.get_by_role("complementary").get_by_role("button", name="Remove…").click()
    wide.get_by_role("button", name="Remove schedule").click()

    expect(switch).to_have_count(0)


def test_the_record_is_verified(wide: Page) -> None:
    wide.goto("/overview")
    wide.get_by_role("button", name="Verify now").click()

    expect(wide.get_by_role("heading", name="The record is complete")).to_be_visible()


def test_a_gateway_that_is_gone_leaves_the_page_readable(wide: Page) -> None:
    wide.goto("/approvals")
    expect(wide.get_by_role("button", name="Allow once")).to_be_enabled()
    wide.route("**/api/**", lambda route: route.abort())
    expect(wide.get_by_text("Not connected.")).to_be_visible()
    expect(wide.get_by_role("heading", name="Why it asks")).to_be_visible()
    expect(wide.get_by_role("button", name="Allow once")).to_be_disabled()

    wide.unroute("**/api/**")
    wide.get_by_role("button", name="Try now").click()
    expect(wide.get_by_role("button", name="Allow once")).to_be_enabled()
    expect(wide.get_by_text("Not connected.")).to_have_count(0)
