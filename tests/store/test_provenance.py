"""Labels of files and sums of budgets outlive their process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pegboard.core.policy.budgets import Spent
from pegboard.store.blocking import BlockingStore, open_sqlite
from pegboard.store.memory import MemoryStore
from pegboard.store.provenance import StoredAccounts, StoredProvenance
from tests.ledger import owes


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlockingStore:
    return BlockingStore(MemoryStore()) if request.param == "memory" else open_sqlite(tmp_path / "s.sqlite")


@owes("G-06")
def test_labels_outlive_their_process(store: BlockingStore) -> None:
    first = StoredProvenance(lambda: store)
    first.add_labels("/w", "a/b.txt", {"untrusted": "connect x"})
    first.add_labels("/w", "a/b.txt", {"untrusted": "connect x"})
    first.add_labels("/w", "a/b.txt", {"private": "read .env"})
    first.add_labels("/w2", "a/b.txt", {"private": "other"})
    second = StoredProvenance(lambda: store)

    assert second.labels("/w", "a") == {"untrusted": "connect x", "private": "read .env"}
    assert second.labels("/w", "a/b") == {}
    second.drop("/w", "a")
    assert StoredProvenance(lambda: store).labels("/w", ".") == {}
    assert StoredProvenance(lambda: store).labels("/w2", ".") == {"private": "other"}
    store.close()


@owes("G-06")
def test_labels_of_another_process_are_seen_at_once(store: BlockingStore) -> None:
    ours, theirs = StoredProvenance(lambda: store), StoredProvenance(lambda: store)
    assert ours.labels("/w", "a") == theirs.labels("/w", "a") == {}

    theirs.add_labels("/w", "a", {"untrusted": "connect x"})
    assert ours.labels("/w", "a") == {"untrusted": "connect x"}
    ours.add_labels("/w", "b", {"private": "read .env"})
    assert theirs.labels("/w", "b") == {"private": "read .env"}
    theirs.drop("/w", "a")
    assert ours.labels("/w", "a") == {}
    # Both wrote: each still sees all.
    ours.add_labels("/w", "c", {"private": "1"})
    theirs.add_labels("/w", "d", {"private": "2"})
    assert ours.labels("/w", ".") == theirs.labels("/w", ".") == {"private": "2"}
    store.close()


@owes("G-09")
def test_sums_are_shared_and_none_is_lost(store: BlockingStore) -> None:
    def book() -> None:
        accounts = StoredAccounts(lambda: store)
        for _ in range(25):
            accounts.add("b", Spent(calls=1, seconds=0.5))

    threads = [threading.Thread(target=book) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert StoredAccounts(lambda: store).sum("b") == Spent(calls=100, seconds=50.0)
    assert StoredAccounts(lambda: store).sum("other") == Spent()
    store.close()


@owes("G-09")
def test_two_connections_to_one_file_lose_no_booking(tmp_path: Path) -> None:
    stores = [open_sqlite(tmp_path / "s.sqlite") for _ in range(2)]

    def book(store: BlockingStore) -> None:
        for _ in range(20):
            StoredAccounts(lambda: store).add("b", Spent(calls=1))

    threads = [threading.Thread(target=book, args=(s,)) for s in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert StoredAccounts(lambda: stores[0]).sum("b").calls == 40
    for store in stores:
        store.close()
