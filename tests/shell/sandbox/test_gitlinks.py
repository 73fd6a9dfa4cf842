"""Repositories that the workspace's index names: `git status` outside must run nothing that a command wrote."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from pegboard.app.shell import JournalSnapshots
from pegboard.files.journal import Journal
from pegboard.ports.processes import Process
from pegboard.ports.shell import ExecRequest
from pegboard.shell.background import BackgroundCommands
from pegboard.shell.sandbox.git import gitlinks
from tests.ledger import owes
from tests.shell.kit import run, shell_in


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@example.com"}
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=env, capture_output=True, check=True, text=True
    )
    return done.stdout


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("a")
    git(folder, "add", "a")
    git(folder, "commit", "-qm", "one")
    return folder


MAKE = """
git init -q lib && cd lib && git -c user.name=a -c user.email=a@x commit -q --allow-empty -m x
{evil}
cd .. && git -c advice.addEmbeddedRepo=false add lib
"""


@owes("X-58")
@pytest.mark.parametrize(
    "evil",
    [
        "git config core.fsmonitor $PWD/../evil",
        "mkdir -p .git/hooks; cp ../evil .git/hooks/post-index-change",
        "printf '[include]\\n path = ../../more\\n' >> .git/config; git config -f ../more core.fsmonitor $PWD/../evil",
        "mv .git ../hidden; git config -f ../hidden/config core.fsmonitor $PWD/../evil; echo 'gitdir: ../hidden' > .git",
        "mv .git ../hidden; git config -f ../hidden/config core.fsmonitor $PWD/../evil; ln -s ../hidden .git",
        "git config -f .git/config.worktree core.fsmonitor $PWD/../evil; git config extensions.worktreeConfig true",
        "git update-index --split-index; cd ..; git add lib; git update-index --split-index; git -C lib config core.fsmonitor $PWD/evil; cd lib",
        "cd ..; git add lib; git update-index --index-version 4; git -C lib config core.fsmonitor $PWD/evil; cd lib",
    ],
)  # fmt: skip
async def test_git_status_outside_runs_nothing_that_a_command_wrote(
    tmp_path: Path, workspace: Path, evil: str
) -> None:
    ran = tmp_path / "ran"
    (workspace / "evil").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (workspace / "evil").chmod(0o755)
    shell = await shell_in(tmp_path)

    outcome = await run(shell, MAKE.format(evil=evil))
    assert outcome.exit_code == 0, outcome.stderr
    assert "lib" in git(workspace, "ls-files")
    git(workspace, "status", "--porcelain")

    assert not ran.exists()
    assert any("lib" in note or "hidden" in note for note in outcome.notes), outcome.notes


async def test_without_the_sandbox_git_status_does_run_it(tmp_path: Path, workspace: Path) -> None:
    # The attack is real: else the tests above would hold for nothing.
    ran = tmp_path / "ran"
    (workspace / "evil").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (workspace / "evil").chmod(0o755)
    shell = await shell_in(tmp_path, "none")

    await run(shell, MAKE.format(evil="git config core.fsmonitor $PWD/../evil"))
    git(workspace, "status", "--porcelain")

    assert ran.exists()


async def test_a_persons_own_linked_repository_keeps_its_settings(tmp_path: Path, workspace: Path) -> None:
    shell = await shell_in(tmp_path)
    await run(shell, MAKE.format(evil=":"))
    git(workspace / "lib", "config", "alias.st", "status")
    hook = workspace / "lib" / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")

    outcome = await run(
        shell, "cd lib && echo x > y && git add y && git config remote.o.url https://x.example/y"
    )

    assert git(workspace / "lib", "config", "alias.st").strip() == "status"
    assert git(workspace / "lib", "config", "remote.o.url").strip() == "https://x.example/y"
    assert hook.exists() and outcome.notes == ()


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_an_index_is_read_as_git_reads_it(tmp_path: Path, version: str, format: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={format}")
    name = "0" * (39 if format == "sha1" else 63) + "1"
    for path in ("a", "lib/one", "lib/other", "z" * 300, "é"):
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{name},{path}")
    (tmp_path / "plain").write_text("x")
    git(tmp_path, "add", "plain")
    git(tmp_path, "update-index", "--index-version", version)

    index = (tmp_path / ".git" / "index").read_bytes()
    linked = {"a", "lib/one", "lib/other", "z" * 300, "é"}
    assert set(gitlinks(index)) == linked
    # git need not write the checksum (index.skipHash): then none is missed.
    size = 20 if format == "sha1" else 32
    assert set(gitlinks(index[:-size] + bytes(size))) >= linked


@pytest.mark.parametrize("broken", [b"", b"DIRC", b"DIRC\0\0\0\2\xff\xff\xff\xff" + b"\0" * 50, b"\0" * 100])
def test_a_broken_index_names_nothing(broken: bytes) -> None:
    assert gitlinks(broken) == []


NEW = "git init -q sub; git -C sub -c user.name=a -c user.email=a@x commit -q --allow-empty -m x; "


@pytest.mark.parametrize(
    "commands",
    [
        ["git init -q sub; git -C sub config core.fsmonitor $PWD/evil"],
        ["git init -q sub", "git -C sub config core.fsmonitor $PWD/evil"],
        [NEW + "git -C sub config core.hooksPath $PWD; cp evil post-index-change"],
        [NEW + "cp evil sub/.git/hooks/post-index-change"],
        [NEW + "mkdir h; cp evil h/post-index-change; rm -r sub/.git/hooks; ln -s ../../h sub/.git/hooks"],
        [NEW + "git config -f more core.fsmonitor $PWD/evil; git -C sub config include.path $PWD/more"],
        [NEW + "mv sub/.git hidden; git config -f hidden/config core.fsmonitor $PWD/evil; echo gitdir: ../hidden > sub/.git"],
        [NEW + "mv sub/.git hidden; git config -f hidden/config core.fsmonitor $PWD/evil; ln -s ../hidden sub/.git"],
        [NEW + "git config -f sub/.git/config.worktree core.fsmonitor $PWD/evil; git -C sub config extensions.worktreeConfig true"],
        [NEW + "mkdir o; git config -f o/config core.fsmonitor $PWD/evil; cp -r sub/.git/objects sub/.git/refs o; echo ../../o > sub/.git/commondir"],
        [NEW + "mv sub/.git/HEAD .; git -C . config -f sub/.git/config core.fsmonitor $PWD/evil", "mv HEAD sub/.git/HEAD"],
        [NEW + "mv sub/.git s; mv s/HEAD .; git config -f s/config core.fsmonitor $PWD/evil", "mv HEAD s; mv s sub/.git"],
        [NEW + "mkdir n; git config -f n/config core.fsmonitor $PWD/evil", "mkdir -p m/.git; mv n/config sub/.git/config"],
    ],
)  # fmt: skip
async def test_git_in_a_repository_that_a_command_made_runs_nothing(
    tmp_path: Path, workspace: Path, commands: list[str]
) -> None:
    ran = tmp_path / "ran"
    (workspace / "evil").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (workspace / "evil").chmod(0o755)
    shell = await shell_in(tmp_path, snapshots=JournalSnapshots(workspace, Journal(tmp_path / "journal")))

    outcomes = [await run(shell, command) for command in commands]
    assert outcomes[-1].exit_code == 0, outcomes[-1].stderr
    with contextlib.suppress(subprocess.CalledProcessError):
        git(workspace / "sub", "status", "--porcelain")
        git(workspace / "sub", "add", ".")

    assert not ran.exists()
    assert any(note for outcome in outcomes for note in outcome.notes)


async def test_a_repository_that_was_made_in_the_background_runs_nothing_either(
    tmp_path: Path, workspace: Path
) -> None:
    ran = tmp_path / "ran"
    (workspace / "evil").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (workspace / "evil").chmod(0o755)
    shell = await shell_in(tmp_path, snapshots=JournalSnapshots(workspace, Journal(tmp_path / "journal")))
    jobs = BackgroundCommands(shell)

    request = ExecRequest(command="read; " + NEW + "git -C sub config core.fsmonitor $PWD/evil", timeout_s=0)
    started = await jobs.start(request)
    assert isinstance(started, Process)
    await jobs.send(started.process_id, "go\n")
    await jobs.wait_for(started.process_id, "never", timeout_s=20)
    git(workspace / "sub", "status", "--porcelain")

    assert not ran.exists()
    assert any("core.fsmonitor" in note for process in jobs.list() for note in process.notes)
    await jobs.close()


async def test_ordinary_work_in_a_repository_below_the_workspace_says_nothing(
    tmp_path: Path, workspace: Path
) -> None:
    shell = await shell_in(tmp_path, snapshots=JournalSnapshots(workspace, Journal(tmp_path / "journal")))
    made = await run(
        shell, NEW + "cd sub; git remote add o https://x.example/y; git worktree add -q ../wt -b side"
    )
    git(workspace / "sub", "config", "alias.st", "status")
    hook = workspace / "sub" / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\n")
    again = await run(
        shell,
        "cd wt && echo x > y && git add y && git -c user.name=a -c user.email=a@x commit -nqm y; mv ../sub ../moved",
    )

    assert (made.exit_code, again.exit_code, again.notes) == (0, 0, ())
    assert [note for note in made.notes if ".git/objects was created" not in note] == []
    assert git(workspace / "moved", "config", "alias.st").strip() == "status"
    assert (workspace / "moved/.git/hooks/pre-commit").exists()


async def test_a_protected_link_whose_folder_became_a_link_moves_nothing_outside(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    outside.mkdir()
    (outside / "prod.toml").write_text("mine")
    (workspace / "conf").mkdir(parents=True)
    (workspace / "real.toml").write_text("real")
    (workspace / "conf" / "prod.toml").symlink_to("../real.toml")
    shell = await shell_in(tmp_path, confine={"protected": ("conf/prod.toml",)})

    done = await run(shell, f"mv conf away && ln -s {outside} conf")

    assert done.exit_code == 0, done.stderr
    assert sorted(entry.name for entry in outside.iterdir()) == ["prod.toml"]
    assert (outside / "prod.toml").read_text() == "mine" and not (outside / "prod.toml").is_symlink()
    assert not (workspace / "conf").is_symlink()
    assert os.readlink(workspace / "conf" / "prod.toml") == "../real.toml"
