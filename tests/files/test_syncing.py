"""Many files are made durable at once, by whichever way this system has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegboard.files import staging as syncing
from pegboard.files.staging import SyncBatch, sync_files


def opened(folder: Path, count: int) -> list[int]:
    """Descriptors of new files."""
    return [os.open(folder / str(n), os.O_WRONLY | os.O_CREAT) for n in range(count)]


@pytest.mark.parametrize("whole", [True, False])
def test_every_descriptor_is_synced_and_closed(
    tmp_path: Path, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(syncing.os, "fsync", synced.append)
    monkeypatch.setattr(syncing, "_syncfs", lambda fd: synced.append(os.fstat(fd).st_dev))  # pyright: ignore
    batch = SyncBatch(whole=whole)
    descriptors = opened(tmp_path, 300)

    for descriptor in descriptors:
        batch.add(descriptor)
    batch.finish()

    # One call for the one file system, or one for each file.
    assert synced == [tmp_path.stat().st_dev] if whole else sorted(synced) and len(synced) == 300
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize("whole", [True, False])
def test_what_could_not_be_written_is_told(
    tmp_path: Path, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(syncing.os, "fsync", full)
    monkeypatch.setattr(syncing, "_syncfs", full)
    batch = SyncBatch(whole=whole)
    (descriptor,) = opened(tmp_path, 1)
    batch.add(descriptor)

    with pytest.raises(OSError, match="No space left"):
        batch.finish()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_the_real_calls_succeed_on_this_file_system(tmp_path: Path) -> None:
    for whole in (None, True, False):
        batch = SyncBatch(whole=whole)
        for descriptor in opened(tmp_path, 7):
            batch.add(descriptor)
        batch.finish()
    sync_files([tmp_path / str(n) for n in range(9)])  # two of them are not there


def test_a_busy_system_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "_QUIET_KIB", -1)

    assert not syncing.syncs_whole()
