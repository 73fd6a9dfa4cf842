"""The contract of every backend: attempts to leave it fail, for root and for an ordinary user."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.ledger import owes
from tests.shell.sandbox.escapes import attack
from tests.shell.sandbox.images import IMAGE, make_image
from tests.shell.sandbox.places import as_ordinary_user, copy_source, open_folder, reachable_python


def check(found: dict[str, Any], *, own_filter: bool) -> None:
    """Nothing was seen, nothing was changed, nothing is left."""
    assert "problem" not in found, found["problem"]
    assert "TOPSECRET" not in json.dumps(found)
    assert found["left"] == ["secret", "socket"]
    assert found["survived"] is False
    assert found["running"] == []

    assert found["files"][0] != 0
    assert "Read-only file system" in found["files"][2]
    assert "REACHED" not in found["network"][1]
    assert found["network"][1].count("no ") == 5
    assert "REACHED" not in found["raw sockets"][1]
    assert "PROVIDER_API_KEY" not in found["environment"][1]
    assert "PATH=" in found["environment"][1]
    assert int(found["descriptors"][1].split()[0]) <= 4

    proc = found["proc"][2]
    assert "core_pattern: Read-only" in proc or "core_pattern: Permission denied" in proc
    assert "drop_caches: Read-only" in proc or "drop_caches: Permission denied" in proc
    assert found["devices"][2].count("Operation not permitted") >= 2
    assert not {"mem", "kmem", "sda", "vda", "kmsg"} & set(found["devices"][1].split())
    assert "CapEff:\t0000000000000000" in found["setuid"][1]
    assert "NoNewPrivs:\t1" in found["setuid"][1]
    if own_filter:
        assert "755\n" in found["setuid"][1].splitlines(keepends=True)
        assert found["ptrace"][1] == "refused refused\n"

    assert int(found["forks"][1]) < 64
    assert found["memory"][0] != 0
    assert "took" not in found["memory"][1]
    assert found["processor"][0] != 0
    assert found["disk"][1] == "8388608\n8388608\n"
    assert found["works"][1] == "in\n42\n"


@owes("G-07", "X-58", "N-67")
@pytest.mark.slow
async def test_nobody_leaves_bubblewrap_as_we_are() -> None:
    with open_folder() as folder:
        check(await attack(folder, "bubblewrap"), own_filter=True)


@pytest.mark.full
@owes("G-07", "X-58")
@pytest.mark.slow
def test_nobody_leaves_bubblewrap_as_an_ordinary_user() -> None:
    with open_folder() as folder:
        copy_source(folder)
        shutil.copy(Path(__file__).with_name("escapes.py"), folder)

        done = as_ordinary_user([reachable_python(), "escapes.py", str(folder), "bubblewrap"], folder)

        assert done.returncode == 0, done.stderr
        check(json.loads(done.stdout), own_filter=True)


@owes("D-58", "D-59", "D-60", "X-58")
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["podman", "docker"])
async def test_nobody_leaves_a_container(backend: str) -> None:
    problem = make_image(backend)
    if problem:
        pytest.skip(f"{backend} cannot be had here: {problem}")
    before = containers(backend)
    with open_folder() as folder:
        found = await attack(folder, backend, IMAGE)
        if "problem" in found:
            pytest.skip(f"{backend} cannot be had here: {found['problem']}")

        check(found, own_filter=False)
    assert containers(backend) <= before


def containers(backend: str) -> set[str]:
    """The containers that are there, ended ones too."""
    listed = subprocess.run(
        [backend, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, check=True
    )
    return set(listed.stdout.split())
