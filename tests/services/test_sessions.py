"""The list of sessions, their history, and what is done with whole sessions."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.errors import ConfigError, PermissionDenied
from pegboard.core.events import ContextCompacted, UserSaid
from pegboard.core.policy.approval import AllowOnce, SuspendAll
from pegboard.core.transcript import UserMessage
from pegboard.ports.messages import InboundMessage
from pegboard.ports.store import Rows
from pegboard.runtime.fold import fold
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import element
from pegboard.store.inbox import Inbox
from pegboard.store.session_rows import COUNTED
from tests.ledger import owes

YES = Interaction(approver=AllowOnce())
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def app(tmp_path: Path, own_home: Path) -> Iterator[App]:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("one\n")
    with App.open(workspace=tmp_path / "w") as opened:
        yield opened


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


async def say(app: App, session: str, text: str, *turns: dict[str, Any], who: Interaction = YES) -> None:
    file = app.workspace.parent / "turns.jsonl"
    file.write_text("\n".join(json.dumps(t) for t in turns or ({"text": f"Answer to {text}"},)))
    async with app.sessions.open(session, who, model=f"scripted:{file}") as talk:
        async for _ in talk.send(text):
            pass


async def counted(app: App, session: str) -> int:
    return len(await app.store.read(session, types=COUNTED, bodies=False))


# -- the list ---------------------------------------------------------------------------------


@owes("M-12", "M-13")
async def test_the_list_has_what_each_session_holds_and_the_last_used_first(app: App) -> None:
    await say(app, "telegram:user:1", "Hello", calls("read_file", path="a.txt"), {"text": "It says one."})
    await say(app, "release", "Ship it")
    await say(app, "telegram:user:1", "And now?")
    await app.sessions.rename("release", "rel")
    async with app.executor(session="cli"):
        pass

    first, second = await app.sessions.rows()

    assert (first.key, first.messages, first.task, first.status) == ("telegram:user:1", 5, "Hello", "idle")
    assert (second.key, second.messages, second.label) == ("release", 2, "rel")
    assert first.last_active >= second.last_active >= second.created > 0
    assert first.messages == await counted(app, "telegram:user:1")


@owes("agents-03")
async def test_messages_that_nobody_has_read_are_listed_with_or_without_a_session(app: App) -> None:
    await say(app, "release", "Ship it")
    await Inbox(app.store).add(InboundMessage(session="release", content="One", id="1", by="subagent"))
    await Inbox(app.store).add(InboundMessage(session="cron:job:7", content="Two", id="2", by="subagent"))

    rows = {row.key: row for row in await app.sessions.rows()}

    assert (rows["release"].waiting, rows["cron:job:7"].waiting) == (1, 1)
    assert rows["cron:job:7"].task == "Two"


async def test_sessions_of_before_there_was_a_list_are_in_it(app: App) -> None:
    await say(app, "old", "Hello", calls("read_file", path="a.txt"), {"text": "It says one."})
    for table in ("sessions", "session_rows"):
        await app.store.delete(Rows(table))
    await say(app, "new", "Hello")

    rows = {row.key: row for row in await app.sessions.rows()}

    assert (rows["old"].messages, rows["old"].task) == (3, "Hello")
    assert rows["old"].created > 0
    await say(app, "old", "Again")
    assert {row.key: row.messages for row in await app.sessions.rows()}["old"] == 5


async def test_a_session_whose_process_was_killed_is_listed_with_all_its_messages(
    app: App, tmp_path: Path
) -> None:
    program = tmp_path / "killed.py"
    program.write_text(
        "import os, signal\n"
        "from pegboard import PURE, Agent, tool\n"
        "from pegboard.models import ScriptedModel\n"
        "@tool(effects=PURE)\n"
        "def die() -> str:\n"
        '    """Die."""\n'
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "turns = [{'text': 'Wait.', 'calls': [{'name': 'die'}]}]\n"
        "Agent(tools=[die], model=ScriptedModel(turns)).run_sync('Go', session='s')\n"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, str(program)], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL

    (row,) = await app.sessions.rows()

    assert (row.key, row.status, row.messages) == ("s", "interrupted", await counted(app, "s"))
    assert row.messages >= 1


# -- history ----------------------------------------------------------------------------------


@owes("M-19", "K-72")
async def test_history_has_no_secrets_cuts_long_texts_and_names_whole_results(app: App) -> None:
    (app.workspace / "big.txt").write_text("a long line of text\n" * 20_000)
    await say(app, "s", "Read it", calls("exec", command="cat big.txt"), {"text": "It is long."})
    async with app.history.open_session("s") as opened:
        # As written by a version that did not know it for a secret.
        opened.log._redact = None  # pyright: ignore[reportPrivateUsage]
        opened.log.record(UserSaid(UserMessage.of(f"My token is {TOKEN}")))

    history = await app.sessions.messages("s", limit=3)

    assert TOKEN in str(await app.history.events("s"))
    result, said, told = history.entries
    assert (result.role, result.by, said.text) == ("tool", "exec", "It is long.")
    assert result.spill.startswith("spill:") and len(result.text) < 2500
    assert TOKEN not in told.text and "[redacted:" in told.text
    assert history.total == 4
    found = await app.sessions.search("token")
    assert len(found) == 1 and TOKEN not in found[0].text
    assert await app.sessions.search(TOKEN[4:12]) == [] or TOKEN not in str(
        await app.sessions.search(TOKEN[4:12])
    )


@owes("K-72")
async def test_a_search_finds_messages_of_all_sessions_that_have_all_words(app: App) -> None:
    await say(app, "a", "Where is the red house?", {"text": "By the river."})
    await say(app, "b", "A red boat on a RIVER")

    assert [(e.session, e.role) for e in await app.sessions.search("river")] == [
        ("b", "user"),
        ("b", "assistant"),
        ("a", "assistant"),
    ]
    assert [e.session for e in await app.sessions.search("red house")] == ["a"]
    assert await app.sessions.search("  ") == []
    assert len(await app.sessions.search("river", limit=1)) == 1


# -- whole sessions ---------------------------------------------------------------------------


async def test_a_branch_has_what_happened_before_and_goes_its_own_way(app: App) -> None:
    await say(app, "s", "First", calls("read_file", path="a.txt"), {"text": "It says one."})
    first = (await app.runs.list())[0].id
    await say(app, "s", "Second")

    assert await app.sessions.branch("s", "trial", at=first) == 1
    assert await app.sessions.branch("s", "whole") == 2

    before = fold(await app.history.events("s")).messages
    assert fold(await app.history.events("trial")).messages == before[:4]
    assert fold(await app.history.events("whole")).messages == before
    await say(app, "trial", "Third")
    assert fold(await app.history.events("s")).messages == before
    assert [r.stream for r in await app.history.runs(session="s")] == ["s", "s"]
    rows = {row.key: row for row in await app.sessions.rows()}
    assert (rows["trial"].branched_from, rows["trial"].messages) == ("s", 5)
    assert all(not faults for faults in (await app.audit.verify()).values())
    for row in await app.runs.list():
        assert (await app.runs.replay(row)).whole
    assert (await app.usage.report(3600)).runs == 3


async def test_a_branch_and_a_history_leave_out_what_was_taken_back(app: App) -> None:
    await say(app, "s", "First")
    await say(app, "s", "Second")
    second = (await app.runs.list())[0].id
    async with app.sessions.open("s", model=f"scripted:{app.workspace.parent / 'turns.jsonl'}") as talk:
        await talk.rewind(second)

    assert await app.sessions.branch("s", "trial") == 1

    for session in ("s", "trial"):
        assert [e.text for e in (await app.sessions.messages(session)).entries] == [
            "First",
            "Answer to First",
        ]


async def test_a_branch_needs_a_run_that_has_ended_and_a_new_key(app: App) -> None:
    ask = calls("exec", command="curl -s https://example.com")
    await say(app, "s", "Fetch", ask, who=Interaction(approver=SuspendAll()))
    with pytest.raises(ConfigError, match="has ended, so there is nothing to branch from"):
        await app.sessions.branch("s", "trial")
    await say(app, "t", "Hello")
    with pytest.raises(ConfigError, match="'s' exists"):
        await app.sessions.branch("t", "s")
    with pytest.raises(ConfigError, match="no run 'run_x' of session 't'"):
        await app.sessions.branch("t", "trial", at="run_x")
    with pytest.raises(ConfigError, match="control characters"):
        await app.sessions.branch("t", "tri\x1fal")


@owes("K-73")
async def test_compaction_says_what_it_left_out_and_the_stream_keeps_it(app: App) -> None:
    (app.workspace / "big.txt").write_text("a long line of text\n" * 400)
    for number in range(6):
        await say(app, "s", f"Read {number}", calls("read_file", path="big.txt"), {"text": "Read."})
    before = await app.history.events("s")

    done = await app.sessions.compact("s")

    assert done is not None and done.after_tokens < done.before_tokens and done.dropped
    after = await app.history.events("s")
    assert after[:-1] == before and isinstance(after[-1], ContextCompacted)
    history = await app.sessions.messages("s")
    assert history.dropped == done.dropped and history.total == 18
    await say(app, "s", "Go on")
    assert (await app.audit.verify())["s"] == []


@pytest.mark.parametrize(("status", "shortened"), [(0, True), (2, False)])
async def test_a_hook_sees_and_may_refuse_that_a_session_is_shortened(
    tmp_path: Path, own_home: Path, status: int, shortened: bool
) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    hook = {"type": "command", "command": f"cat >> {folder}/seen.txt; echo not now >&2; exit {status}"}
    home = own_home / ".config/pegboard"
    home.mkdir(parents=True, exist_ok=True)
    settings = {"hooks": {"PreCompact": [{"matcher": "manual", "hooks": [hook]}]}}
    (home / "hooks.json").write_text(json.dumps(settings))
    with App.open(workspace=folder) as app:
        await say(app, "s", "Hello")

        if shortened:
            assert await app.sessions.compact("s") is not None
        else:
            with pytest.raises(PermissionDenied, match="refused to shorten the conversation: not now"):
                await app.sessions.compact("s")

        kept = [e for e in await app.history.events("s") if isinstance(e, ContextCompacted)]
    assert bool(kept) == shortened
    assert json.loads((folder / "seen.txt").read_text())["trigger"] == "manual"


async def test_one_process_at_a_time_compacts_a_session(app: App) -> None:
    await say(app, "s", "Hello")
    async with app.history.open_session("s"):
        with pytest.raises(ConfigError, match="is using session 's'"):
            await app.sessions.compact("s")


async def test_a_deleted_session_has_no_content_and_its_records_are_still_proved(app: App) -> None:
    await say(app, "s", "My secret plan")
    await Inbox(app.store).add(InboundMessage(session="s", content="Waits", id="1"))

    await app.sessions.delete("s")

    assert await app.sessions.rows() == []
    assert "secret plan" not in str(await app.history.events("s"))
    assert "secret plan" not in str(await app.history.runs())
    assert await app.sessions.search("plan") == []
    assert await Inbox(app.store).all() == []
    assert (await app.audit.verify())["s"] == []
    await say(app, "s", "A new beginning")
    (row,) = await app.sessions.rows()
    assert (row.task, row.messages) == ("A new beginning", 2)


async def test_a_session_that_waits_for_a_person_is_not_deleted(app: App) -> None:
    ask = calls("exec", command="curl -s https://example.com")
    await say(app, "s", "Fetch", ask, who=Interaction(approver=SuspendAll()))

    with pytest.raises(ConfigError, match="is suspended; end it first"):
        await app.sessions.delete("s")


async def test_a_label_is_one_session_s(app: App) -> None:
    await say(app, "a", "Hello")
    await say(app, "b", "Hello")
    await app.sessions.rename("a", "home")
    with pytest.raises(ConfigError, match="the session a has the label 'Home'"):
        await app.sessions.rename("b", "Home")
    assert (await app.sessions.find("@HOME")).key == "a"
    await app.sessions.rename("a", "")
    await app.sessions.rename("b", "home")
    assert (await app.sessions.find("home")).key == "b"


def test_text_of_others_cannot_end_the_element_that_holds_it() -> None:
    text = "a </note> b </NOTE > c < / note d </notes> e <note>"

    assert element("note", text, by='x">\n</note>') == (
        "<note by='x\"&gt;&#10;&lt;/note&gt;'>\n"
        "a <\\/note> b <\\/NOTE > c <\\ / note d <\\/notes> e <note>\n</note>"
    )
