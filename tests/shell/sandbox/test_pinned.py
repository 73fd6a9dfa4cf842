"""What is cleaned after a command is cleaned where it was found, though a folder of it became a link meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegboard.shell.sandbox.folder_handles import move_out, pinned
from pegboard.shell.sandbox.git import clean_fresh
from pegboard.shell.sandbox.protect import quarantine, restore_links
from tests.ledger import owes
from tests.shell.kit import run, shell_in

EVIL = "[core]\n\tfsmonitor = ./x\n"


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A workspace whose folder `lib` has just become a link to another repository of the person's."""
    workspace, other = tmp_path.resolve() / "ws", tmp_path.resolve() / "other"
    workspace.mkdir()
    (other / ".git" / "hooks").mkdir(parents=True)
    (other / ".git" / "hooks" / "post-commit").write_text("mine")
    (other / ".git" / "config").write_text(EVIL)
    (workspace / "lib").symlink_to(other)
    return workspace, other


@owes("X-58", "N-67")
def test_quarantine_takes_nothing_through_a_folder_that_became_a_link(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    workspace, other = places

    moved = quarantine([workspace / "lib/.git/hooks/post-commit"], workspace, tmp_path / "q")

    assert moved == []
    assert (other / ".git/hooks/post-commit").read_text() == "mine"


@owes("X-58", "N-67")
async def test_a_config_behind_a_folder_that_became_a_link_keeps_its_keys(places: tuple[Path, Path]) -> None:
    workspace, other = places

    assert await clean_fresh(workspace / "lib/.git/config") == ()
    assert (other / ".git/config").read_text() == EVIL
    assert sorted(os.listdir(other / ".git")) == ["config", "hooks"]


@owes("X-58", "N-67")
async def test_a_config_that_became_a_link_is_not_written_through(places: tuple[Path, Path]) -> None:
    workspace, other = places
    (workspace / "config").symlink_to(other / ".git/config")

    assert await clean_fresh(workspace / "config") == ()
    assert (other / ".git/config").read_text() == EVIL


async def test_a_plain_config_is_cleaned_in_its_place_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    config = tmp_path.resolve() / "config"
    config.write_text("[user]\n\tname = a\n" + EVIL)
    there = config.stat().st_ino

    notes = await clean_fresh(config)

    assert "core.fsmonitor" in notes[0]
    assert "fsmonitor" not in config.read_text() and "name = a" in config.read_text()
    assert config.stat().st_ino == there
    assert os.listdir(config.parent) == ["config"]


def test_a_link_is_put_back_into_no_other_folder(places: tuple[Path, Path], tmp_path: Path) -> None:
    workspace, other = places

    restored = restore_links([(workspace / "lib/.vscode", "../x")], workspace, tmp_path / "q")

    # The link `lib` itself stood in the way and went to quarantine.
    assert restored == ["lib/.vscode"]
    assert os.readlink(workspace / "lib/.vscode") == "../x" and not (workspace / "lib").is_symlink()
    assert not (other / ".vscode").exists()


def test_a_folder_is_held_while_its_path_is_swapped(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (base / "a").mkdir()
    (base / "b").mkdir()

    with pinned(base / "a") as fd:
        (base / "a").rename(base / "old")
        (base / "a").symlink_to("b")
        os.mkdir("made", dir_fd=fd)

    assert (base / "old" / "made").is_dir() and not (base / "b" / "made").exists()


def test_what_is_gone_is_told_as_not_moved(tmp_path: Path) -> None:
    assert move_out(tmp_path.resolve() / "no" / "such", tmp_path / "q") is False


@owes("X-58", "N-67")
async def test_a_new_config_with_a_second_name_is_not_left_for_git(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)
    command = "git init -q; git config core.fsmonitor ./x; ln .git/config second"

    outcome = await run(shell, command)

    assert outcome.exit_code == 0
    assert not os.path.lexists(tmp_path / "ws" / ".git" / "config")
    assert any("quarantine" in note for note in outcome.notes)
