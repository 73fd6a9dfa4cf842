"""The deny rows of the documents: as they are written, and as they are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.shell.guard import deny_matches, judge
from pegboard.shell.guard.deny_patterns import DenyMatch
from tests.ledger import owes


def meant(profile: str, command: str, workspace: Path) -> DenyMatch | None:
    return deny_matches(profile, command, judge(command, workspace).effects)


@pytest.mark.parametrize(
    ("row", "command"),
    [
        pytest.param("N-49", "rm -rf build", marks=owes("N-49")),
        pytest.param("N-50", "del /f x", marks=owes("N-50")),
        pytest.param("N-51", "rmdir /s x", marks=owes("N-51")),
        pytest.param("N-52", "ls; format c:", marks=owes("N-52")),
        pytest.param("N-53", "mkfs.ext4 /dev/sda1", marks=owes("N-53")),
        pytest.param("N-54", "dd if=a of=b", marks=owes("N-54")),
        pytest.param("N-55", "cat x > /dev/sda", marks=owes("N-55")),
        pytest.param("N-56", "SHUTDOWN now", marks=owes("N-56")),
        pytest.param("N-57", ":() { :|:& };:", marks=owes("N-57")),
    ],
)
def test_each_default_row_blocks_as_written_and_as_meant(row: str, command: str, tmp_path: Path) -> None:
    written = deny_matches("nanobot", command, as_written=True)
    parsed = meant("nanobot", command, tmp_path)

    assert written is not None
    assert written.row == row
    assert parsed is not None
    assert parsed.row == row


@owes("N-46", "N-58")
@pytest.mark.parametrize(
    "command",
    ["rm --recursive --force x", "rm -r -f x", "env rm -rf x", "find . -exec rm -rf {} +", "r''m -rf x"],
)
def test_the_parsed_reading_sees_removal_however_it_is_spelt(command: str, tmp_path: Path) -> None:
    assert meant("nanobot", command, tmp_path) is not None


@owes("N-49")
@pytest.mark.parametrize("command", ["rm --recursive --force x", "r''m -rf x"])
def test_the_pattern_as_written_misses_what_the_document_misses(command: str) -> None:
    assert deny_matches("nanobot", command, as_written=True) is None


@owes("C-21", "N-52")
@pytest.mark.parametrize(
    "command",
    [
        "git log --format=%H",
        "ruff format src",
        "echo 'rm -rf /'",
        "pytest -k 'not shutdown'",
        "grep -r reboot .",
    ],
)
def test_the_parsed_reading_keeps_words_that_are_data(command: str, tmp_path: Path) -> None:
    assert deny_matches("nanobot-net", command, as_written=True) is not None
    assert meant("nanobot-net", command, tmp_path) is None


@owes("C-21", "C-23")
@pytest.mark.parametrize(
    "command", ["rm -rf /", "FORMAT c:", "dd if=/dev/zero of=x", "shutdown -h now", "reboot", "mkfs /dev/sda"]
)
def test_denied_texts_are_refused_in_the_documents_words(command: str, tmp_path: Path) -> None:
    found = meant("nanobot_net", command, tmp_path)

    assert found is not None
    assert found.text == "Error: Command contains blocked pattern"


@owes("C-49")
def test_the_safe_exec_pattern_has_its_own_words(tmp_path: Path) -> None:
    found = meant("nanobot-net-safe", "reboot", tmp_path)

    assert found is not None
    assert found.text == "Error: Command blocked for security reasons"


@owes("C-22")
def test_further_denied_texts_are_added_to_the_defaults(tmp_path: Path) -> None:
    assert deny_matches("nanobot-net", "git push", extra=["GIT PUSH"]) is not None
    assert deny_matches("nanobot-net", "reboot", judge("reboot", tmp_path).effects, extra=["x"]) is not None
    assert deny_matches("nanobot-net", "git pull", extra=["git push", ""]) is None


@owes("D-57")
@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("rm -rf x", "rm -rf"),
        ("rm -fr x", "rm -rf"),
        ("sudo ls", "sudo"),
        ("sqlite3 a.db 'drop table x'", "DROP TABLE"),
    ],
)
def test_the_safety_hook_names_its_pattern_in_its_own_language(
    command: str, pattern: str, tmp_path: Path
) -> None:
    found = meant("nanobot-hook", command, tmp_path)

    assert found is not None
    assert found.text == f"命令包含危险模式: {pattern}"


@owes("D-57")
@pytest.mark.parametrize("command", ["echo 'DROP TABLE x'", "grep sudo README.md", "rm -r x"])
def test_the_safety_hook_lets_data_and_milder_forms_pass(command: str, tmp_path: Path) -> None:
    assert meant("nanobot-hook", command, tmp_path) is None


def test_an_unknown_profile_is_an_error() -> None:
    with pytest.raises(KeyError):
        deny_matches("nobody", "ls")
