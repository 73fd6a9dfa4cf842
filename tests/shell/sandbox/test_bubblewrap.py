"""Attempts to leave the sandbox, and what must stay as it was."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pegboard.core.errors import Unavailable
from pegboard.process.limits import MIB, CgroupPool, ResourceLimits
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Bind
from tests.ledger import owes
from tests.shell.kit import run, shell_in


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "safe.directory=*")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
async def repository(tmp_path: Path) -> Path:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "first")
    (workspace / ".envrc").write_text("export A=1\n")
    (workspace / ".vscode").mkdir()
    (workspace / ".vscode" / "tasks.json").write_text("{}")
    return workspace


@owes("G-07")
async def test_nothing_of_the_machine_is_visible_but_the_system(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    shell = await shell_in(tmp_path)

    outcome = await run(
        shell, f"cat {tmp_path}/secret /etc/shadow; ls -A / /root /home {tmp_path}; touch /usr/x /x2"
    )

    assert "No such file" in outcome.stderr
    assert "Read-only file system" in outcome.stderr
    listed = outcome.stdout.split()
    assert "state" not in listed
    assert "secret" not in listed


@pytest.mark.parametrize(
    "attack",
    [
        "echo 'touch /tmp/owned' > .git/hooks/pre-commit",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "mv .git .git2 && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "mv .git/hooks .git/h2",
        "ln -sf /tmp/x .git/hooks",
        "echo x >> .envrc",
        "rm .envrc; echo x > .envrc",
        "mv .vscode .v2",
        "echo '{}' > .vscode/tasks.json; rm -rf .vscode",
        "mount --bind /tmp .git/hooks; umount .git/hooks .envrc",
        "git config core.fsmonitor 'touch owned'",
        "printf '[core]\\n\\tfsmonitor = touch owned\\n' >> .git/config",
        "printf '[include]\\n\\tpath = ../evil\\n' > .git/config",
        "python3 -c \"import os; os.rename('.git', 'x')\"",
    ],
)
@owes("G-07")
async def test_protected_paths_stay_as_they_were(repository: Path, tmp_path: Path, attack: str) -> None:
    before = _protected(repository)
    shell = await shell_in(tmp_path)

    await run(shell, attack)

    assert _protected(repository) == before


def _protected(workspace: Path) -> dict[str, str]:
    out = {"config": (workspace / ".git" / "config").read_text(), "envrc": (workspace / ".envrc").read_text()}
    for folder in (workspace / ".git" / "hooks", workspace / ".vscode"):
        assert not folder.is_symlink()
        out.update({str(path): path.read_text() for path in sorted(folder.rglob("*"))})
    return out


async def test_safe_changes_of_the_git_config_are_taken_over_and_others_named(
    repository: Path, tmp_path: Path
) -> None:
    shell = await shell_in(tmp_path)

    outcome = await run(
        shell,
        'printf \'[remote "o"]\\n\\turl = https://example.com/x.git\\n'
        '[alias]\\n\\tx = !touch owned\\n[remote "bad"]\\n\\turl = ext::sh\\n\' >> .git/config',
    )

    config = (repository / ".git" / "config").read_text()
    assert "https://example.com/x.git" in config
    assert "alias" not in config
    assert "ext::" not in config
    assert any("alias.x" in note and "remote.bad.url" in note for note in outcome.notes)


@pytest.mark.parametrize(
    "name", [".envrc", ".mcp.json", "pegboard.toml", ".pegboard/policy.toml", ".vscode/x"]
)
async def test_a_protected_file_that_appears_is_moved_to_quarantine(tmp_path: Path, name: str) -> None:
    shell = await shell_in(tmp_path)

    outcome = await run(shell, f"mkdir -p $(dirname {name}); echo evil > {name}; echo fine > other")

    assert sorted(path.name for path in (tmp_path / "ws").iterdir()) == ["other"]
    assert any("quarantine" in note for note in outcome.notes)
    assert any(path.read_text() == "evil\n" for path in (tmp_path / "state").rglob("*") if path.is_file())


async def test_a_repository_made_inside_keeps_samples_and_safe_keys_only(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)

    outcome = await run(
        shell,
        "git init -q . && git config core.fsmonitor 'touch owned' && git config user.name me"
        " && echo x > .git/hooks/post-commit && echo a > a && git add a && git commit -qm one --no-verify",
    )

    workspace = tmp_path / "ws"
    assert "fsmonitor" not in (workspace / ".git" / "config").read_text()
    assert "name = me" in (workspace / ".git" / "config").read_text()
    assert not (workspace / ".git" / "hooks" / "post-commit").exists()
    assert git(workspace, "fsck") == ""
    assert len(outcome.notes) == 2


async def test_no_empty_file_is_left_for_paths_that_were_absent(tmp_path: Path) -> None:
    await run(await shell_in(tmp_path), "true")

    assert list((tmp_path / "ws").iterdir()) == []
    assert (
        list((tmp_path / "state" / "running").iterdir()) == []
        if (tmp_path / "state" / "running").exists()
        else True
    )


async def test_a_protected_link_that_is_pointed_elsewhere_is_put_back(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "real").write_text("x")
    (workspace / ".envrc").symlink_to("real")
    shell = await shell_in(tmp_path)

    outcome = await run(shell, "rm .envrc; echo evil > evil; ln -s evil .envrc; echo y >> real")

    assert os.readlink(workspace / ".envrc") == "real"
    assert (workspace / "real").read_text() == "x"
    assert any("put back" in note for note in outcome.notes)


async def test_hidden_and_read_only_paths_hold_in_the_sandbox(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / "keys").mkdir(parents=True)
    (workspace / "keys" / "k").write_text("secret")
    (workspace / ".env").write_text("secret")
    (workspace / "lock").write_text("l")
    confine = {"hidden": (workspace / "keys", workspace / ".env"), "read_only": (workspace / "lock",)}
    shell = await shell_in(tmp_path, confine=confine)

    outcome = await run(shell, "cat keys/k .env; ls keys; echo x > lock; mv keys k2; rm -rf .env")

    assert "secret" not in outcome.stdout
    assert (workspace / ".env").read_text() == "secret"
    assert (workspace / "keys" / "k").read_text() == "secret"
    assert (workspace / "lock").read_text() == "l"


async def test_a_mask_does_not_go_away_with_its_renamed_parent(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "key").write_text("secret")
    shell = await shell_in(tmp_path, confine={"hidden": (workspace / "a" / "b" / "key",)})

    outcome = await run(shell, "mv a c; cat c/b/key a/b/key; mv a/b a/d; cat a/d/key")

    assert "secret" not in outcome.stdout
    assert (workspace / "a" / "b" / "key").read_text() == "secret"


async def test_files_behind_a_planted_link_are_never_touched(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / ".git" / "hooks" / "mine").write_text("precious")
    (other / ".git" / "config").write_text("[alias]\n\tst = status\n")
    (other / "policy.toml").write_text("precious")
    shell = await shell_in(tmp_path)

    outcome = await run(shell, f"ln -s {other}/.git .git; ln -s {other} .pegboard; ln -s {other} .vscode")

    assert (other / ".git" / "hooks" / "mine").read_text() == "precious"
    assert "alias" in (other / ".git" / "config").read_text()
    assert (other / "policy.toml").read_text() == "precious"
    assert list((tmp_path / "ws").iterdir()) == []
    assert "quarantine" in outcome.notes[0]


@pytest.mark.parametrize(
    "command",
    ["echo 'gitdir: evil' > .git", "git init -q --bare . && git config core.fsmonitor x", "ln -s evil .git"],
)
async def test_other_forms_of_a_repository_at_the_root_are_moved_away(tmp_path: Path, command: str) -> None:
    await run(await shell_in(tmp_path), command)

    done = subprocess.run(["git", "-C", str(tmp_path / "ws"), "rev-parse", "--git-dir"], capture_output=True)
    assert done.returncode != 0


async def test_a_repository_behind_a_link_of_the_owner_stays_as_it_is(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    git(tmp_path, "init", "-q", "--separate-git-dir", str(workspace / "store"), str(tmp_path / "x"))
    (workspace / ".git").symlink_to("store")
    shell = await shell_in(tmp_path)

    outcome = await run(shell, "echo x > .git/hooks/pre-commit; rm .git; mkdir .git; git status")

    assert os.readlink(workspace / ".git") == "store"
    assert not (workspace / "store" / "hooks" / "pre-commit").exists()
    assert any("put back" in note for note in outcome.notes)


async def test_further_folders_are_bound_as_asked(tmp_path: Path) -> None:
    for name in ("data", "out"):
        (tmp_path / name).mkdir()
    confine = {"binds": (Bind(source=tmp_path / "data"), Bind(source=tmp_path / "out", writable=True))}
    shell = await shell_in(tmp_path, confine=confine)

    outcome = await run(shell, f"touch {tmp_path}/out/made; touch {tmp_path}/data/made")

    assert (tmp_path / "out" / "made").exists()
    assert not (tmp_path / "data" / "made").exists()
    assert "Read-only" in outcome.stderr


async def test_a_linked_worktree_can_commit_but_not_touch_the_shared_hooks(
    repository: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", str(linked / "ws"), "-b", "side")
    before = (repository / ".git" / "config").read_text()
    shell = await shell_in(linked, confine={"identity": ("Ada", "a@x")})

    outcome = await run(
        shell,
        f"echo a > a; git add a; git commit -qm two; echo x > {repository}/.git/hooks/pre-commit;"
        f" printf '[alias]\\n\\tx = !id\\n' >> {repository}/.git/config; echo gitdir: /tmp > .git",
    )

    assert git(linked / "ws", "log", "--format=%s %an").splitlines()[0] == "two Ada"
    assert not (repository / ".git" / "hooks" / "pre-commit").exists()
    assert (repository / ".git" / "config").read_text() == before
    assert "Read-only" in outcome.stderr


async def test_a_planted_gitdir_file_opens_no_other_folder(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "objects").mkdir(parents=True)
    (victim / "secret").write_text("s")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / ".git").write_text(f"gitdir: {victim}\n")
    shell = await shell_in(tmp_path)

    outcome = await run(shell, f"cat {victim}/secret; echo x > {victim}/new")

    assert outcome.stdout == ""
    assert not (victim / "new").exists()


@pytest.mark.parametrize(
    "command",
    [
        "cp /bin/true t && chmod u+s t",
        "cp /bin/true t && chmod 2755 t",
        "python3 -c \"import os; os.open('t', os.O_CREAT | os.O_WRONLY, 0o4755)\"",
        "python3 -c \"import os; os.mknod('t', 0o104755)\"",
        "install -m 4755 /bin/true t",
        "unshare -U true",
        "unshare -Urm true",
        "nsenter -t 1 -n true",
        'python3 -c "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"',
        'python3 -c "import socket; socket.socket(38, socket.SOCK_SEQPACKET)"',
        "python3 -c \"import fcntl; fcntl.ioctl(0, 0x5412, b'x')\"",
        "mkdir m && mount -t tmpfs none m",
        "chroot . true",
        "bwrap --ro-bind / / true",
        "python3 -c \"import socket; socket.create_connection(('1.1.1.1', 53), 2)\"",
        "exec 3<>/dev/tcp/127.0.0.1/PORT",
        "kill -9 HOSTPID",
        "cat /proc/HOSTPID/environ",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo b > /proc/sysrq-trigger",
        "dd if=/dev/mem of=x bs=1 count=1",
        "ls /proc/1/root/root | grep .",
    ],
)
@owes("G-07")
async def test_ways_out_of_the_sandbox_fail(tmp_path: Path, command: str) -> None:
    shell = await shell_in(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = command.replace("PORT", str(server.getsockname()[1])).replace("HOSTPID", str(os.getpid()))

        outcome = await run(shell, text)

    assert outcome.exit_code != 0
    for path in (tmp_path / "ws").rglob("*"):
        assert not path.lstat().st_mode & 0o6000


async def test_a_command_that_cannot_be_counted_is_refused_and_leaks_nothing(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)
    gone = CgroupPool((tmp_path / "gone",), ResourceLimits(), unified=True)
    counted = CommandShell(
        tmp_path / "ws", backend=replace(shell._backend, groups=gone), environment=os.environ
    )
    before = len(os.listdir("/proc/self/fd"))

    with pytest.raises(Unavailable, match="control group"):
        await run(counted, "touch ran")

    assert len(os.listdir("/proc/self/fd")) == before
    assert not (tmp_path / "ws" / "ran").exists()


@owes("X-58")
@pytest.mark.slow
async def test_a_fork_bomb_ends_with_the_command(tmp_path: Path) -> None:
    limits = ResourceLimits(processes=64, memory_bytes=256 * MIB)
    shell = await shell_in(tmp_path, confine={"limits": limits}, groups=CgroupPool.detect(limits))

    outcome = await run(shell, "f() { f | f & }; f; sleep 3", timeout_s=1)

    assert outcome.timed_out
    began = time.monotonic()
    assert (await run(shell, "echo fine")).stdout == "fine\n"
    assert time.monotonic() - began < 30


@pytest.mark.slow
async def test_a_memory_bomb_dies_and_the_machine_does_not_notice(tmp_path: Path) -> None:
    limits = ResourceLimits(memory_bytes=128 * MIB)
    shell = await shell_in(tmp_path, confine={"limits": limits}, groups=CgroupPool.detect(limits))

    outcome = await run(
        shell, 'python3 -c "x = bytearray(400 << 20)"; echo $?; head -c 400M /dev/zero | tail | wc -c'
    )

    assert outcome.stdout.splitlines()[0] != "0"
    assert "419430400" not in outcome.stdout


async def test_one_file_and_the_private_tmp_have_a_size_limit(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path, confine={"limits": ResourceLimits(file_bytes=4 * MIB)})

    outcome = await run(
        shell, "head -c 20M /dev/zero > big; head -c 3M /dev/zero > /tmp/a; head -c 3M /dev/zero > /tmp/b"
    )

    assert (tmp_path / "ws" / "big").stat().st_size <= 4 * MIB
    assert "No space left" in outcome.stderr


async def test_a_limit_of_cpu_seconds_ends_a_loop(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path, confine={"limits": ResourceLimits(cpu_s=1)})

    outcome = await run(shell, "while :; do :; done", timeout_s=10)

    assert not outcome.timed_out
    assert outcome.exit_code == 128 + 9


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"hello from {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page() -> object:
    server = HTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@owes("G-18")
async def test_a_granted_host_is_reached_and_others_are_named(tmp_path: Path, page: int) -> None:
    shell = await shell_in(tmp_path, egress_allow=("localtest.example",))
    shell.resolve = _to_loopback

    outcome = await run(
        shell,
        f"curl -s http://localtest.example:{page}/; echo; curl -sx socks5h://127.0.0.1:3128"
        f" http://localtest.example:{page}/; echo; curl -s http://other.example/; curl -s http://127.0.0.1:{page}/",
        hosts=(f"localtest.example:{page}",),
    )

    assert outcome.stdout.splitlines()[:2] == [f"hello from localtest.example:{page}"] * 2
    assert "Refused by the sandbox: other.example:80" in outcome.stdout
    assert any("other.example:80" in note and "hosts=" in note for note in outcome.notes)


async def _to_loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def test_with_a_way_out_there_are_no_unix_sockets_but_pairs(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)

    outcome = await run(
        shell,
        "python3 -c \"import socket; socket.socketpair(); print('pair'); socket.socket(socket.AF_UNIX)\"",
        hosts=("example.com",),
    )

    assert outcome.stdout == "pair\n"
    assert "PermissionError" in outcome.stderr


@owes("G-07", "X-58")
async def test_a_command_has_a_session_of_its_own_and_no_terminal_of_ours(tmp_path: Path) -> None:
    # Field six of proc_pid_stat is the session; 0 is one of another namespace, whose terminal could be typed into.
    outcome = await run(await shell_in(tmp_path), "cut -d ' ' -f 6 /proc/self/stat")

    assert int(outcome.stdout) > 0
