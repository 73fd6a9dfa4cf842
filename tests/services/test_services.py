"""The use cases without a face: what a gateway or another program calls; nothing is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.errors import BuildError, ConfigError, PegboardError
from pegboard.core.events import CallStarted, RunFinished
from pegboard.core.limits import SystemClock
from pegboard.core.policy.approval import AllowOnce, Approved, DenyAll, Refused, SuspendAll
from pegboard.services.retention import Retention
from pegboard.services.runtime import Interaction
from pegboard.services.settings import TrustedFiles

YES = Interaction(approver=AllowOnce())
LATER = Interaction(approver=SuspendAll())
DAY_S = 86_400.0


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("one\n")
    return tmp_path / "w"


@pytest.fixture
def app(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[App]:
    with App.open(workspace=folder) as opened:
        yield opened
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def script(folder: Path, *turns: dict[str, Any]) -> str:
    file = folder.parent / "turns.jsonl"
    file.write_text("\n".join(json.dumps(t) for t in turns))
    return f"scripted:{file}"


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


class At(SystemClock):
    """A clock that stands."""

    def __init__(self, now: float) -> None:
        self._at = now

    def now(self) -> float:
        return self._at


# -- calls and undo ---------------------------------------------------------------------------


async def test_a_call_is_previewed_carried_out_and_undone(app: App, folder: Path) -> None:
    arguments = {"path": "a.txt", "content": "two\n"}

    preview = await app.calls.preview("write_file", arguments)
    assert (preview.decision, (folder / "a.txt").read_text()) == ("allow", "one\n")

    outcome = await app.calls.call("write_file", arguments)
    assert (outcome.decision, (folder / "a.txt").read_text()) == ("allow", "two\n")
    assert [(e["kind"], e["target"]) for e in outcome.effects] == [("write", "a.txt")]

    [entry] = await app.undo.entries()
    assert (entry.holds, entry.entry.origin.run) == (True, outcome.run)
    report = await app.undo.undo(outcome.run)
    assert (report.applied, (folder / "a.txt").read_text()) == (True, "one\n")


async def test_a_call_that_asks_is_denied_where_nobody_answers_and_done_where_somebody_does(
    folder: Path,
) -> None:
    with App.open(workspace=folder, mode="ask") as app:
        refused = await app.calls.call("write_file", {"path": "a.txt", "content": "x"})
        done = await app.calls.call("write_file", {"path": "a.txt", "content": "x"}, YES)

    assert (refused.decision, refused.result.ok) == ("deny", False)
    assert (done.decision, done.result.ok, done.approver) == ("ask", True, "--yes")


# -- runs and sessions ------------------------------------------------------------------------


async def test_a_run_is_started_listed_shown_replayed_and_compared(app: App, folder: Path) -> None:
    model = script(folder, calls("read_file", path="a.txt"), {"text": "it says one"})

    events = [e async for e in app.runs.start("read it", session="s", model=model)]
    assert isinstance(events[-1], RunFinished)
    assert (events[-1].status, events[-1].answer) == ("done", "it says one")

    [row] = await app.runs.list()
    assert (row.id, row.status, row.task, row.stream) == (events[-1].run, "done", "read it", "s")
    assert (await app.runs.get(row.id[:8])) == row
    kept = [e.type async for e in app.runs.events(row)]
    assert kept == [e.type for e in events if e.type in kept]

    replayed = await app.runs.replay(row)
    assert (replayed.whole, replayed.events, replayed.planned) == (True, len(kept), 1)
    assert (await app.runs.compare_now(row)).diff == ()
    assert (await app.runs.compare(row, row)).diff == ()
    assert "def test_" in (await app.runs.export_pytest(row)).source


async def test_a_session_goes_on_where_it_was_and_is_shortened(app: App, folder: Path) -> None:
    first = script(folder, {"text": "hello"})
    assert [e.type async for e in app.runs.start("hi", session="s", model=first)][-1] == "run.finished"

    async with app.sessions.open("s", model=script(folder, {"text": "again"})) as talk:
        assert sum(e.type == "message.user" for e in talk.earlier()) == 1
        last = [e async for e in talk.send("and now?")][-1]
        assert isinstance(last, RunFinished) and last.answer == "again"
        assert [row.status for row in await talk.runs()] == ["done", "done"]
        shortened = await talk.compact()
        assert shortened is not None and shortened.after_tokens <= shortened.before_tokens

    assert await app.sessions.list() == ["s"]
    assert (await app.sessions.history("s"))[-1].type == shortened.type


async def test_a_suspended_run_waits_is_answered_and_goes_on(folder: Path, own_home: Path) -> None:
    model = script(folder, calls("write_file", path="a.txt", content="two\n"), {"text": "done"})
    with App.open(workspace=folder, mode="ask") as app:
        last = [e async for e in app.runs.start("change it", LATER, session="s", model=model)][-1]
        assert isinstance(last, RunFinished) and last.status == "suspended"
        row = await app.runs.get(last.run)

        [call] = await app.approvals.pending(row.id)
        assert (call.kind, call.tool, call.answer) == ("approval", "write_file", "")
        assert await app.runs.unfinished() == []
        nobody = Interaction(approver=DenyAll("nobody is here"))
        assert await app.runs.waits_for(row, nobody) == [call]
        with pytest.raises(ConfigError, match="approve or deny"):
            await app.approvals.answer(call.key, "a text")

        await app.approvals.answer(call.key, Approved(by="a test"))
        assert [r.id for r in await app.runs.unfinished()] == [row.id]
        end = [e async for e in app.runs.resume(row, nobody, model=model)][-1]

        assert isinstance(end, RunFinished) and end.status == "done"
        assert (folder / "a.txt").read_text() == "two\n"
        assert await app.approvals.pending() == []


async def test_a_run_is_resumed_only_where_it_worked(app: App, folder: Path, tmp_path: Path) -> None:
    model = script(folder, {"text": "done"})
    last = [e async for e in app.runs.start("go", session="s", model=model)][-1]
    assert isinstance(last, RunFinished)
    (tmp_path / "other").mkdir()

    with app.at(tmp_path / "other") as other, pytest.raises(BuildError, match=str(folder)):
        [e async for e in other.runs.resume(await other.runs.get(last.run), model=model)]


# -- policies ---------------------------------------------------------------------------------


async def test_the_policy_is_explained_tested_compared_and_looked_through(app: App, folder: Path) -> None:
    await app.calls.call("read_file", {"path": "a.txt"})
    (folder / "rules.txt").write_text("deny read:*\nallow read:notes\n")
    (folder / "cases.toml").write_text(
        '[[case]]\ntool = "read_file"\narguments = {path = "a.txt"}\nexpect = "deny"\n'
    )
    with App.open(workspace=folder, policy=folder / "rules.txt") as strict:
        explained = await strict.policies.explain("read_file", {"path": "a.txt"})
        cases = await strict.policies.test(folder / "cases.toml")
        changed = await strict.policies.diff(DAY_S)
        report = await strict.policies.lint()

    assert (explained["decision"], explained["rule"]) == ("deny", "deny read:*")
    assert [(c["got"], c["ok"]) for c in cases] == [("deny", True)]
    assert [(c["tool"], c["before"], c["now"]) for c in changed] == [("read_file", "allow", "deny")]
    assert (report.rules, [f.kind for f in report.findings]) == (2, ["unreachable"])


# -- what was done ----------------------------------------------------------------------------


async def test_the_history_is_verified_exported_and_checked(app: App, tmp_path: Path) -> None:
    await app.calls.call("read_file", {"path": "a.txt"})

    assert await app.audit.verify() == {"cli": []}
    lines = [json.loads(line) async for line in app.audit.lines("cli")]
    key = await app.audit.export(tmp_path / "export.jsonl")
    checked = await app.audit.check(tmp_path / "export.jsonl")

    assert (checked.records, checked.signer, checked.this_machine) == (len(lines), key, True)
    assert checked.faults == ()
    damaged = (tmp_path / "export.jsonl").read_text().replace("call.finished", "call.started", 1)
    (tmp_path / "damaged.jsonl").write_text(damaged)
    with pytest.raises(PegboardError, match="the signature is not over"):
        await app.audit.check(tmp_path / "damaged.jsonl")
    with pytest.raises(ConfigError, match="name a new file"):
        await app.audit.export(tmp_path / "export.jsonl")


async def test_usage_counts_runs_and_tools_of_the_time(app: App) -> None:
    await app.calls.call("read_file", {"path": "a.txt"})
    await app.calls.call("read_file", {"path": "none.txt"})

    report = await app.usage.report(DAY_S)

    assert (report.runs, report.tools["read_file"].calls, report.tools["read_file"].failed) == (2, 2, 1)
    assert report.tools["read_file"].schema_tokens > 0
    assert (await app.usage.report(-DAY_S)).runs == 0


async def test_old_work_is_deleted_and_its_chain_still_verifies(app: App) -> None:
    outcome = await app.calls.call("write_file", {"path": "a.txt", "content": "two\n"})
    later = Retention(app.history, app.paths, clock=At(SystemClock().now() + 40 * DAY_S))

    assert [one.count > 0 for one in await later.held(("history", "images"), older_s=30 * DAY_S)] == [
        True,
        True,
    ]
    await later.purge(("history", "images"), older_s=30 * DAY_S)

    row = await app.runs.get(outcome.run)
    assert app.runs.is_purged(row)
    assert [e async for e in app.runs.events(row) if isinstance(e, CallStarted)] == []
    assert await app.audit.verify() == {"cli": []}


# -- settings, servers, grants ------------------------------------------------------------------


async def test_a_project_file_is_trusted_until_it_is_no_more(folder: Path, own_home: Path) -> None:
    from pegboard.config.paths import Paths

    (folder / "pegboard.toml").write_text('mode = "ask"\n')
    files = TrustedFiles(Paths.of(), folder)

    path, digest = await files.add()
    assert await files.list() == {str(path.resolve()): digest}
    assert await files.remove() == (path, True)
    assert await files.remove() == (path, False)


async def test_the_settings_tell_what_this_machine_enforces(app: App, folder: Path) -> None:
    shown = await app.settings.show()

    assert (shown["workspace"], shown["mode"], shown["refused"]) == (str(folder), "workspace", "")
    assert {"backend", "enforced", "rejected"} <= set(shown["sandbox"])
    assert any(row["name"] == "local" for row in shown["models"])


async def test_servers_are_added_listed_and_removed(app: App) -> None:
    _, replaced = await app.servers.add("one", {"command": "true", "args": ["${HOME}"]})
    assert not replaced
    assert [s.name for s in (await app.servers.list()).servers] == ["one"]
    with pytest.raises(ConfigError):
        await app.servers.add("bad", {"neither": "command nor url"})
    await app.servers.remove("one")
    with pytest.raises(ConfigError, match="no MCP server called"):
        await app.servers.remove("one")


async def test_an_answer_that_was_kept_is_listed_and_revoked(folder: Path, own_home: Path) -> None:
    class Always:
        async def decide(self, request: Any) -> Approved | Refused:
            return Approved(scope="always", by="a test")

    with App.open(workspace=folder, mode="ask") as app:
        await app.calls.call("write_file", {"path": "a.txt", "content": "2"}, Interaction(approver=Always()))
        [grant] = await app.approvals.grants()
        assert grant.tool == "write_file"
        assert (await app.calls.call("write_file", {"path": "a.txt", "content": "3"})).result.ok

        await app.approvals.revoke(grant.id)

        assert await app.approvals.grants() == []
        with pytest.raises(ConfigError, match="no grant"):
            await app.approvals.revoke(grant.id)
        assert (await app.calls.call("write_file", {"path": "a.txt", "content": "4"})).decision == "deny"
