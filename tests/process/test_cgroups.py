"""Control groups, on folders that look like them and on the real ones where we may."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pegboard.process.cgroups import CgroupPool
from pegboard.process.limits import MIB, Limits

LIMITS = Limits(memory_bytes=64 * MIB, processes=20)


def test_without_control_groups_there_is_no_pool(tmp_path: Path) -> None:
    assert CgroupPool.detect(LIMITS, root=tmp_path) is None


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
