"""Every refusal says what happened to which path, and leaks no place on the machine (ledger N-121)."""

from __future__ import annotations

import errno
import os

import pytest

from pegboard.core.errors import ToolError
from pegboard.files.roots import from_os_error, no_regular_file
from pegboard.files.workspace import ReadState
from tests.ledger import owes

CODES = {
    errno.ENOENT: "not_found", errno.EXDEV: "outside_workspace", errno.ENOTDIR: "not_found",
    errno.EISDIR: "unsupported", errno.ELOOP: "outside_workspace", errno.EACCES: "unavailable",
    errno.EPERM: "unavailable", errno.ENAMETOOLONG: "invalid_arguments", errno.ENXIO: "unsupported",
    errno.EEXIST: "conflict", errno.ENOTEMPTY: "conflict", errno.ENOSPC: "unavailable",
    errno.EDQUOT: "unavailable", errno.EROFS: "unavailable", errno.EFBIG: "too_large",
    errno.EIO: "unavailable", errno.EMFILE: "unavailable",
}  # fmt: skip


@owes("N-36", "N-121", "C-11")
@pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])
def test_each_system_error_becomes_a_code_a_sentence_and_a_hint(code: int) -> None:
    error = from_os_error(OSError(code, os.strerror(code), "/secret/place"), "notes.txt")

    assert error.code == CODES[code]
    assert "notes.txt" in error.message
    assert "/secret/place" not in str(error)
    assert error.hint


@owes("C-18")
def test_a_folder_that_is_not_there_is_called_a_directory() -> None:
    error = from_os_error(OSError(errno.ENOENT, ""), "a/b", noun="Directory")

    assert error.message == "Directory not found: a/b"


def test_a_file_where_a_folder_was_asked_is_no_missing_folder() -> None:
    assert from_os_error(OSError(errno.ENOTDIR, ""), "a", noun="Directory").code == "unsupported"


@pytest.mark.parametrize(
    ("mode", "word"),
    [
        (0o010644, "FIFO"),
        (0o140644, "socket"),
        (0o120777, "link"),
        (0o020644, "device"),
        (0o040755, "folder"),
    ],
)
def test_special_files_are_called_by_their_kind(mode: int, word: str) -> None:
    assert word in no_regular_file(mode, "p").message


@owes("K-37")
def test_the_read_state_is_bounded_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.files.workspace._MOST_FILES", 2)
    monkeypatch.setattr("pegboard.files.workspace._KEEP_TOTAL_BYTES", 10)
    state = ReadState()
    for name in ("a", "b", "c"):
        state.note("s", name, digest=name, size=8, mtime_ns=0, content=b"12345678")

    assert state.get("s", "a") is None
    kept = [state.get("s", name) for name in ("b", "c")]
    assert all(kept)
    assert sum(len(file.content or b"") for file in kept if file) <= 10
    state.forget("s", "b")
    state.forget("s", "b")
    assert state.get("s", "b") is None


def test_a_file_too_large_to_hash_is_told_by_its_size() -> None:
    state = ReadState()
    state.note("s", "big", digest="", size=5, mtime_ns=0)

    state.check("s", "big", b"12345")
    with pytest.raises(ToolError, match=r"5 bytes then, 6 now"):
        state.check("s", "big", b"123456")
