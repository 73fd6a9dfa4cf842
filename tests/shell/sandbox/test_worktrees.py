"""Linked worktrees, folders of hooks and waiting rebases: git outside must run nothing that a command wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.app.shell import git_settings
from pegboard.shell.sandbox.git import folder_inside, started_by
from tests.ledger import owes
from tests.shell.kit import run, shell_in
from tests.shell.sandbox.test_gitlinks import git


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with a linked worktree beside it, and a program that leaves a mark."""
    folder = tmp_path / "ws"
    folder.mkdir()
    git(folder, "init", "-q")
    for key in ("name", "email"):
        git(folder, "config", f"user.{key}", "a@example.com")
    (folder / "a").write_text("a")
    (folder / "evil").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (folder / "evil").chmod(0o755)
    git(folder, "add", "a", "evil")
    git(folder, "commit", "-qm", "one")
    git(folder, "worktree", "add", "-q", "../wt")
    return folder


OTHER = "git init -q o && git -C o config core.fsmonitor $PWD/evil && "
ELSEWHERE = [
    OTHER + "echo $PWD/o/.git > .git/worktrees/wt/commondir",
    OTHER
    + "echo ../../../o/.git > .git/worktrees/wt/x && mv .git/worktrees/wt/x .git/worktrees/wt/commondir",
    OTHER
    + "cp -r o/.git/config o/.git/objects o/.git/refs .git/worktrees/wt/ && rm .git/worktrees/wt/commondir",
    OTHER + "rm .git/worktrees/wt/commondir && ln -s /proc/self/cwd/o/.git/HEAD .git/worktrees/wt/commondir",
    OTHER + "mv .git/worktrees/wt w && echo $PWD/o/.git > w/commondir && ln -s ../../w .git/worktrees/wt",
    OTHER + "mv .git/worktrees w && echo $PWD/o/.git > w/wt/commondir && ln -s ../w .git/worktrees",
    "git config -f .git/worktrees/wt/config.worktree core.fsmonitor $PWD/evil",
    "git config -f .git/c core.fsmonitor $PWD/evil && ln .git/c .git/worktrees/wt/config.worktree",
]


@owes("X-58")
@pytest.mark.parametrize("evil", ELSEWHERE)
async def test_git_in_a_linked_worktree_runs_nothing_that_a_command_wrote(
    tmp_path: Path, workspace: Path, evil: str
) -> None:
    git(workspace, "config", "extensions.worktreeConfig", "true")
    shell = await shell_in(tmp_path)

    outcome = await run(shell, evil)
    assert outcome.exit_code == 0, outcome.stderr
    try:
        git(tmp_path / "wt", "status", "--porcelain")
    except Exception:  # noqa: BLE001  A worktree whose folder a command took away is no repository any more.
        assert "w" in evil

    assert not (tmp_path / "ran").exists()
    assert any("worktree" in note for note in outcome.notes), outcome.notes


@pytest.mark.parametrize("evil", [ELSEWHERE[0], ELSEWHERE[2], ELSEWHERE[6]])
async def test_without_the_sandbox_git_does_run_it(tmp_path: Path, workspace: Path, evil: str) -> None:
    # The attack is real: else the tests above would hold for nothing.
    git(workspace, "config", "extensions.worktreeConfig", "true")
    shell = await shell_in(tmp_path, "none")

    await run(shell, evil)
    git(tmp_path / "wt", "status", "--porcelain")

    assert (tmp_path / "ran").exists()


async def test_worktrees_come_and_go_and_keep_what_is_theirs(tmp_path: Path, workspace: Path) -> None:
    git(workspace, "config", "extensions.worktreeConfig", "true")
    git(tmp_path / "wt", "config", "--worktree", "alias.st", "status")
    shell = await shell_in(tmp_path)

    outcome = await run(
        shell, "git worktree add -q inner && cd inner && echo b > b && git add b && git commit -qm two && cd .. "
        "&& git worktree remove inner && git worktree list && git log --oneline inner"
    )  # fmt: skip

    assert outcome.exit_code == 0, outcome.stderr
    assert "two" in outcome.stdout and outcome.notes == ()
    assert git(tmp_path / "wt", "config", "alias.st").strip() == "status"


async def test_in_a_linked_worktree_the_repository_outside_is_looked_after_too(
    tmp_path: Path, workspace: Path
) -> None:
    # The workspace is the linked worktree now; what it shares lies in the other folder.
    git(workspace, "config", "extensions.worktreeConfig", "true")
    git(workspace, "worktree", "add", "-q", "../third")
    (tmp_path / "repository").mkdir()
    common = workspace / ".git"
    place = tmp_path / "as" / "ws"
    place.parent.mkdir()
    git(workspace, "worktree", "move", "../wt", str(place))
    shell = await shell_in(tmp_path / "as")

    evil = f"{place}/evil"
    outcome = await run(
        shell, f"for f in config.worktree worktrees/third/config.worktree; do git config -f {common}/$f core.fsmonitor {evil}; done"
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.stderr
    git(workspace, "status", "--porcelain")
    git(tmp_path / "third", "status", "--porcelain")

    assert not (tmp_path / "ran").exists()
    assert sum("core.fsmonitor" in note for note in outcome.notes) == 2, outcome.notes


@owes("X-58")
@pytest.mark.parametrize(("path", "hook"), [
    (".husky", ".husky/pre-commit"), (".husky/_", ".husky/pre-commit"), ("tools/hooks", "tools/hooks/pre-commit"),
    ('"./my hooks/"', "my hooks/pre-commit"),
])  # fmt: skip
@pytest.mark.parametrize("there", [True, False])
async def test_hooks_that_a_command_wrote_do_not_run_at_the_next_commit(
    tmp_path: Path, workspace: Path, path: str, hook: str, there: bool
) -> None:
    git(workspace, "config", "core.hooksPath", path.strip('"'))
    if there:
        (workspace / hook).parent.mkdir(parents=True)
        (workspace / hook).write_text("#!/bin/sh\n")
        (workspace / hook).chmod(0o755)
    shell = await shell_in(tmp_path)

    outcome = await run(shell, f"mkdir -p '{Path(hook).parent}'; cp evil '{hook}'")
    git(workspace, "commit", "--allow-empty", "-qm", "two")

    assert not (tmp_path / "ran").exists()
    assert outcome.exit_code != 0 if there else any("quarantine" in note for note in outcome.notes)


@pytest.mark.parametrize(("value", "folder"), [
    (".husky", ".husky"), (".husky/_", ".husky"), ("a/b/../hooks", "a/hooks"), ("/ws/hooks", "hooks"), ("_", "_"),
    ("", ""), (".", ""), ("..", ""), ("../hooks", ""), ("/ws", ""), ("/etc/hooks", ""), ("~/hooks", ""), (".git", ""),
    (".git/hooks", ".git/hooks"),
])  # fmt: skip
def test_a_folder_of_hooks_is_found_where_git_finds_it(value: str, folder: str) -> None:
    assert folder_inside(Path("/ws"), value) == folder


@pytest.mark.parametrize(("text", "found"), [
    ("[core]\n\thooksPath = .husky\n", (".husky",)), ("[CORE] HOOKSPATH=a # b\n", ("a",)), ('[core]\nhooksPath = "a b" ; c\n', ("a b",)),
    ("[core]\nhooksPath = a\nhooksPath = b\n", ("a", "b")), ("[core]\n# hooksPath = a\n", ()), ("[core]\nbare = false\n", ()),
])  # fmt: skip
def test_the_config_is_read_as_git_reads_it(tmp_path: Path, text: str, found: tuple[str, ...]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(text)

    assert started_by(tmp_path) == found
    # git itself says the last one.
    git_says = git(tmp_path, "config", "--file", ".git/config", "--default", "", "core.hooksPath").strip()
    assert git_says == (found[-1] if found else "")


def test_a_persons_own_settings_name_hooks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("[core]\n\thooksPath = .githooks\n[user]\n\tname = A B\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "mine"))

    assert git_settings(tmp_path, tmp_path) == {"core.hookspath": ".githooks", "user.name": "A B"}


async def test_a_rebase_that_would_run_something_outside_is_told(tmp_path: Path, workspace: Path) -> None:
    shell = await shell_in(tmp_path)
    edit = "GIT_SEQUENCE_EDITOR='sed -i 1iexec\\ false' git rebase -i --root; "

    outcome = await run(shell, edit + 'echo "exec $PWD/evil" > .git/rebase-merge/git-rebase-todo')
    quiet = await run(shell, "true")
    ended = await run(shell, "git rebase --abort")

    assert [note for note in outcome.notes if "would run: exec" in note and "/evil" in note]
    assert quiet.notes == () and ended.notes == ()


@owes("X-58")
@pytest.mark.parametrize("inside_of", ["main", "linked"])
@pytest.mark.parametrize("evil", [
    "git config -f {sub}/config core.fsmonitor {evil}", "mkdir -p {sub}/hooks; cp {evil} {sub}/hooks/post-index-change",
    "mv {sub} {sub}2; cp -r {sub}2 {sub}; mkdir -p {sub}/hooks; cp {evil} {sub}/hooks/post-index-change",
    "git config -f {sub}/config.worktree core.fsmonitor {evil}; git config -f {sub}/config extensions.worktreeConfig true",
])  # fmt: skip
async def test_submodules_of_a_linked_worktree_are_looked_after(
    tmp_path: Path, workspace: Path, evil: str, inside_of: str
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    git(library, "commit", "-q", "--allow-empty", "-m", "x")
    place = tmp_path / "as" / "ws"
    place.parent.mkdir()
    git(workspace, "worktree", "move", "../wt", str(place))
    git(place, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub")
    sub = workspace / ".git" / "worktrees" / "wt" / "modules" / "sub"
    assert (sub / "config").is_file()
    root = workspace if inside_of == "main" else place
    shell = await shell_in(tmp_path if inside_of == "main" else tmp_path / "as")

    await run(shell, evil.format(sub=sub, evil=root / "evil"))
    git(place, "status", "--porcelain")

    assert not (tmp_path / "ran").exists()
