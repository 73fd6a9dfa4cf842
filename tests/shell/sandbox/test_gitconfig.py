"""Which settings of a repository may come out of the sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegboard.shell.sandbox.git import clean_fresh, identity, is_safe, merge_config


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.fsmonitor", "x"),
        ("core.sshCommand", "x"),
        ("core.hooksPath", "x"),
        ("core.pager", "x"),
        ("core.editor", "x"),
        ("core.worktree", "/"),
        ("alias.st", "!x"),
        ("filter.lfs.smudge", "x"),
        ("diff.x.textconv", "x"),
        ("include.path", "x"),
        ("includeIf.gitdir:/.path", "x"),
        ("credential.helper", "!x"),
        ("gpg.program", "x"),
        ("remote.o.uploadpack", "x"),
        ("remote.o.receivepack", "x"),
        ("remote.o.vcs", "x"),
        ("remote.o.url", "ext::sh -c x"),
        ("remote.o.url", "-oProxyCommand=x"),
        ("remote.o.url", "ssh://-oProxyCommand=x/y"),
        ("url.x.insteadOf", "y"),
        ("submodule.x.update", "!x"),
        ("protocol.ext.allow", "always"),
        ("sequence.editor", "x"),
        ("uploadpack.packObjectsHook", "x"),
        ("extensions.worktreeConfig", "true"),
    ],
)
def test_settings_that_start_programs_are_unsafe(key: str, value: str) -> None:
    assert not is_safe(key, value)
    assert not is_safe(key, value, fresh=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("remote.origin.url", "https://example.com/x.git"),
        ("remote.origin.url", "git@example.com:x/y.git"),
        ("remote.a.b.fetch", "+refs/heads/*:refs/remotes/a/*"),
        ("branch.feature/x.merge", "refs/heads/x"),
        ("user.email", "a@x"),
        ("pull.rebase", "true"),
    ],
)
def test_where_and_how_to_fetch_is_safe(key: str, value: str) -> None:
    assert is_safe(key, value)


async def test_a_copy_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    real, copy = tmp_path / "real", tmp_path / "copy"
    real.write_text("[core]\n\tbare = false\n")
    copy.write_text("[[[ nonsense")

    notes = await merge_config(real, real.read_bytes(), copy, tmp_path)

    assert "dropped" in notes[0]
    assert real.read_text() == "[core]\n\tbare = false\n"


async def test_an_unchanged_copy_says_nothing(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text("[a]\n")

    assert await merge_config(real, b"[a]\n", real, tmp_path) == ()


async def test_several_values_of_a_key_and_removals_are_taken_over(tmp_path: Path) -> None:
    real, copy = tmp_path / "real", tmp_path / "copy"
    real.write_text('[remote "o"]\n\tfetch = a\n[branch "x"]\n\tremote = o\n')
    copy.write_text('[remote "o"]\n\tfetch = a\n\tfetch = b\n')

    assert await merge_config(real, real.read_bytes(), copy, tmp_path) == ()

    text = real.read_text()
    assert text.count("fetch") == 2
    assert "branch" not in text or "remote = o" not in text


async def test_a_new_config_that_git_cannot_read_is_removed(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("[[[")

    assert "removed" in (await clean_fresh(config))[0]
    assert not config.exists()


async def test_the_users_identity_is_read_from_git(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada L\n")

    found = await identity(
        {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    )

    assert found == ("Ada L", "")
    assert await identity({"PATH": str(tmp_path)}) == ("", "")
