"""Table: rows that a bad disk changed, beside those that it did not."""

from __future__ import annotations

import logging

import pytest

from pegboard.ports.schedules import Every, Job
from pegboard.ports.store import Put, StoreError
from pegboard.store.jobs import Jobs
from pegboard.store.memory import MemoryStore
from pegboard.store.table import Table


def counted(value: dict[str, int]) -> int:
    """A value that is kept as an object with one field."""
    return value["count"]


@pytest.mark.parametrize("body", [b'{"count": 1', b'{"cpunt": 1}', b"\xff\xfe", b"[1]", b"3", b""])
async def test_a_damaged_row_is_told_and_takes_no_other_with_it(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    table = Table[int](store, "jobs", lambda count: {"count": count}, counted)
    await table.put("a", 1)
    await store.put(Put("jobs", f"b{body!r}", body))
    await table.put("c", 3)

    with caplog.at_level(logging.WARNING, "pegboard.store"):
        assert await table.scan() == {"a": 1, "c": 3}
        assert await table.get_all(["a", f"b{body!r}", "c"]) == [1, 3]

    assert len(caplog.messages) == 1
    assert f"the row {f'b{body!r}'!r} of the table 'jobs' is damaged" in caplog.messages[0]
    with pytest.raises(StoreError, match=r"damaged .* pegboard store check"):
        await table.get(f"b{body!r}")
    assert (await store.scan("jobs", start="b", end="c"))[0].value == body


async def test_a_damaged_row_can_be_replaced_and_deleted() -> None:
    store = MemoryStore()
    table = Table[int](store, "jobs", lambda count: {"count": count}, counted)
    for key in ("a", "b"):
        await store.put(Put("jobs", key, b"{"))

    await table.put("a", 2)

    assert await table.get("a") == 2
    assert await table.delete("b")
    assert await table.scan() == {"a": 2}


async def test_a_damaged_job_holds_up_no_other() -> None:
    store = MemoryStore()
    jobs = Jobs(store)
    for id in ("a", "b"):
        every = Every(every_s=60, start=0)
        await jobs.add(Job(id=id, message="x", schedule=every, session="s", next_at=60.0))
    await store.put(Put("jobs", "a", b"{"))

    assert [one.job.id for one in await jobs.due(60.0)] == ["b"]
    assert [job.id for job in await jobs.list()] == ["b"]
