"""Control groups, on folders that look like them and on the real ones where we may."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pegboard.process.limits import MIB, CgroupPool, ResourceLimits

LIMITS = ResourceLimits(memory_bytes=64 * MIB, processes=20)


def test_without_control_groups_there_is_no_pool(tmp_path: Path) -> None:
    assert CgroupPool.detect(LIMITS, root=tmp_path) is None


@pytest.mark.parametrize("enabled_in", ["user", "user/app", None])
def test_a_group_that_was_delegated_above_ours_is_found(tmp_path: Path, enabled_in: str | None) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    (root / "user" / "app" / "scope").mkdir(parents=True)
    own.write_text("0::/user/app/scope\n")
    for folder in (root, *root.rglob("*")):
        names = "memory pids" if folder == root / (enabled_in or "-") else "cpu"
        if folder.is_dir():
            (folder / "cgroup.subtree_control").write_text(names)

    pool = CgroupPool.detect(LIMITS, root=root, own=own)

    made = [path.parent.relative_to(root).as_posix() for path in root.rglob("pegboard-*")]
    assert made == ([] if enabled_in is None else [enabled_in])
    assert (pool is None) == (enabled_in is None)


def test_groups_are_used_again_and_removed_at_the_end(tmp_path: Path) -> None:
    pool = CgroupPool((tmp_path,), LIMITS, unified=True)

    first = pool.take()
    first.release()
    second = pool.take()
    third = pool.take()

    assert second is first
    assert third is not first
    assert all(folder.is_dir() for folder in (*first.folders, *third.folders))
    second.release()
    third.release()
    pool.close()
    assert list(tmp_path.iterdir()) == []


def test_limits_are_written_in_both_interfaces(tmp_path: Path) -> None:
    class Made(CgroupPool):
        """The kernel makes the files of a group; here the test does."""

        def _limit(self, folders: tuple[Path, ...]) -> None:
            for folder in folders:
                for name in ("pids.max", "memory.max", "memory.swap.max", "memory.limit_in_bytes"):
                    (folder / name).write_text("max")
            super()._limit(folders)

    group = Made((tmp_path,), LIMITS, unified=True).take()

    folder = group.folders[0]
    assert (folder / "pids.max").read_text() == "20"
    assert (folder / "memory.max").read_text() == str(64 * MIB)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "memory.limit_in_bytes").read_text() == str(64 * MIB)


def test_what_the_kernel_ended_for_memory_is_counted(tmp_path: Path) -> None:
    group = CgroupPool((tmp_path,), LIMITS, unified=True).take()
    assert group.out_of_memory() == 0

    (group.folders[0] / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")

    assert group.out_of_memory() == 2


def test_a_group_is_not_used_again_while_somebody_is_in_it(tmp_path: Path) -> None:
    pool = CgroupPool((tmp_path,), LIMITS, unified=True)
    group = pool.take()
    with subprocess.Popen(["sleep", "92"]) as child:
        (group.folders[0] / "cgroup.procs").write_text(f"{child.pid}\n")

        group.release()

        assert child.wait(5) == -9
    assert pool.take() is not group


def test_groups_of_programs_that_were_killed_are_removed(tmp_path: Path) -> None:
    (tmp_path / "pegboard-999999999-ab").mkdir()
    (tmp_path / f"pegboard-{os.getpid()}-ab").mkdir()

    CgroupPool((tmp_path,), LIMITS, unified=True)._sweep()

    assert [path.name for path in tmp_path.iterdir()] == [f"pegboard-{os.getpid()}-ab"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups here")
def test_a_real_group_limits_and_kills() -> None:
    pool = CgroupPool.detect(LIMITS)
    if pool is None:
        pytest.skip("this machine has no control groups that we may use")
    group = pool.take()
    join = " && ".join(f"echo 0 > {file}" for file in group.join_files)
    child = subprocess.Popen(["sh", "-c", f"{join} && exec sleep 91"], stdout=subprocess.PIPE)
    try:
        while child.pid not in group.members():
            assert child.poll() is None

        group.kill()

        assert child.wait(5) == -9
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        group.release()
        pool.close()
    assert not any(folder.exists() for folder in group.folders)
