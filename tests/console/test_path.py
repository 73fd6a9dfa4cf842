"""From a task to an approved edit and its undo, as a person does it in the browser."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import TOKEN, WAIT_MS, Open, call, scripted
from tests.ledger import owes

pytestmark = pytest.mark.slow
expect.set_options(timeout=WAIT_MS)

BEFORE = "def total(prices):\n    return sum(prices) * 1.19\n"
AFTER = "def total(prices, tax=0.19):\n    return sum(prices) * (1 + tax)\n"
EDIT = call("edit_file", path="shop.py", old_string=BEFORE, new_string=AFTER)


def task(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send").click()


@owes("K-27", "K-29")
def test_a_person_goes_from_the_token_to_an_approved_edit_and_its_undo(console: Open, folder: Path) -> None:
    (folder / "shop.py").write_text(BEFORE)
    model = scripted(
        folder,
        {"text": "I read the file.", "calls": [call("read_file", path="shop.py")]},
        {"text": "The tax becomes an argument.", "calls": [EDIT]},
        {"text": "The tax is an argument of `total` now."},
    )
    with console(model, "--mode", "ask") as opened:
        page = opened.context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(f"{opened.url}/")

        # The token of the address is taken once and leaves it.
        expect(page.get_by_role("heading", name="Enter the token")).to_be_visible()
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Open the console").click()
        expect(page.get_by_text("does not know this token")).to_be_visible()
        page.goto(f"{opened.url}/chat#token={TOKEN}")
        page.reload()
        expect(page.get_by_role("heading", name="New session")).to_be_visible()
        assert TOKEN not in page.url

        task(page, "Make the tax an argument.")
        expect(page.get_by_text("I read the file.")).to_be_visible()
        expect(page.get_by_role("log").locator("summary", has_text="read_file")).to_be_visible()

        # What will happen stands before the answer: effect, verdict, reason and diff.
        ask = page.get_by_role("alert").filter(has_text="edit_file")
        expect(ask).to_contain_text("write")
        expect(ask.get_by_role("region", name="Diff of shop.py")).to_contain_text(
            "def total(prices, tax=0.19):"
        )
        assert (folder / "shop.py").read_text() == BEFORE
        expect(page).to_have_title("(1) Make the tax an argument. · Pegboard")

        page.get_by_role("link", name="Review").click()
        expect(page.get_by_role("heading", name="Why it asks")).to_be_visible()
        expect(page.get_by_role("region", name="Diff of shop.py")).to_be_visible()
        page.get_by_role("button", name="Allow once").click()
        expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()

        page.get_by_role("navigation", name="Sessions").get_by_role("link", name="Make the tax").click()
        expect(page.get_by_text("is an argument of total now")).to_be_visible()
        assert (folder / "shop.py").read_text() == AFTER
        expect(page.get_by_role("log")).to_contain_text("Allowed by owner. You can undo this.")

        page.get_by_role("log").get_by_role("button", name="Undo").click()
        dialog = page.get_by_role("dialog", name="Undo 1 change?")
        expect(dialog.get_by_role("region", name="Diff of shop.py")).to_contain_text("1.19")
        assert (folder / "shop.py").read_text() == AFTER
        dialog.get_by_role("button", name="Undo 1 change").click()
        expect(page.get_by_role("log").get_by_text("Undone", exact=True)).to_be_visible()
        assert (folder / "shop.py").read_text() == BEFORE

        page.get_by_role("button", name="Redo").click()
        expect(page.get_by_role("log").get_by_role("button", name="Undo")).to_be_visible()
        assert (folder / "shop.py").read_text() == AFTER


def test_a_denied_call_changes_nothing_and_the_agent_reads_the_reason(console: Open, folder: Path) -> None:
    (folder / "shop.py").write_text(BEFORE)
    model = scripted(folder, {"calls": [EDIT]}, {"text": "Then I leave it."})
    with console(model, "--mode", "ask") as opened:
        page = opened.open("/chat")
        task(page, "Make the tax an argument.")
        page.get_by_role("link", name="Review").click()
        page.get_by_label("Reason for the agent").fill("The tax is fixed by law")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        page.go_back()

        expect(page.get_by_text("Then I leave it.")).to_be_visible()
        page.get_by_role("log").locator("summary", has_text="edit_file").click()
        expect(page.get_by_role("log")).to_contain_text("The tax is fixed by law")
        assert (folder / "shop.py").read_text() == BEFORE


@pytest.mark.parametrize(("key", "scope"), [("r", "run"), ("s", "session")])
def test_a_key_allows_for_longer_so_that_the_second_call_does_not_ask(
    console: Open, folder: Path, key: str, scope: str
) -> None:
    turns = [{"calls": [call("write_file", path="a.txt", content=f"{n}\n")]} for n in (1, 2)]
    with console(scripted(folder, *turns, {"text": "Both are written."}), "--mode", "ask") as opened:
        page = opened.open("/chat")
        task(page, "Write twice")
        page.get_by_role("link", name="Review").click()
        expect(page.get_by_role("button", name="Allow once")).to_be_visible()
        # It answers only what has been in view for 0.7 s, so that typing on never says yes.
        page.clock.set_fixed_time(datetime(2030, 1, 1))
        page.reload()
        expect(page.get_by_role("button", name="Allow once")).to_be_visible()
        page.keyboard.press(key)
        expect(page.get_by_role("button", name="Allow once")).to_be_enabled()
        page.clock.set_fixed_time(datetime(2030, 1, 1, 0, 0, 1))
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        page.go_back()

        expect(page.get_by_text("Both are written.")).to_be_visible()
        assert (folder / "a.txt").read_text() == "2\n"
        if scope == "session":
            page.goto(f"{opened.url}/approvals?view=remembered")
            expect(page.get_by_role("cell", name="session", exact=True)).to_be_visible()
            page.get_by_role("button", name="Take back").click()
            expect(page.get_by_role("heading", name="No answer is remembered")).to_be_visible()


def test_a_question_of_the_agent_is_answered_in_the_chat(console: Open, folder: Path) -> None:
    model = scripted(folder, {"calls": [call("ask_user", question="Which colour?")]}, {"text": "Blue it is."})
    with console(model) as opened:
        page = opened.open("/chat")
        task(page, "Paint the button")
        ask = page.get_by_role("alert").filter(has_text="Which colour?")
        ask.get_by_label("Your answer").fill("Blue")
        ask.get_by_role("button", name="Send answer").click()

        expect(page.get_by_text("Blue it is.")).to_be_visible()


def test_a_message_to_a_session_starts_its_next_run(console: Open, folder: Path) -> None:
    with console(scripted(folder, {"text": "First."})) as opened:
        page = opened.open("/chat")
        task(page, "Say something")
        expect(page.get_by_role("log")).to_contain_text("First.")
        task(page, "And again")

        expect(page.get_by_role("log")).to_contain_text("And again")
        expect(page.get_by_role("log").get_by_role("article", name="Agent")).to_have_count(2)
        # The console opens with the last session.
        page.goto(opened.url)
        expect(page.get_by_role("log")).to_contain_text("And again")


def test_html_of_a_model_is_text(console: Open, folder: Path) -> None:
    evil = (
        "<img src=x onerror=\"document.title='owned'\"> [go](javascript:alert(1)) [web](https://example.com/)"
    )
    with console(scripted(folder, {"text": evil})) as opened:
        page = opened.open("/chat")
        task(page, "Be evil")
        log = page.get_by_role("log")
        expect(log).to_contain_text("<img src=x")

        assert log.locator("img").count() == 0
        assert [link.get_attribute("href") for link in log.get_by_role("link").all()] == [
            "https://example.com/"
        ]
