"""What a person does with a console beside a chat: files, models, search, comparison, access, and the canvas."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from tests.console.conftest import TOKEN, WAIT_MS, Console, Open, call, scripted
from tests.console.test_path import task
from tests.ledger import owes

PEER = Path(__file__).resolve().parents[1] / "mcp" / "peer.py"
pytestmark = pytest.mark.slow
expect.set_options(timeout=WAIT_MS)


@contextmanager
def client(console: Console) -> Iterator[httpx2.Client]:
    """The API, as another program of the owner uses it."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=console.url, headers=headers, trust_env=False, timeout=60) as one:
        yield one


def run(one: httpx2.Client, text: str, **more: Any) -> str:
    """Start a run and wait until it has ended; its id."""
    id: str = one.post("/api/runs", json={"task": text, **more}).json()["run"]
    with one.stream("GET", f"/api/runs/{id}/events") as events:
        for line in events.iter_lines():
            if '"type":"run.finished"' in line:
                break
    return id


def settings(home: Path, text: str) -> None:
    file = home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_file_goes_with_a_message_and_another_model_answers(console: Open, folder: Path) -> None:
    # The model reads the file where the message says that it is.
    model = scripted(folder, {"text": "I have seen it."})
    with console(model) as opened:
        page = opened.open("/chat")
        page.get_by_role("textbox", name="Message").fill("Look at the plan")
        page.locator("input[type=file]").set_input_files(
            [
                {"name": "plan.txt", "mimeType": "text/plain", "buffer": b"Monday: paint\n"},
                {"name": "wrong.txt", "mimeType": "text/plain", "buffer": b"x"},
            ]
        )
        page.get_by_role("button", name="Remove wrong.txt").click()
        page.get_by_role("button", name="Send").click()
        log = page.get_by_role("log")
        expect(log).to_contain_text("I have seen it.")
        expect(log).not_to_contain_text("<file")
        log.get_by_role("link", name="plan.txt").click()
        expect(page.get_by_text("Monday: paint")).to_be_visible()
        (kept,) = (folder / "received").rglob("*.txt")
        assert kept.read_bytes() == b"Monday: paint\n"

        page.go_back()
        page.get_by_role("combobox", name="Model").select_option("local")
        task(page, "And now?")
        expect(log.get_by_role("article", name="Agent")).to_have_count(2)
        with client(opened) as one:
            models = [row["model"] for row in one.get("/api/runs").json()["runs"]]
        assert len(models) == 2 and models[0] != models[1] and models[0] == "local"


def test_what_waits_appears_when_it_begins_to_wait_without_being_asked_for(
    console: Open, folder: Path
) -> None:
    edit = call("write_file", path="a.txt", content="one\n")
    with console(scripted(folder, {"calls": [edit]}, {"text": "Written."}), "--mode", "ask") as opened:
        page = opened.open("/approvals")
        expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        # Whoever asks from now on is told that nothing waits: only the WebSocket says otherwise.
        page.route("**/api/approvals", lambda route: route.fulfill(json={"approvals": []}))
        with client(opened) as one:
            one.post("/api/runs", json={"task": "Write it"})
        expect(page.get_by_role("button", name="Allow once")).to_be_visible()


def test_messages_of_all_sessions_are_searched(console: Open, folder: Path) -> None:
    with console(
        scripted(folder, {"text": "The otter lives at the lake."}, {"text": "No animals."})
    ) as opened:
        with client(opened) as one:
            run(one, "Where is it?", session="one")
            run(one, "Anything else?", session="two")
        page = opened.open("/chat")
        page.get_by_role("heading", name="New session").click()
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search or jump to").fill("lake OTTER")
        page.get_by_role("option", name="Search messages for “lake OTTER”").click()
        found = page.get_by_role("region", name="Where is it?")
        expect(found.get_by_role("listitem")).to_have_count(1)
        assert found.locator("mark").all_inner_texts() == ["otter", "lake"]
        page.get_by_role("textbox", name="Search messages").fill("giraffe")
        expect(page.get_by_text("No message matches “giraffe”.")).to_be_visible()
        expect(page).to_have_url(f"{opened.url}/search?q=giraffe")
        page.get_by_role("textbox", name="Search messages").fill("otter")
        page.get_by_role("link", name="Where is it?").last.click()
        expect(page.get_by_role("log")).to_contain_text("The otter lives at the lake.")


def test_two_runs_are_compared_and_one_is_replayed(console: Open, folder: Path) -> None:
    (folder / "a.txt").write_text("one\n")
    read = {"calls": [call("read_file", path="a.txt")]}
    with console(scripted(folder, read, {"text": "I have read it."})) as opened:
        with client(opened) as one:
            first = run(one, "What is in a.txt?")
            (folder / "a.txt").write_text("two\n")
            second = run(one, "What is in a.txt?")
        page = opened.open(f"/runs/{second}/timeline", viewport={"width": 1440, "height": 900})
        page.get_by_role("button", name="Replay").click()
        expect(page.get_by_text("The run comes out the same")).to_be_visible()
        page.get_by_role("link", name="Compare", exact=True).click()
        page.get_by_role("combobox", name="Compare with").select_option(first)
        diff = page.get_by_role("region", name="What they did differently").first
        expect(diff.locator("tr.del")).to_contain_text("two")
        expect(diff.locator("tr.add")).to_contain_text("one")
        expect(page.get_by_role("table").first).to_contain_text("scripted")
        expect(page).to_have_url(f"{opened.url}/runs/{second}/compare?with={first}")


def test_a_browser_asks_for_access_is_let_in_by_its_code_and_shut_out_again(
    console: Open, folder: Path
) -> None:
    with console() as opened:
        owner = opened.open("/settings/access")
        expect(owner.get_by_text("No requests.")).to_be_visible()
        guest = opened.context().new_page()
        guest.set_default_timeout(WAIT_MS)
        guest.goto(f"{opened.url}/chat")
        guest.get_by_role("button", name="I have no token").click()
        guest.get_by_label("Name of this browser").fill("Ann’s laptop")
        guest.get_by_role("button", name="Show a code").click()
        code = guest.locator(".pair-code code").inner_text()

        owner.get_by_role("row", name=code).get_by_role("button", name="Answer…").click()
        dialog = owner.get_by_role("dialog", name="Give Ann’s laptop access?")
        expect(dialog).to_contain_text(code)
        dialog.get_by_label("Role").select_option("viewer")
        dialog.get_by_role("button", name="The codes match").click()
        # A viewer may look, not write, and not decide who else may come in.
        expect(guest.get_by_text("You can look, not write")).to_be_visible()
        guest.goto(f"{opened.url}/settings/access")
        expect(guest.get_by_text("Only owners manage access")).to_be_visible()

        row = owner.get_by_role("region", name="Tokens").get_by_role("row").filter(has_text="ann-s-laptop")
        expect(row).to_contain_text("viewer")
        row.get_by_role("button").click()
        owner.get_by_role("button", name="Revoke token").click()
        expect(row).to_have_count(0)
        guest.goto(f"{opened.url}/runs")
        expect(guest.get_by_role("heading", name="Enter the token")).to_be_visible()


def test_a_token_is_made_shown_once_and_works(console: Open, folder: Path) -> None:
    with console() as opened:
        page = opened.open("/settings/access")
        page.get_by_role("button", name="New token").click()
        dialog = page.get_by_role("dialog", name="New token")
        dialog.get_by_label("Name").fill("Not a name!")
        dialog.get_by_role("button", name="Make token").click()
        expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
        dialog.get_by_label("Name").fill("ann")
        dialog.get_by_label("Role").select_option("operator")
        dialog.get_by_role("button", name="Make token").click()
        token = page.get_by_role("dialog", name="The token of ann").get_by_label("Token").input_value()
        page.get_by_role("button", name="Close", exact=True).click()
        expect(page.get_by_role("row", name="ann")).to_contain_text("operator")
        assert token not in page.content()
        # The refused name.
        assert [one for one in opened.faults if "400" not in one] == []
        opened.faults.clear()
        answer = httpx2.get(
            f"{opened.url}/api/me", headers={"Authorization": f"Bearer {token}"}, trust_env=False
        )
    assert answer.json()["name"] == "ann" and answer.json()["role"] == "operator"


@owes("X-48")
def test_a_page_of_an_agent_is_shown_asked_photographed_and_taken_away(
    console: Open, folder: Path, own_home: Path
) -> None:
    settings(own_home, 'tools = ["canvas", "nodes"]\nrules = ["allow control:node:** tool=canvas"]\n')
    html = (
        "<!doctype html><body style='background:#00f'><h1 id=t>Otter</h1><p id=stolen>no</p><script>"
        "try { parent.sessionStorage; stolen.textContent = 'yes' } catch { stolen.textContent = 'refused' }</script>"
    )
    with console() as opened, client(opened) as one:

        def canvas(**arguments: Any) -> dict[str, Any]:
            return one.post("/api/tools/canvas/call", json={"arguments": arguments}).json()

        page = opened.open("/overview", viewport={"width": 1440, "height": 900})
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        expect_canvas(one)
        nothing = canvas(action="eval", script="1")
        shown = canvas(action="present", html=html, title="Demo")
        panel = page.get_by_role("region", name="Canvas")
        expect(panel.get_by_role("heading")).to_have_text("Shown by an agent: Demo")
        frame = page.frame_locator("iframe[title='Page of an agent']")
        expect(frame.locator("#stolen")).to_have_text("refused")
        # It stays while the person goes to another page.
        page.get_by_role("link", name="Policy").first.click()
        value = canvas(action="eval", script="document.getElementById('t').textContent")
        picture = canvas(action="snapshot")
        panel.get_by_role("button", name="Close the canvas").click()
        gone = canvas(action="snapshot")
        canvas(action="present", html="<p>Again")
        expect(page.frame_locator("iframe[title='Page of an agent']").get_by_text("Again")).to_be_visible()
        hidden = canvas(action="hide")
        expect(panel).to_have_count(0)

    assert "nothing is shown" in nothing["error"]["message"] and shown["ok"]
    assert value["data"]["value"] == "Otter"
    assert picture["data"]["mime_type"] == "image/png" and picture["data"]["bytes"] > 500
    assert "nothing is shown" in gone["error"]["message"] and hidden["ok"]


def expect_canvas(one: httpx2.Client) -> None:
    """The console has offered its canvas."""
    for _ in range(600):
        listed = one.post("/api/tools/nodes/call", json={"arguments": {"action": "list"}}).json()
        if "console" in json.dumps(listed):
            return
    raise AssertionError(listed)


def test_always_with_an_expiry_is_remembered_until_then(console: Open, folder: Path) -> None:
    turns = [{"calls": [call("write_file", path="a.txt", content=f"{n}\n")]} for n in (1, 2)]
    with console(scripted(folder, *turns, {"text": "Both are written."}), "--mode", "ask") as opened:
        page = opened.open("/chat")
        task(page, "Write twice")
        page.get_by_role("link", name="Review").click()
        page.get_by_text("Always…").click()
        panel = page.get_by_role("group").filter(has_text="Always…")
        panel.get_by_role("combobox", name="For").select_option("2 hours")
        panel.get_by_role("combobox", name="At most").select_option("5 uses")
        page.get_by_role("button", name="Allow always").click()
        expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        page.goto(f"{opened.url}/approvals?view=remembered")
        row = page.get_by_role("row").filter(has_text="write_file")
        expect(row).to_contain_text("always")
        with client(opened) as one:
            (grant,) = one.get("/api/policy").json()["grants"]
            started = one.get("/api/runs").json()["runs"][0]["started"]
        assert 7100 < grant["expires"] - started < 7400
        # One of five was the first call itself, or the second has used one.
        assert grant["uses"] in (3, 4)
        row.get_by_role("button", name="Take back").click()
        expect(page.get_by_role("heading", name="No answer is remembered")).to_be_visible()


def test_an_artifact_is_shown_with_its_versions_and_what_changed(
    console: Open, folder: Path, own_home: Path
) -> None:
    settings(own_home, 'tools = ["create_artifact", "update_artifact"]\n')
    model = scripted(
        folder,
        {"calls": [call("create_artifact", id="plan", title="The plan", content="# Plan\n\nMonday\n")]},
        {"calls": [call("update_artifact", id="plan", old_str="Monday", new_str="Tuesday")]},
        {"text": "The plan is made."},
    )
    with console(model) as opened:
        with client(opened) as one:
            run(one, "Plan the week", session="plans")
        page = opened.open("/files/artifacts?session=plans")
        page.get_by_role("link", name="The plan").click()
        content = page.get_by_label("Content", exact=True)
        expect(content).to_contain_text("Tuesday")
        page.get_by_role("button", name="Changes", exact=True).click()
        diff = page.get_by_role("region", name="Diff of The plan")
        expect(diff.locator("del")).to_contain_text("Mon")
        page.get_by_label("Version").select_option("1")
        expect(content).to_contain_text("Monday")


def test_subagents_stand_as_a_tree_and_lead_to_their_runs(
    console: Open, folder: Path, own_home: Path
) -> None:
    settings(own_home, 'tools = ["call_subagent"]\n')
    model = scripted(
        folder,
        {"calls": [call("call_subagent", agent_name="general", instruction="Count the files")]},
        {"text": "There are 3 files."},
        {"text": "The helper counted 3 files."},
    )
    with console(model, "--mode", "full") as opened:
        with client(opened) as one:
            main = run(one, "How many files?")
        page = opened.open(f"/runs/{main}/agents")
        tree = page.get_by_role("main").get_by_role("list").filter(has_text="main")
        expect(tree.first).to_contain_text("Done")
        page.get_by_role("link", name="general").click()
        expect(page.get_by_role("heading", name="Count the files")).to_be_visible()
        expect(page.get_by_role("grid", name="Events")).to_contain_text("There are 3 files.")


def test_a_changed_server_is_blocked_until_its_new_text_is_accepted(
    console: Open, folder: Path, own_home: Path
) -> None:
    def write(description: str) -> None:
        setup = {"tools": [{"name": "t", "description": description, "inputSchema": {"type": "object"}}]}
        settings(
            own_home,
            f"[mcpServers.s]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(PEER), json.dumps(setup)])}\n",
        )

    write("Tells the weather.")
    with console() as opened, client(opened) as one:
        one.post("/api/servers/s/test")
        one.post("/api/servers/s/accept")
        write("Does something else.")
        page = opened.open("/servers")
        page.get_by_role("group").filter(has_text="s").first.locator("summary").first.click()
        page.get_by_role("button", name="Test").click()
        expect(page.get_by_text("1 tool changed, blocked")).to_be_visible()
        expect(page.get_by_role("region", name="Diff of").first).to_contain_text("Does something else.")
        page.get_by_role("button", name="Accept the new text…").click()
        page.get_by_role("dialog").get_by_role("button", name="Accept the new text").click()
        expect(page.get_by_text("Answers", exact=True)).to_be_visible()
        (server,) = one.get("/api/servers").json()["servers"]
    assert server["changed"] == [] and server["pinned"] == ["t"]


def test_a_run_is_stopped_and_what_it_ran_ends(console: Open, folder: Path) -> None:
    model = scripted(folder, {"calls": [call("exec", command="sleep 300; touch ended", yield_ms=300_000)]})
    with console(model, "--mode", "full") as opened:
        page = opened.open("/chat")
        task(page, "Wait for long")
        expect(page.get_by_role("log").locator("summary", has_text="exec")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("log").get_by_role("heading", name="Stopped")).to_be_visible()
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        with client(opened) as one:
            (row,) = one.get("/api/runs").json()["runs"]
    assert row["status"] == "cancelled" and not (folder / "ended").exists()


def test_the_set_up_is_saved_and_says_which_keys_are_set(
    console: Open, folder: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key-0123456789abcdef")
    with console() as opened:
        page = opened.open("/setup")
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("radio", name="Anthropic").check()
        expect(page.get_by_text("Set ANTHROPIC_API_KEY where pegboard serve runs")).to_be_visible()
        page.get_by_role("radio", name="OpenAI").check()
        expect(page.get_by_text("The key is set in OPENAI_API_KEY.")).to_be_visible()
        assert "0123456789abcdef" not in page.content()
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("radio", name="read-only").check()
        page.get_by_role("button", name="Open the console").click()
        expect(page.get_by_text("It changes nothing.")).to_be_visible()
    written = (own_home / ".config" / "pegboard" / "pegboard.toml").read_text()
    assert 'mode = "read-only"' in written and 'model = "openai:' in written


def test_budgets_stand_beside_the_usage(console: Open, folder: Path, own_home: Path) -> None:
    settings(own_home, '[budgets.reads]\nper = "day"\ncalls = 4\ntool = "read_file"\n')
    (folder / "a.txt").write_text("one\n")
    read = call("read_file", path="a.txt")
    with console(scripted(folder, {"calls": [read, read]}, {"text": "Read."})) as opened:
        with client(opened) as one:
            run(one, "Read it twice")
        page = opened.open("/overview")
        meter = page.get_by_role("region", name="Budgets").get_by_role("meter")
        expect(meter).to_have_attribute("aria-valuenow", "50")
        expect(page.get_by_role("region", name="Budgets")).to_contain_text("2 calls of 4 calls")
