"""A store that an older Pegboard wrote opens: it is copied, brought up to date, and its chain still verifies."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pegboard.ports.store import StoreError
from pegboard.store import opening
from pegboard.store.chain import verify
from pegboard.store.opening import open_database
from pegboard.store.runs import RunList
from pegboard.store.sqlite import SqliteStore

OLD = Path(__file__).parents[1] / "data" / "store_v1"
"""Written by version 1: three sessions (done, suspended, killed), calls, answers, labels, budgets and grants."""
KEY = b"k" * 32


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    shutil.copytree(OLD, folder)
    return folder / "history.sqlite"


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


async def test_every_record_is_there_and_the_chain_verifies(old: Path) -> None:
    before = rows(old, "SELECT stream, COUNT(*) FROM entries GROUP BY stream")

    store = await SqliteStore.open(old)

    for stream, count in before:
        head = json.loads((old.parent / "heads" / f"{stream}.json").read_text())
        records = await store.read(str(stream))
        assert len(records) == count
        assert verify(KEY, str(stream), records, head=(head["seq"], head["mac"])) == []
    await store.close()


async def test_the_list_of_runs_becomes_rows_with_indexes(old: Path) -> None:
    before = rows(
        old, "SELECT id, stream, status, task, model, agent, started, ended FROM runs ORDER BY started DESC"
    )

    store = await SqliteStore.open(old)
    runs = RunList(store)

    def told(some: list[object]) -> list[tuple[object, ...]]:
        return [(r.id, r.stream, r.status, r.task, r.model, r.agent, r.started, r.ended) for r in some]  # type: ignore[attr-defined]

    assert told([*await runs.list(limit=None)]) == before
    assert told([*await runs.list(limit=2)]) == before[:2]
    assert told([*await runs.list(session="cli")]) == [b for b in before if b[1] == "cli"]
    assert told([*await runs.list(status="suspended")]) == [b for b in before if b[2] == "suspended"]
    assert told([*await runs.list(status="running")]) == [b for b in before if b[2] == "running"]
    await store.close()


async def test_rows_get_a_version_and_grants_come_in(old: Path) -> None:
    kept = rows(old, "SELECT tbl, key, value FROM kept")
    grants = json.loads((old.parent / "grants.json").read_text())

    store = await SqliteStore.open(old)

    for table, key, value in kept:
        row = await store.get(str(table), str(key))
        assert row is not None
        assert (row.value, row.version) == (value, 1)
    assert [json.loads(r.value) for r in await store.scan("grants")] == grants
    await store.close()


async def test_a_copy_of_the_old_file_is_kept_for_its_owner_only(old: Path) -> None:
    before = rows(old, "SELECT * FROM entries") + rows(old, "SELECT * FROM runs")

    await (await SqliteStore.open(old)).close()
    await (await SqliteStore.open(old)).close()

    copy = old.with_name("history.sqlite.backup-1")
    assert rows(copy, "SELECT * FROM entries") + rows(copy, "SELECT * FROM runs") == before
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in old.parent.iterdir()) == [
        "grants.json.backup-1", "heads", "history.sqlite", "history.sqlite.backup-1",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["{", "[{}]", "5"])
async def test_grants_that_cannot_be_read_leave_all_as_it_was(old: Path, text: str) -> None:
    (old.parent / "grants.json").write_text(text)

    with pytest.raises(StoreError, match=r"grants\.json cannot be read"):
        await SqliteStore.open(old)

    assert rows(old, "PRAGMA user_version") == [(1,)]
    assert (old.parent / "grants.json").read_text() == text


def test_a_file_that_another_process_is_writing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE t (x)")
        waited: list[float] = []

        def wait(seconds: float) -> None:
            waited.append(seconds)
            other.execute("COMMIT")

        monkeypatch.setattr(opening, "sleep", wait)
        with closing(open_database(path)) as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert len(waited) == 1
