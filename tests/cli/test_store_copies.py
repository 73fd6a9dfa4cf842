"""`pegboard store backup, restore, check, size and move`: over an SQLite file and a PostgreSQL database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.postgres import PASSWORD, PostgresServer

PLAN = "A-SECRET-PLAN"


@pytest.fixture(params=["sqlite", "postgresql"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store to move to, whose password stands in a file."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'other.sqlite'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url().replace(f":{PASSWORD}@", "@")


@pytest.fixture
def password(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    file.chmod(0o600)
    return f"file:{file}"


def use(home: Path, url: str, password: str) -> None:
    """Write the setting as `store move` says."""
    file = home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'[store]\nurl = "{url}"\npassword = "{password}"\n')


@pytest.fixture
def worked(pegboard: Run, tmp_path: Path) -> Run:
    """A call, and a finished run."""
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"text": PLAN}) + "\n", encoding="utf-8")
    assert pegboard("call", "write_file", "path=b.txt", "content=b").status == 0
    assert pegboard("run", "tell me the plan", "--model", f"scripted:{script}").status == 0
    return pegboard


def runs(pegboard: Run) -> list[tuple[str, str, str]]:
    rows = [json.loads(line) for line in pegboard("runs", "--json").out.splitlines()]
    return [(row["run"], row["status"], row["task"]) for row in rows]


def test_a_moved_store_has_the_same_runs_and_verifies_and_goes_on_there(
    worked: Run, home: Path, other: str, password: str
) -> None:
    before = runs(worked)
    moved = worked("store", "move", other, "--password", password)
    use(home, other, password)
    verified = worked("audit", "verify")
    after = runs(worked)
    called = worked("call", "read_file", "path=b.txt")
    again = worked("audit", "verify")

    assert moved.status == 0, moved.err
    assert PASSWORD not in moved.out + moved.err
    assert len(before) == 2
    assert after == before
    assert verified.status == 0, verified.out
    assert called.out.split() == ["1→b"]
    assert len(runs(worked)) == 3
    assert again.status == 0, again.out
    assert PLAN in worked("runs", "show", before[0][0]).out


def test_what_was_changed_after_a_move_is_found(
    worked: Run, home: Path, postgres_server: PostgresServer, password: str
) -> None:
    url = postgres_server.url(schema="audited").replace(f":{PASSWORD}@", "@")
    assert worked("store", "move", url, "--password", password).status == 0
    use(home, url, password)
    change(postgres_server, "UPDATE audited.entries SET body = 'x' WHERE seq = 1 AND stream = 'cli'")
    payload = worked("audit", "verify")
    change(postgres_server, "DELETE FROM audited.kept WHERE tbl = 'done_before'")
    row = worked("store", "check")

    assert payload.status == 1
    assert "record 1: its payload was changed" in payload.out
    assert row.status == 1
    assert "rows were removed, added or put back" in row.out


def change(server: PostgresServer, statement: str) -> None:
    import asyncio
    from importlib import import_module
    from typing import Any

    async def run() -> None:
        asyncpg: Any = import_module("asyncpg")
        db = await asyncpg.connect(server.url().partition("?")[0])
        await db.execute(statement)
        await db.close()

    asyncio.run(run())


def test_a_move_goes_back_to_a_file(
    worked: Run, home: Path, tmp_path: Path, postgres_server: PostgresServer, password: str
) -> None:
    url = postgres_server.url().replace(f":{PASSWORD}@", "@")
    before = runs(worked)
    worked("store", "move", url, "--password", password)
    use(home, url, password)
    back = worked("store", "move", f"sqlite:{tmp_path / 'back.sqlite'}")
    use(home, f"sqlite:{tmp_path / 'back.sqlite'}", "")

    assert back.status == 0, back.err
    assert runs(worked) == before
    assert worked("audit", "verify").status == 0


def test_a_move_into_a_store_that_holds_something_is_refused(worked: Run, other: str, password: str) -> None:
    first = worked("store", "move", other, "--password", password)
    second = worked("store", "move", other, "--password", password)

    assert (first.status, second.status) == (0, 1)
    assert "holds a history already" in second.err


def test_a_restored_backup_brings_back_what_there_was_and_puts_the_rest_aside(
    worked: Run, home: Path, tmp_path: Path, other: str, password: str
) -> None:
    worked("store", "move", other, "--password", password)
    use(home, other, password)
    before = runs(worked)
    backed = worked("store", "backup", str(tmp_path / "b.sqlite"))
    worked("call", "write_file", "path=c.txt", "content=c")
    refused = worked("store", "restore", str(tmp_path / "b.sqlite"))
    kept = runs(worked)
    restored = worked("store", "restore", str(tmp_path / "b.sqlite"), "--yes")

    assert backed.status == 0
    assert (tmp_path / "b.sqlite").stat().st_mode & 0o777 == 0o600
    assert refused.status == 3
    assert "--yes" in refused.err
    assert len(kept) == 3
    assert restored.status == 0, restored.err
    assert "is kept as" in restored.err
    assert runs(worked) == before
    assert worked("audit", "verify").status == 0
    assert worked("call", "write_file", "path=c.txt", "content=d").status == 0
    assert worked("audit", "verify").status == 0


def test_a_backup_is_not_overwritten_and_nothing_is_left_of_the_try(worked: Run, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "b").write_text("mine")
    done = worked("store", "backup", str(folder / "b"))

    assert done.status == 2
    assert "it exists" in done.err
    assert [p.name for p in folder.iterdir()] == ["b"]
    assert (folder / "b").read_text() == "mine"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE payloads SET body = 'x' WHERE seq = 1", "its payload was changed"),
        ("DELETE FROM entries WHERE seq = 2", "records 2 to 2 are missing"),
        ("UPDATE kept SET value = 'x' WHERE tbl = 'runs'", "was changed, or written without the key"),
    ],
)
def test_a_backup_that_was_changed_is_not_restored(
    worked: Run, tmp_path: Path, statement: str, said: str
) -> None:
    file = tmp_path / "b.sqlite"
    worked("store", "backup", str(file))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(statement)
    before = runs(worked)
    done = worked("store", "restore", str(file), "--yes")

    assert done.status == 2
    assert said in done.err
    assert runs(worked) == before


def test_a_file_that_is_no_backup_is_not_restored(worked: Run, tmp_path: Path, workspace: Path) -> None:
    (workspace / "c.txt").write_text("no database" * 1000)
    text = worked("store", "restore", str(workspace / "b.txt"), "--yes")
    longer = worked("store", "restore", str(workspace / "c.txt"), "--yes")
    missing = worked("store", "restore", str(tmp_path / "none"), "--yes")

    assert (text.status, longer.status, missing.status) == (2, 2, 2)
    assert "holds no history" in text.err
    assert "is not a backup: file is not a database" in longer.err
    assert "there is no such file" in missing.err


def test_a_size_report_counts_records_and_bytes(worked: Run, home: Path, other: str, password: str) -> None:
    here = json.loads(worked("store", "size", "--json").out)
    worked("store", "move", other, "--password", password)
    use(home, other, password)
    there = json.loads(worked("store", "size", "--json").out)
    shown = worked("store", "size").out

    assert here["bytes_on_disk"] > 0
    assert there["bytes_on_disk"] > 0
    assert there["streams"] == here["streams"]
    # Who worked on what is not moved.
    assert there["tables"] == {name: held for name, held in here["tables"].items() if name != "leases"}
    records = sum(count for count, _ in here["streams"].values())
    assert f"2 sessions, {records} records" in shown


def test_a_purge_deletes_the_content_in_a_database_too(
    worked: Run, home: Path, postgres_server: PostgresServer, password: str
) -> None:
    url = postgres_server.url().replace(f":{PASSWORD}@", "@")
    worked("store", "move", url, "--password", password)
    use(home, url, password)
    id = runs(worked)[0][0]
    purged = worked("store", "purge", "--all", "--yes")

    assert purged.status == 0, purged.err
    assert PLAN not in worked("runs", "show", id).out
    assert worked("audit", "verify").status == 0
    assert json.loads(worked("store", "--json", "--only", "history").out)[0]["count"] <= 1


@pytest.mark.parametrize("words", [("frob",), ("backup",), ("size", "x"), ("show", "x"), ("move",)])
def test_a_wrong_action_says_which_there_are(pegboard: Run, words: tuple[str, ...]) -> None:
    done = pegboard("store", *words)

    assert done.status == 2
    assert "use show, size, check, purge, backup FILE, restore FILE or move URL" in done.err


def test_a_store_of_another_kind_is_refused(worked: Run) -> None:
    done = worked("store", "move", "mysql://me:very-private@host/db")

    assert done.status == 1
    assert "write sqlite:PATH or postgresql://USER@HOST:PORT/DATABASE" in done.err
    assert "very-private" not in done.err


def test_a_worker_works_on_the_store_that_is_named(pegboard: Run, home: Path, tmp_path: Path) -> None:
    done = pegboard(
        "worker", "--until-idle", "--model", "local", "--store", f"sqlite:{tmp_path / 'w.sqlite'}"
    )

    assert done.status == 0, done.err
    assert (tmp_path / "w.sqlite").exists()
    assert not (home / ".local" / "state" / "pegboard" / "history.sqlite").exists()
