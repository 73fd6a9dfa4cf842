"""What the commands of one session share: a loopback network, and ordinary work on `.git/config`."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pegboard import Executor, builtin
from pegboard.ports.processes import Process
from pegboard.ports.shell import ExecRequest
from pegboard.process.child import is_zombie
from pegboard.shell.background import BackgroundCommands
from pegboard.shell.sandbox.namespaces import SharedNamespaces
from tests.ledger import owes
from tests.shell.kit import run, shell_in
from tests.waiting import soon

_SERVER = "python3 -u -m http.server --bind 127.0.0.1 {port} -d site"
_GET = "import urllib.request as u; print(u.build_opener(u.ProxyHandler({{}})).open('http://127.0.0.1:{port}/x').read())"


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "safe.directory=*")
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
async def repository(tmp_path: Path) -> Path:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "first")
    return workspace


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[tuple[BackgroundCommands, int]]:
    """A session in which a web server runs in the background, and its port."""
    (tmp_path / "ws" / "site").mkdir(parents=True)
    (tmp_path / "ws" / "site" / "x").write_text("hello")
    jobs = BackgroundCommands(await shell_in(tmp_path))
    started = await jobs.start(ExecRequest(command=_SERVER.format(port=3000), timeout_s=0))
    assert isinstance(started, Process)
    assert (await jobs.wait_for(started.process_id, "Serving", timeout_s=20)).matched
    yield jobs, 3000
    await jobs.close()


def fetch(port: int) -> str:
    return f'python3 -c "{_GET.format(port=port)}"'


@owes("N-67", "G-07")
async def test_a_server_that_one_command_left_running_is_reached_by_the_next(
    serving: tuple[BackgroundCommands, int],
) -> None:
    jobs, port = serving

    outcome = await run(jobs._shell, fetch(port))  # pyright: ignore[reportPrivateUsage]

    assert outcome.stdout == "b'hello'\n", outcome.stderr


async def test_the_shared_loopback_is_neither_the_hosts_nor_another_sessions(
    serving: tuple[BackgroundCommands, int], tmp_path: Path
) -> None:
    jobs, port = serving
    with socket.create_server(("127.0.0.1", 0)) as host:
        inside = await run(jobs._shell, fetch(host.getsockname()[1]))  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "other").mkdir()
    other = await run(await shell_in(tmp_path / "other"), fetch(port))

    assert "Connection refused" in inside.stderr
    assert "Connection refused" in other.stderr
    with socket.socket() as outside:
        assert outside.connect_ex(("127.0.0.1", port)) != 0


async def test_hosts_granted_to_one_command_are_out_of_reach_of_the_others(
    serving: tuple[BackgroundCommands, int],
) -> None:
    jobs, _ = serving
    granted = asyncio.create_task(run(jobs._shell, "sleep 2; echo done", hosts=("example.com",)))  # pyright: ignore[reportPrivateUsage]
    others = [await run(jobs._shell, fetch(3128)) for _ in range(2)]  # pyright: ignore[reportPrivateUsage]

    assert all("Connection refused" in other.stderr for other in others)
    assert (await granted).stdout == "done\n"


@owes("K-31", "D-58")
@pytest.mark.slow
async def test_git_writes_its_config_in_a_repository_that_was_there_before(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "clone", "-q", "--bare", str(repository), str(repository / "up.git"))
    shell = await shell_in(tmp_path, confine={"identity": ("Ada", "ada@example.com")})

    outcome = await run(
        shell,
        "set -e; git config user.name Me; git remote add origin ./up.git; git fetch -q origin;"
        " git checkout -q -b side --track origin/main; echo a > a; git add a; git commit -qm two;"
        " git push -q -u origin side; echo b >> a; git stash -q; git stash pop -q; git commit -qam three;"
        " git branch --set-upstream-to=origin/main main; git remote rename origin up; git worktree add -q ../ws/w2 -b w;"
        " git -C w2 config user.email me@example.com; git branch --unset-upstream main; cat .git/config",
    )

    assert outcome.exit_code == 0, (outcome.stderr, outcome.stdout)
    assert outcome.notes == ()
    config = repository / ".git" / "config"
    assert not config.is_symlink()
    assert git(repository, "config", "--get", "remote.up.url") == "./up.git\n"
    assert git(repository, "config", "--get", "branch.side.remote") == "up\n"
    assert git(repository, "config", "--file", str(config), "user.email") == "me@example.com\n"
    assert "branch.main" not in git(repository, "config", "--list", "--local")
    assert git(repository, "rev-parse", "--abbrev-ref", "side@{upstream}") == "up/side\n"
    # Nothing of git's own stays stale: HEAD and index are the real ones.
    assert git(repository, "symbolic-ref", "HEAD") == "refs/heads/side\n"
    git(repository, "fsck")


@pytest.mark.slow
async def test_a_submodule_is_added_and_its_config_starts_no_programs(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "clone", "-q", "--bare", str(repository), str(repository / "part.git"))
    shell = await shell_in(tmp_path, confine={"identity": ("Ada", "ada@example.com")})
    added = await run(
        shell,
        "set -e; git -c protocol.file.allow=always submodule --quiet add ./part.git part; git commit -qm part",
    )
    owned = tmp_path / "owned"

    await run(shell, f"git -C part config core.fsmonitor 'touch {owned}'; echo x > part/y; git -C part add y")
    planted = await run(shell, f"printf '#!/bin/sh\\ntouch {owned}\\n' > .git/modules/part/hooks/post-commit")
    renamed = await run(shell, "mv .git/modules/part .git/modules/x || mv .git/modules .git/x")

    assert added.exit_code == 0, added.stderr
    assert git(repository, "config", "--get", "submodule.part.active") == "true\n"
    assert "part" in git(repository, "submodule", "status")
    assert "fsmonitor" not in (repository / ".git" / "modules" / "part" / "config").read_text()
    assert "worktree = ../../../part" in (repository / ".git" / "modules" / "part" / "config").read_text()
    assert planted.exit_code != 0
    assert renamed.exit_code != 0
    assert not (repository / ".git" / "modules" / "part" / "hooks" / "post-commit").exists()
    git(repository, "status")
    assert not owned.exists()


async def test_a_linked_worktree_writes_the_shared_config_of_its_repository(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", str(tmp_path / "ws"), "-b", "side")

    outcome = await run(
        await shell_in(tmp_path), "git remote add o https://example.com/x && git config core.fsmonitor evil"
    )

    assert outcome.exit_code == 0, outcome.stderr
    assert "https://example.com/x" in (main / ".git" / "config").read_text()
    assert "fsmonitor" not in (main / ".git" / "config").read_text()
    assert "core.fsmonitor" in outcome.notes[0]


@pytest.mark.parametrize(
    "attack",
    [
        "git config core.hooksPath /tmp/h",
        "git config alias.st '!touch owned'",
        "git config include.path ../evil",
        "git config credential.helper '!evil'",
        "git config filter.x.smudge evil; git config diff.external evil",
        "git config remote.o.url 'ext::sh -c evil'; git config core.sshCommand evil",
        "rm -f .git/config; mv .git/config x; ln -sf evil .git/config; cp /dev/null .git/config",
        "echo '[core] fsmonitor=evil' > .git/config.lock; mv .git/config.lock .git/config",
        "rm /run/pegboard-git/config; ln -s /etc/passwd /run/pegboard-git/config",
        "rm /run/pegboard-git/config; mkfifo /run/pegboard-git/config",
        "rm /run/pegboard-git/config; mkdir /run/pegboard-git/config",
        "rm -rf /run/pegboard-git/config; echo '[core' > /run/pegboard-git/config",
        "mv /run/pegboard-git/config /run/pegboard-git/x; truncate -s 2G /run/pegboard-git/config",
        "umount .git/config; unshare -Urm umount .git/config; nsenter -t 1 -m true",
    ],
)
@owes("G-07")
async def test_no_way_of_writing_the_config_reaches_the_real_one(
    repository: Path, tmp_path: Path, attack: str
) -> None:
    before = (repository / ".git" / "config").read_bytes()

    await run(await shell_in(tmp_path), attack)

    assert not (repository / ".git" / "config").is_symlink()
    assert (repository / ".git" / "config").read_bytes() == before


async def test_a_running_command_does_not_get_at_the_config_when_another_ones_changes_are_merged(
    repository: Path, tmp_path: Path
) -> None:
    shell = await shell_in(tmp_path)
    waits = "touch ready; while [ ! -e go ]; do sleep .01; done; "
    evil = asyncio.create_task(run(shell, waits + "git config core.fsmonitor evil; cat .git/config"))
    await soon((repository / "ready").exists, "the first command waits")
    await run(shell, "git config user.name Me; git remote add o https://example.com/x")
    (repository / "go").touch()

    outcome = await evil

    config = (repository / ".git" / "config").read_text()
    assert "fsmonitor" not in config
    assert "name = Me" in config
    # Each has its own copy: what the other one set meanwhile is neither seen nor undone.
    assert "Me" not in outcome.stdout
    assert "core.fsmonitor" in outcome.notes[0]


async def test_a_config_that_was_replaced_outside_is_covered_again(repository: Path, tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)
    await run(shell, "git config user.name One")
    git(repository, "config", "user.email", "outside@example.com")  # By rename, as git does.

    outcome = await run(shell, "git config --get user.email; git config core.fsmonitor evil")

    assert outcome.stdout == "outside@example.com\n"
    assert "fsmonitor" not in (repository / ".git" / "config").read_text()


async def test_without_shared_namespaces_git_says_why_it_cannot_write_and_nothing_is_less_safe(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bwrap", "git", "setpriv", "sh"):
        (programs / name).symlink_to(str(shutil.which(name)))
    shell = await shell_in(tmp_path, environment={"PATH": "/usr/bin:/bin"})
    monkeypatch.setenv("PATH", str(programs))

    bare = await shell_in(tmp_path, environment={"PATH": "/usr/bin:/bin"})
    outcome = await run(bare, "git config core.fsmonitor evil")
    in_place = await run(bare, "printf '[user]\\nname = Me\\n[core]\\nfsmonitor = x' >> .git/config")

    assert outcome.exit_code != 0
    assert any("git -c" in note for note in outcome.notes)
    assert "core.fsmonitor" in in_place.notes[0]
    assert "name = Me" in (repository / ".git" / "config").read_text()
    assert "nsenter" in str(bare.enforced()["shared loopback network per session"])
    assert shell.enforced()["shared loopback network per session"] is True


def holders() -> set[int]:
    """The processes below this one."""
    found: set[int] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == os.getpid():
                    found.add(int(name))
        except OSError:
            continue
    return found


async def test_the_process_that_holds_the_namespaces_ends_when_the_executor_is_closed(
    tmp_path: Path,
) -> None:
    before = holders()
    executor = Executor(builtin("exec"), workspace=tmp_path)
    result = await executor.call("exec", {"command": "echo works"})
    assert result.text.startswith("works")
    assert holders() - before

    await executor.aclose()

    assert not holders() - before


async def test_the_process_that_holds_the_namespaces_ends_with_the_shell_and_is_made_anew_when_killed(
    tmp_path: Path,
) -> None:
    before = holders()
    shell = await shell_in(tmp_path)
    (holder,) = holders() - before
    os.kill(holder, signal.SIGKILL)
    await soon(lambda: is_zombie(holder), "the holder of the namespaces has ended")

    assert (await run(shell, "echo works")).stdout == "works\n"
    (second,) = holders() - before
    del shell
    gc.collect()
    assert second not in holders()


def test_a_machine_that_makes_no_namespaces_is_told_so() -> None:
    shared = SharedNamespaces()
    shared.close()

    assert not shared.alive
    with pytest.raises(OSError, match=r"closed|Bad file"):
        shared.cover(Path("/nonexistent"))


@owes("N-67", "X-20")
@pytest.mark.slow
async def test_a_command_that_is_cancelled_at_any_moment_of_its_start_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    shell = await shell_in(tmp_path)
    mark = "sleep\x00173.9"

    for step in range(40):
        work = asyncio.create_task(run(shell, "sleep 173.9"))
        await asyncio.sleep(step * 0.0007)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    await soon(lambda: not any(mark in line for line in _command_lines()), "no command is left", within_s=10)


def _command_lines() -> list[str]:
    lines: list[str] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as file:
                lines.append(file.read())
        except OSError:
            continue
    return lines
