"""Both ways of opening, one contract: RESOLVE_BENEATH as openat2(2) has it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegboard.files.openat import (
    FOLDER_FLAGS,
    O_PATH,
    READ_FLAGS,
    KernelOpener,
    Opener,
    WalkOpener,
    best_opener,
    real_path,
)


@pytest.fixture(params=[KernelOpener, WalkOpener])
def opener(request: pytest.FixtureRequest) -> Opener:
    return request.param()


@pytest.fixture
def folder(root: Path) -> Iterator[int]:
    (root / "d/e").mkdir(parents=True)
    (root / "d/f").write_text("f")
    (root / "in").symlink_to("d/f")
    (root / "dir").symlink_to("d")
    (root / "abs").symlink_to(root / "d/f")
    (root / "up").symlink_to("../x")
    (root / "d/back").symlink_to("../d/./f")
    (root / "me").symlink_to("me")
    (root / "slash").symlink_to("d/")
    descriptor = os.open(root, FOLDER_FLAGS)
    yield descriptor
    os.close(descriptor)


def content(opener: Opener, folder: int, path: str, *, links: bool = True) -> bytes:
    descriptor = opener.open(folder, path, READ_FLAGS, links=links)
    try:
        return os.read(descriptor, 10)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "path", ["d/f", "./d//f", "d/e/../f", "in", "dir/f", "d/back", "slash/f", "dir/../in"]
)
def test_paths_and_relative_links_that_stay_inside_are_followed(
    opener: Opener, folder: int, path: str
) -> None:
    assert content(opener, folder, path) == b"f"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("..", errno.EXDEV), ("d/../..", errno.EXDEV), ("abs", errno.EXDEV), ("up", errno.EXDEV),
        ("/d/f", errno.EXDEV), ("me", errno.ELOOP), ("nothing", errno.ENOENT), ("d/f/x", errno.ENOTDIR),
        ("d/f/", errno.ENOTDIR), ("d/f/.", errno.ENOTDIR), ("nothing/../d/f", errno.ENOENT),
    ],
)  # fmt: skip
def test_what_leaves_or_is_missing_fails_with_the_kernel_s_code(
    opener: Opener, folder: int, path: str, code: int
) -> None:
    with pytest.raises(OSError) as caught:
        opener.open(folder, path, READ_FLAGS)

    assert caught.value.errno == code


@pytest.mark.parametrize("path", ["in", "dir/f", "d/back"])
def test_links_can_be_refused_altogether(opener: Opener, folder: int, path: str) -> None:
    with pytest.raises(OSError) as caught:
        opener.open(folder, path, READ_FLAGS, links=False)

    assert caught.value.errno == errno.ELOOP


def test_a_folder_itself_and_a_path_only_descriptor_can_be_opened(
    opener: Opener, folder: int, root: Path
) -> None:
    for path, expected in ((".", root), ("", root), ("d/e/..", root / "d"), ("in", root / "d/f")):
        descriptor = opener.open(folder, path, O_PATH)
        assert os.path.samestat(os.fstat(descriptor), expected.stat())
        os.close(descriptor)


def test_no_descriptor_leaks(opener: Opener, folder: int) -> None:
    before = len(os.listdir("/proc/self/fd"))

    for path in ("d/f", "in", "abs", "..", "me", "nothing", "d/f/x", "dir/../in"):
        with contextlib.suppress(OSError):
            os.close(opener.open(folder, path, READ_FLAGS))

    assert len(os.listdir("/proc/self/fd")) == before


def test_the_walk_is_taken_where_the_kernel_has_no_openat2() -> None:
    def refused() -> Opener:
        raise OSError(errno.ENOSYS, "filtered")

    assert isinstance(best_opener(refused), WalkOpener)
    assert isinstance(best_opener(), KernelOpener)


def test_another_system_has_no_openat2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")

    with pytest.raises(OSError) as caught:
        KernelOpener()
    assert caught.value.errno == errno.ENOSYS


def test_a_removed_file_has_no_real_path(root: Path) -> None:
    (root / "a").write_text("x")
    (root / "b (deleted)").write_text("x")
    gone, kept = os.open(root / "a", os.O_RDONLY), os.open(root / "b (deleted)", os.O_RDONLY)
    (root / "a").unlink()

    assert real_path(gone) is None
    assert real_path(kept) == str(root / "b (deleted)")
    os.close(gone)
    os.close(kept)
