"""Decisions 25: ordinary work and the attack probe, as whoever we are, as an ordinary user, and in
a workspace that belongs to someone else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.ledger import DATA, owes
from tests.shell.sandbox.ordinary_work import furnish, work
from tests.shell.sandbox.places import as_ordinary_user, copy_source, open_folder, reachable_python
from tests.shell.sandbox.probing import probe

PROBE = DATA / "security" / "sandbox_probe.py"
# What a command may do: use its workspace and read the made-up passwd. The last two are details
# that the probe prints in the same words: it wrote into its own private /tmp, and started a child.
POSSIBLE = {"ws_read", "ws_write", "read_etc_passwd"}


def check_work(done: dict[str, Any]) -> None:
    problems = {name: result for name, result in done.items() if name != "enforced" and result[0] != 0}
    assert not problems
    assert done["identity"][1] == "user\n/home/user\nAda\n"
    assert done["git"][1].strip() == "3"
    assert done["git in a repository of the workspace"][1].strip() == "3"
    assert done["its client"][1].strip() == "200"
    assert done["venv"][1] == "True\n"
    assert done["tests"][1] == "OK\n"
    assert done["npm"][1].strip() == "2"
    assert done["server"][1] == "200\n"
    assert done["processes"][1] == "[1, 2]\n[3]\nsub\n"
    assert done["home again"][1] == "kept\n"
    assert done["compile"][1].strip().endswith("0")


def check_probe(found: dict[str, Any]) -> None:
    assert {name for name, value in found.items() if value == "YES"} == POSSIBLE
    assert found["seccomp_mode"] == "2"
    assert int(found["cap_eff"], 16) == 0
    assert found["no_new_privs"] == "1"
    assert int(found["forks_of_400"]) < 300
    assert found["net_ifaces"] == "lo"
    assert found["daemon_survived"] is False


@owes("K-31", "D-58")
@pytest.mark.slow
async def test_ordinary_work_as_we_are() -> None:
    with open_folder() as folder:
        furnish(folder / "ws")
        os.system(f"git init -q {folder}/ws")

        check_work(await work(folder, "bubblewrap"))


@owes("K-31")
@pytest.mark.slow
def test_ordinary_work_as_an_ordinary_user() -> None:
    with open_folder() as folder:
        copy_source(folder)
        furnish(folder / "ws")
        os.system(f"git init -q {folder}/ws")
        shutil.copy(Path(__file__).with_name("ordinary_work.py"), folder)

        done = as_ordinary_user([reachable_python(), "ordinary_work.py", str(folder)], folder)

        assert done.returncode == 0, done.stderr
        check_work(json.loads(done.stdout))


@pytest.mark.full
@pytest.mark.slow
async def test_ordinary_work_in_a_workspace_of_someone_else() -> None:
    with open_folder() as folder:
        furnish(folder / "ws")
        os.system(f"git init -q {folder}/ws && chown -R 12345:12345 {folder}/ws 2>/dev/null")

        done = await work(folder, "bubblewrap")

        check_work(done)
        # Everything made inside belongs to the workspace's owner, not to us.
        assert {path.lstat().st_uid for path in (folder / "ws").rglob("*")} == {(folder / "ws").stat().st_uid}


@pytest.mark.full
@owes("G-07", "X-58")
@pytest.mark.slow
async def test_the_probe_finds_nothing_but_the_workspace_as_we_are() -> None:
    with open_folder() as folder:
        check_probe(await probe(folder, PROBE))


@owes("G-07", "X-58")
@pytest.mark.slow
def test_the_probe_finds_nothing_but_the_workspace_as_an_ordinary_user() -> None:
    with open_folder() as folder:
        copy_source(folder)
        shutil.copy(PROBE, folder / "sandbox_probe.py")
        shutil.copy(Path(__file__).with_name("probing.py"), folder)

        done = as_ordinary_user([reachable_python(), "probing.py", str(folder), "sandbox_probe.py"], folder)

        assert done.returncode == 0, done.stderr
        check_probe(json.loads(done.stdout))
