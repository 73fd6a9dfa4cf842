"""Containers: the command line, by a client program that records it."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pegboard.core.errors import Unavailable
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Bind, Confinement, SandboxCommand
from pegboard.shell.sandbox.docker import Container
from pegboard.shell.sandbox.protect import drop_set_ids
from pegboard.shell.sandbox.selection import select_backend
from tests.ledger import owes
from tests.shell.kit import allow, run

# Stands in for the client: notes its arguments and runs what follows the image.
CLIENT = """#!/bin/bash
printf '%s\\n' "$@" "--" >> "$0.log"
[ "$1" = run ] || exit 0
while [ "$1" != nanobot-sandbox:latest ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def container(tmp_path: Path) -> Container:
    client = tmp_path / "docker"
    client.write_text(CLIENT)
    client.chmod(0o755)
    workspace = tmp_path / "ws"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("[core]\n")
    confinement = Confinement(
        workspace=workspace,
        state=tmp_path / "state",
        search_path=os.environ["PATH"],
        hidden=(workspace / ".git",),
    )
    return Container(confinement, program=str(client))


@owes("D-58", "D-59", "X-58", "K-32")
def test_the_documents_flags_and_the_hardening_are_all_there(container: Container) -> None:
    argv = container.prepare(
        SandboxCommand(argv=("/bin/bash", "-c", 'echo "$HOME"'), cwd=Path("/w"), env={"A": "secret"})
    ).argv

    for flag in ("--rm", "--memory=256m", "--cpus=0.5", "--network=none", "--read-only", "--cap-drop=ALL",
                 "no-new-privileges", "--pids-limit=256", "--pull=never"):  # fmt: skip
        assert flag in argv
    assert argv[-3:] == ("bash", "-c", 'echo "$HOME"')
    assert argv[-8:-6] == ("nanobot-sandbox:latest", "bash")
    assert not any("secret" in word for word in argv)
    hooks = f"{container.confinement.workspace}/.git/hooks"
    assert f"type=bind,source={hooks},target={hooks},readonly" in argv
    status = container.confinement.workspace.stat()
    assert f"{status.st_uid}:{status.st_gid}" in argv


async def test_each_command_has_its_own_name(container: Container) -> None:
    job = SandboxCommand(argv=("true",), cwd=Path("/w"), env={})
    names = {container.prepare(job).argv[4] for _ in range(5)}

    assert len(names) == 5
    assert await container.probe() == ""


@owes("D-60")
async def test_a_timeout_kills_the_container_by_its_name(container: Container) -> None:
    shell = CommandShell(
        container.confinement.workspace, backend=container, environment=os.environ, guard=allow
    )

    outcome = await run(shell, "sleep 81", timeout_s=0.3)

    calls = Path(container.program + ".log").read_text().split("--\n")
    name = calls[0].splitlines()[3]
    assert outcome.timed_out
    assert outcome.backend == "docker"
    assert [one.splitlines() for one in calls[-3:-1]] == [["kill", name], ["rm", "--force", name]]


def test_further_folders_and_masks_become_mounts(container: Container, tmp_path: Path) -> None:
    workspace = container.confinement.workspace
    (workspace / ".env").write_text("x")
    (tmp_path / "data").mkdir()
    confinement = replace(
        container.confinement,
        binds=(Bind(source=tmp_path / "data"),),
        read_only=(workspace / ".env",),
        hidden=(workspace / ".env", workspace / ".git", tmp_path / "elsewhere"),
    )
    made = replace(container, confinement=confinement, runtime="runc", program="podman")

    argv = made.prepare(SandboxCommand(argv=("true",), cwd=workspace, env={}, terminal="/dev/pts/9")).argv

    assert made.name == "podman"
    assert f"type=bind,source={tmp_path}/data,target={tmp_path}/data,readonly" in argv
    assert f"type=bind,source=/dev/null,target={workspace}/.env,readonly" in argv
    assert f"--tmpfs={workspace}/.git:ro,mode=0" in argv
    assert argv[argv.index("--runtime") + 1] == "runc"
    assert "--tty" in argv
    assert not any("elsewhere" in word for word in argv)
    assert made.enforced()["network"] != False  # noqa: E712  It is text that says what is missing.


async def test_a_protected_file_that_a_container_leaves_is_quarantined(container: Container) -> None:
    shell = CommandShell(
        container.confinement.workspace, backend=container, environment=os.environ, guard=allow
    )

    outcome = await run(shell, f"cd {container.confinement.workspace}; echo x > .envrc")

    assert not (container.confinement.workspace / ".envrc").exists()
    assert "quarantine" in outcome.notes[0]


async def test_hosts_are_refused_not_ignored(container: Container) -> None:
    shell = CommandShell(
        container.confinement.workspace, backend=container, environment=os.environ, guard=allow
    )

    with pytest.raises(Unavailable, match=r"example\.com"):
        await run(shell, "true", hosts=("example.com",))

    assert not Path(container.program + ".log").exists()


async def test_a_client_that_fails_says_why(container: Container) -> None:
    Path(container.program).write_text(
        "#!/bin/sh\necho 'docker: no daemon.\n\nRun '\\''docker run --help'\\'' for more' >&2; exit 1\n"
    )

    assert await container.probe() == "docker: no daemon."
    Path(container.program).write_text("#!/bin/sh\nexit 7\n")
    assert await container.probe() == "it ended with status 7"


async def test_a_backend_that_was_named_and_is_not_there_is_told_by_its_own_name(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(Unavailable, match=r"podman does not work here \(podman is not installed\)") as caught:
        await select_backend(container.confinement, backend="podman")

    assert "podman (apt-get install podman)" in caught.value.hint and "auto" in caught.value.hint


@owes("X-58")
async def test_a_set_uid_file_loses_that_when_the_command_ends(container: Container) -> None:
    workspace = container.confinement.workspace
    own = workspace / "own"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o4755)
    shell = CommandShell(workspace, backend=container, environment={"PATH": os.environ["PATH"]}, guard=allow)

    made = await run(
        shell,
        f"cd {workspace} && mkdir d; cp /bin/true d/a; chmod 4755 d/a; cp /bin/true b; chmod 2000 b; chmod g+s d; chmod u+s own; ln -s d/a l",
    )

    assert made.exit_code == 0, made.stderr
    modes = {name: stat.S_IMODE((workspace / name).stat().st_mode) for name in ("d/a", "b", "own")}
    assert modes == {"d/a": 0o755, "b": 0o000, "own": 0o755}
    assert "set-uid and set-gid bits were removed: " in made.notes[0] and "d/a" in made.notes[0]


@owes("X-58")
async def test_a_set_uid_file_of_a_persons_own_stays(container: Container) -> None:
    workspace = container.confinement.workspace
    own = workspace / "own"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o4755)
    long_ago = time.time_ns() + 60_000_000_000

    assert drop_set_ids(workspace, long_ago) == []
    assert own.stat().st_mode & 0o4000


@owes("X-58")
async def test_submodules_are_looked_after_in_a_container_too(container: Container) -> None:
    sub = container.confinement.workspace / ".git" / "modules" / "sub"
    (sub / "hooks").mkdir(parents=True)
    (sub / "config").write_text("[core]\n\tbare = false\n")
    prepared = container.prepare(SandboxCommand(argv=("true",), cwd=container.confinement.workspace, env={}))

    with (sub / "config").open("a") as config:
        config.write("\tfsmonitor = ./evil\n")
    notes = await prepared.finish()

    assert f"type=bind,source={sub / 'hooks'},target={sub / 'hooks'},readonly" in prepared.argv
    assert "evil" not in (sub / "config").read_text()
    assert any("core.fsmonitor" in note for note in notes)
