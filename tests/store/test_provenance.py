"""Labels of files, sums of budgets and grants outlive their process, and processes share them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pegboard import Effect, ToolCall
from pegboard.core.errors import PermissionDenied
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.budgets import Spent
from pegboard.core.policy.rules import Situation
from pegboard.ports.store import Store
from pegboard.store import open_store
from pegboard.store.grants import StoredGrants
from pegboard.store.provenance import StoredAccounts, StoredProvenance
from tests.ledger import owes


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store("memory" if request.param == "memory" else tmp_path / "s.sqlite")
    yield opened
    await opened.close()


async def labels(store: Store, workspace: str, path: str) -> dict[str, str]:
    """What a new process finds."""
    later = StoredProvenance(lambda: store)
    await later.refresh(workspace)
    return dict(later.labels(workspace, path))


@owes("G-06")
async def test_labels_outlive_their_process(store: Store) -> None:
    first = StoredProvenance(lambda: store)
    first.add_labels("/w", "a/b.txt", {"untrusted": "connect x"})
    first.add_labels("/w", "a/b.txt", {"untrusted": "connect x"})
    first.add_labels("/w", "a/b.txt", {"private": "read .env"})
    first.add_labels("/w2", "a/b.txt", {"private": "other"})
    await first.save()

    assert await labels(store, "/w", "a") == {"untrusted": "connect x", "private": "read .env"}
    assert await labels(store, "/w", "a/b") == {}
    second = StoredProvenance(lambda: store)
    await second.refresh("/w")
    second.drop("/w", "a")
    await second.save()
    assert await labels(store, "/w", ".") == {}
    assert await labels(store, "/w2", ".") == {"private": "other"}


@owes("G-06")
async def test_labels_of_another_process_are_seen_at_the_next_decision(store: Store) -> None:
    ours, theirs = StoredProvenance(lambda: store), StoredProvenance(lambda: store)
    for one in (ours, theirs):
        await one.refresh("/w")
        assert one.labels("/w", ".") == {}

    theirs.add_labels("/w", "a", {"untrusted": "connect x"})
    await theirs.save()
    await ours.refresh("/w")
    assert ours.labels("/w", "a") == {"untrusted": "connect x"}
    # Both write at once: each sees all, and of one path nothing is lost.
    ours.add_labels("/w", "a", {"private": "1"})
    theirs.add_labels("/w", "b", {"private": "2"})
    await asyncio.gather(ours.save(), theirs.save())
    for one in (ours, theirs):
        await one.refresh("/w")
        assert one.labels("/w", "a") == {"untrusted": "connect x", "private": "1"}
        assert one.labels("/w", "b") == {"private": "2"}
    theirs.drop("/w", "a")
    await theirs.save()
    await ours.refresh("/w")
    assert ours.labels("/w", "a") == {}


@owes("G-06")
async def test_what_is_not_written_yet_survives_a_refresh(store: Store) -> None:
    ours, theirs = StoredProvenance(lambda: store), StoredProvenance(lambda: store)
    await ours.refresh("/w")
    ours.add_labels("/w", "a", {"private": "1"})
    theirs.add_labels("/w", "b", {"private": "2"})
    await theirs.save()

    await ours.refresh("/w")

    assert ours.labels("/w", "a") == {"private": "1"}


@owes("G-09")
async def test_sums_are_shared_and_none_is_lost(store: Store) -> None:
    async def book() -> None:
        accounts = StoredAccounts(lambda: store)
        for _ in range(25):
            await accounts.add("b", Spent(calls=1, seconds=0.5))

    await asyncio.gather(*(book() for _ in range(4)))

    assert await StoredAccounts(lambda: store).sum("b") == Spent(calls=100, seconds=50.0)
    assert await StoredAccounts(lambda: store).sum("other") == Spent()


@owes("G-09")
async def test_two_connections_to_one_file_lose_no_booking(tmp_path: Path) -> None:
    stores = [await open_store(tmp_path / "s.sqlite") for _ in range(2)]

    async def book(store: Store) -> None:
        for _ in range(20):
            await StoredAccounts(lambda: store).add("b", Spent(calls=1))

    await asyncio.gather(*map(book, stores))

    assert (await StoredAccounts(lambda: stores[0]).sum("b")).calls == 40
    for store in stores:
        await store.close()


# -- grants -----------------------------------------------------------------------------------

SEND = Effect("send", "slack:1")
HERE = Situation(values={"session": "s"}, workspace="/w")


def request(id: str) -> ApprovalRequest:
    return ApprovalRequest(id=id, call=ToolCall("c", "t", {}), tool="t", effects=(SEND,), session="s")


@owes("G-04")
async def test_a_grant_that_is_revoked_elsewhere_is_gone_here_and_stays_gone(store: Store) -> None:
    mine, theirs = StoredGrants(lambda: store), StoredGrants(lambda: store)
    first = await mine.add(request("ap_1"), Approved(scope="always"), workspace="/w")
    await theirs.refresh()
    assert theirs.find("t", SEND, HERE) == first.id
    second = await theirs.add(request("ap_2"), Approved(scope="always"), workspace="/w")
    session = await mine.add(request("ap_3"), Approved(scope="session"), workspace="/w")

    assert await theirs.revoke(first.id)
    assert not await theirs.revoke(first.id)

    await mine.refresh()
    assert [g.id for g in mine.list()] == [second.id, session.id]
    with pytest.raises(PermissionDenied):
        await mine.use(first.id)
    await theirs.refresh()
    assert [g.id for g in theirs.list()] == [second.id]


@owes("G-04")
async def test_uses_are_counted_over_all_processes(store: Store) -> None:
    mine, theirs = StoredGrants(lambda: store), StoredGrants(lambda: store)
    grant = await mine.add(request("ap_1"), Approved(scope="always", uses=2), workspace="/w")
    await theirs.refresh()

    await mine.use(grant.id)
    await theirs.use(grant.id)

    with pytest.raises(PermissionDenied):
        await mine.use(grant.id)
    await mine.refresh()
    assert mine.find("t", SEND, HERE) is None
