"""RunList: the latest runs by what is asked for, without reading all others."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pegboard.ports.store import Row
from pegboard.store.memory import MemoryStore
from pegboard.store.runs import RunList, RunRow


class CountingStore(MemoryStore):
    """Counts the rows that it gives."""

    given = 0

    async def scan(self, *args: Any, **options: Any) -> list[Row]:
        rows = await super().scan(*args, **options)
        self.given += len(rows)
        return rows


def row(number: int) -> RunRow:
    """One run of four sessions in three folders, which is known of none of every seventh."""
    return RunRow(
        id=f"run_{number:05d}", stream=f"s{number % 4}", task="", model="", agent="agent", started=1000.0 + number,
        status=("done", "failed", "running", "suspended", "done")[number % 5],
        workspace="" if number % 7 == 0 else f"/w{number % 3}",
    )  # fmt: skip


@pytest.mark.parametrize("limit", [1, 5, 100, 150, None])
async def test_the_latest_runs_are_those_that_a_look_at_all_finds(limit: int | None) -> None:
    store = MemoryStore()
    rows = [row(number) for number in range(450)]
    for one in rows:
        await RunList(store).save(one)

    sessions, states, folders = (None, "s1", "none"), (None, "done", "running", "limit"), (None, "/w1", "/w9")
    for session, status, folder, prefix in product(sessions, states, folders, ("", "s", "s2")):
        found = await RunList(store).list(
            session=session, status=status, workspace=folder, limit=limit, prefix=prefix
        )
        assert (
            found
            == [
                one
                for one in reversed(rows)
                if (session is None or one.stream == session)
                and (status is None or one.status == status)
                and (folder is None or one.workspace in ("", folder))
                and one.stream.startswith(prefix)
            ][:limit]
        )


async def test_the_first_page_does_not_read_all_runs() -> None:
    store = CountingStore()
    for number in range(2000):
        await RunList(store).save(row(number))
    store.given = 0

    assert len(await RunList(store).list(workspace="/w1", limit=20)) == 20

    assert store.given <= 200
