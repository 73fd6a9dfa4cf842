"""`pegboard schedules`: jobs are added, listed, changed and run, by people and programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pegboard.app.app import App
from pegboard.ports.schedules import JobRequest
from pegboard.store.inbox import Inbox
from tests.cli.conftest import Run, argv, environment
from tests.ledger import owes
from tests.waiting import until


@owes("K-60", "K-61", "cron-22")
def test_a_job_is_added_listed_changed_and_removed(pegboard: Run) -> None:
    added = pegboard("schedules", "add", "every Monday at 9", "Send the report.", "--name", "report", "--tz",
                     "Asia/Shanghai", "--to", "telegram:5", "--json")  # fmt: skip
    job = json.loads(added.out)

    assert (job["schedule"], job["zone"], job["kind"]) == ("0 9 * * 1", "Asia/Shanghai", "cron")
    assert (job["session"], job["deliver_to"], job["wake"], len(job["next"])) == (
        "main",
        "telegram:5",
        "now",
        3,
    )
    assert json.loads(pegboard("schedules", "--json").out) == [job]
    shown = pegboard("schedules").out
    assert f"{job['id']}  report  0 9 * * 1 (Asia/Shanghai)\n  Send the report.\n  next: Mon " in shown
    assert "disabled" in pegboard("schedules", "disable", "report").out
    assert json.loads(pegboard("schedules", "enable", "report", "--json").out)["enabled"] is True
    assert pegboard("schedules", "run", "report").out == f"{job['id']} is queued for session main\n"
    (row,) = json.loads(pegboard("schedules", "history", "report", "--json").out)
    assert (row["job"], row["status"], row["note"]) == (job["id"], "queued", "run by hand")
    assert "queued" in pegboard("schedules", "history").out
    assert pegboard("schedules", "remove", job["id"]).out == f"{job['id']} is removed\n"
    assert pegboard("schedules").out == "no scheduled jobs\n"
    assert json.loads(pegboard("schedules", "--json").out) == []


def test_the_user_s_zone_is_the_one_that_is_shown(pegboard: Run, tmp_path: Path) -> None:
    config = tmp_path / "zone.toml"
    config.write_text('[schedules]\ntimezone = "Asia/Shanghai"\n')

    added = pegboard("schedules", "add", "2099-03-25T10:00:00", "x", "--json", "--config", str(config))

    assert json.loads(added.out)["next"] == ["2099-03-25T10:00:00+08:00"]
    assert pegboard("schedules", "--config", str(config)).out.startswith("times in Asia/Shanghai\n")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("dance",), 2, "use list, add WHEN MESSAGE"),
        (("add", "20m"), 2, "schedules add needs WHEN and MESSAGE"),
        (("remove",), 2, "schedules remove needs an ID or a name"),
        (("remove", "nothing"), 1, "There are no jobs."),
        (("add", "0 9 * * * *", "x"), 1, "has 6 fields"),
        (("add", "2001-01-01T00:00Z", "x"), 1, "has passed: it is "),
        (("add", "daily at 9:00", "x", "--tz", "Mars/Base"), 1, "no time zone"),
        (("add", "20m", "x", "--to", "none", "--isolated"), 0, ""),
    ],
)
def test_mistakes_are_told(pegboard: Run, arguments: tuple[str, ...], status: int, says: str) -> None:
    done = pegboard("schedules", *arguments)

    assert done.status == status
    assert says in done.err
    assert "Traceback" not in done.err


@owes("K-63")
async def test_a_check_is_a_command_in_the_workspace_that_nobody_can_approve(workspace: Path) -> None:
    told: list[str] = []
    with App.open(workspace=workspace) as app:
        for check in ("test -e go.txt", "rm -rf /"):
            await app.schedules.add(
                JobRequest(message=check, schedule="every 1s", isolated=True, check=check)
            )
        scheduler = await app.scheduler(told.append)
        following = await scheduler.tick()
        assert following is not None
        assert await scheduler.tick(following) is not None
        assert await Inbox(app.store).all() == []
        (workspace / "go.txt").write_text("")
        await scheduler.tick(following + 1)

        assert [m.content.partition("\n")[0] for m in await Inbox(app.store).all()] == ["test -e go.txt"]
        failed = {(row.name, row.status) for row in await app.schedules.runs() if "check" in row.note}
        assert failed == {("rm -rf /", "failed")}
        assert any("the check could not be run" in text for text in told)


@pytest.mark.slow
@owes("cron-28", "K-61")
def test_a_job_whose_worker_is_killed_is_finished_by_the_next_one_and_says_how_it_ended(
    pegboard: Run, workspace: Path, tmp_path: Path
) -> None:
    turns = [
        {"calls": [{"name": "exec", "arguments": {"command": "echo begun >> log.txt; sleep 60"}}]},
        {"text": "Over."},
    ]
    (tmp_path / "turns.jsonl").write_text("\n".join(map(json.dumps, turns)))
    pegboard("schedules", "add", "every 1s", "Work", "--name", "work", "--isolated")
    command = argv("worker", "--yes", "--model", f"scripted:{tmp_path / 'turns.jsonl'}")
    first = subprocess.Popen(command, cwd=workspace, env=environment(), stderr=subprocess.DEVNULL)
    try:
        until((workspace / "log.txt").exists, "the command to begin", within_s=60)
        assert json.loads(pegboard("schedules", "history", "--json").out)[-1]["status"] == "queued"
    finally:
        first.kill()
        first.wait()
    pegboard("schedules", "disable", "work")

    second = subprocess.run(
        [*command, "--until-idle"],
        cwd=workspace,
        env=environment(),
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert second.returncode == 0, second.stderr
    first_row = json.loads(pegboard("schedules", "history", "--json").out)[-1]
    assert (first_row["status"], first_row["run"][:4]) == ("done", "run_")
    assert (workspace / "log.txt").read_text() == "begun\n"
