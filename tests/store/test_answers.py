"""Answers survive their process until they are used; the list of runs finds its rows by any of its indexes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pegboard.core.policy.approval import Approved, Refused
from pegboard.store.answers import Answers
from pegboard.store.memory import MemoryStore
from pegboard.store.runs import RunList, RunRow


async def test_answers_are_given_read_and_used_up() -> None:
    store = MemoryStore()
    given = {
        "ap_1": Approved(scope="always", expires_s=60.0, uses=3, by="ann"),
        "ap_2": Refused("not today", "bob"),
        "q_1": "blue",
    }
    for key, answer in given.items():
        await Answers(store).give(key, answer)

    later = Answers(store)
    assert await later.of([*given, "ap_9"]) == given
    await later.used(["ap_1", "ap_9"])
    assert await later.of(given) == {k: a for k, a in given.items() if k != "ap_1"}


def row(id: str, *, started: float, status: str = "done", stream: str = "s") -> RunRow:
    return RunRow(id=id, stream=stream, status=status, task="t", model="m", agent="a", started=started)


@pytest.fixture
async def runs() -> RunList:
    runs = RunList(MemoryStore())
    for one in (
        row("a", started=1), row("b", started=30, status="running"), row("c", started=2, stream="x"),
        row("ab", started=4, status="suspended", stream="x"),
    ):  # fmt: skip
        await runs.save(one)
    return runs


async def test_runs_are_listed_newest_first_and_filtered(runs: RunList) -> None:
    async def ids(**filters: object) -> list[str]:
        return [r.id for r in await runs.list(**filters)]  # type: ignore[arg-type]

    assert await ids() == await ids(limit=None) == ["b", "ab", "c", "a"]
    assert await ids(limit=1) == ["b"]
    assert await ids(session="x") == ["ab", "c"]
    assert await ids(session="x", limit=1) == ["ab"]
    assert await ids(status="running") == ["b"]
    assert await ids(status="suspended", session="s") == []
    assert await ids(status="done") == await ids(status="done", limit=None) == ["c", "a"]


async def test_a_run_is_found_by_its_id_or_the_start_of_one(runs: RunList) -> None:
    assert [r.id for r in await runs.find("a")] == ["a"]
    assert [r.id for r in await runs.find("ab")] == ["ab"]
    assert await runs.find("z") == await runs.find("") == []
    await runs.save(row("abc", started=5))
    assert [r.id for r in await runs.find("ab")] == ["ab"]
    assert [r.id for r in await runs.find("abc")] == ["abc"]


async def test_a_run_that_ends_leaves_the_open_ones(runs: RunList) -> None:
    there = await runs.get("b")
    assert there is not None
    await runs.save(replace(there, status="done", ended=31.0))

    assert await runs.list(status="running") == []
    assert [(r.id, r.ended) for r in await runs.list(limit=1)] == [("b", 31.0)]
