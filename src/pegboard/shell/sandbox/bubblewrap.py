"""bubblewrap: the default confinement on Linux (security.md, `Sandbox`; decisions 22-25)."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from pegboard.core.errors import Unavailable
from pegboard.process.cgroups import Cgroup, CgroupPool
from pegboard.process.child import run_small
from pegboard.shell.sandbox import bridge, gitconfig, protect, seccomp
from pegboard.shell.sandbox.confinement import Confinement, Job, Prepared
from pegboard.shell.sandbox.prefixes import interpreter_prefixes
from pegboard.shell.sandbox.repository import Repository, repository_of

HOME: Final = "/home/user"
_UID: Final = 1000
_ETC: Final = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl/certs", "ssl/openssl.cnf", "ca-certificates",
    "pki/tls/certs", "pki/ca-trust", "crypto-policies", "nsswitch.conf", "localtime", "timezone", "mime.types",
    "protocols", "services", "os-release", "debian_version", "fonts", "magic", "inputrc",
)  # fmt: skip
_PROC_READ_ONLY: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_PROC_HIDDEN: Final = ("kcore", "keys", "timer_list", "latency_stats")
_PASSWD: Final = (
    f"root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:{_UID}:{_UID}:user:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP: Final = f"root:x:0:\nuser:x:{_UID}:\nnogroup:x:65534:\n"
_HOSTS: Final = "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"

# Inside. Sets the limits, runs the command, tells its status at once and then stays for as long
# as the command's own children do: the namespace ends with it. Bash's reports about a killed
# command go nowhere; the command itself gets the real standard error.
_INSIDE: Final = """\
exec {spare}>&2 2>/dev/null
{ulimits}
"$@" 2>&{spare} {spare}>&- {status}>&-
code=$?
echo "$code" >&{status}
exec {status}>&- {spare}>&- </dev/null >/dev/null
set -- /proc/[0-9]*
while [ $# -gt 2 ]; do /bin/sleep 0.3; set -- /proc/[0-9]*; done
exit "$code"
"""
# Outside, as root: join the control groups first, so that everything started is counted.
_JOIN: Final = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 > "$1" || exit 125; shift; n=$((n-1)); done; exec "$@"'
)


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Confines commands with the `bwrap` program.

    Args:
        confinement: what commands may reach.
        program: `bwrap`, found on PATH or given.
        groups: control groups to count in, None where this machine lets us have none.
    """

    confinement: Confinement
    program: str = "bwrap"
    groups: CgroupPool | None = None
    _cache: _Fixed = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cache", _Fixed(self.confinement, self.program))

    @property
    def name(self) -> str:
        """`bubblewrap`."""
        return "bubblewrap"

    async def probe(self) -> str:
        """Run `true` with the whole profile, as whoever would run commands."""
        if shutil.which(self.program) is None:
            return f"there is no {self.program} program"
        if not seccomp.supported(platform.machine()):
            return f"there is no system-call filter for {platform.machine()}"
        try:
            with tempfile.TemporaryFile() as trash:
                del trash
            prepared = self.prepare(
                Job(argv=("/bin/true",), cwd=self.confinement.workspace, env={"PATH": "/usr/bin:/bin"})
            )
        except Unavailable as problem:
            return problem.message
        return await _try(prepared)

    def enforced(self) -> Mapping[str, bool | str]:
        """What holds here; the text says why something holds only in part."""
        root = os.geteuid() == 0 and self._cache.run_as is None
        counted = self.groups is not None
        return {
            "files": True,
            "protected paths": True,
            "network": True,
            "system calls": seccomp.supported(platform.machine()),
            "processes hidden": True,
            "memory": True if counted else "each process alone, not all together (no control groups)",
            "process count": True
            if counted or not root
            else "not for root without control groups: use an ordinary user, or give cgroup access",
            "file size": True,
            "environment": True,
            "children ended": True,
        }

    def prepare(self, job: Job) -> Prepared:
        """Build the command line; a handful of lstat calls, no program is run.

        Raises:
            Unavailable: a hidden or read-only path cannot be enforced, or bwrap is missing.
        """
        fixed = self._cache
        shield = protect.shield(self.confinement.workspace, self.confinement.protected)
        scratch = fixed.scratch()
        fds = _Descriptors()
        try:
            arguments = [*fixed.arguments]
            for number, (path, text) in enumerate(fixed.made_files):
                del number
                arguments += ["--ro-bind-data", str(fds.memory(text.encode())), path]
            copies = self._shield(arguments, shield, scratch)
            fixed.mask(arguments)
            filter_ = seccomp.program(platform.machine(), unix_sockets=job.bridge is None)
            arguments += ["--seccomp", str(fds.memory(filter_)), "--chdir", str(job.cwd)]
            if job.terminal is None:
                arguments.append("--new-session")
            status_read, status_write = os.pipe2(os.O_CLOEXEC)
            fds.add(status_write)
        except BaseException:
            fds.close()
            raise
        inner = self._inside(job, status_write)
        if job.bridge is not None:
            fds.passed.append(job.bridge)
            inner = [*bridge.command(job.bridge), *inner]
        group = self.groups.take(fixed.run_as) if self.groups is not None else None
        argv = [*_outside(group, fixed), *arguments, "--", *inner]
        return Prepared(
            argv=tuple(argv),
            env=fixed.environment(job),
            cwd="/",
            pass_fds=tuple(fds.passed),
            status_fd=status_read,
            close_after_start=tuple(fds.ours),
            notes=fixed.notes,
            finish=lambda: self._finish(shield, copies, scratch),
            release=(lambda: None) if group is None else group.release,
        )

    def _inside(self, job: Job, status: int) -> list[str]:
        spare = 9 if status != 9 else 8
        root = os.geteuid() == 0 and self._cache.run_as is None
        script = _INSIDE.format(
            spare=spare, status=status, ulimits=self.confinement.limits.ulimits(processes=not root)
        )
        # A new session inside takes the terminal; ^C then reaches the command and not bwrap.
        take = ["/usr/bin/setsid", "--ctty", "--wait"] if job.terminal is not None else []
        return ["/bin/bash", "-c", script, "sandbox", *take, *job.argv]

    def _shield(self, arguments: list[str], shield: protect.Shield, scratch: Path) -> list[_Copy]:
        for parent in shield.parents:
            arguments += ["--bind", str(parent), str(parent)]
        copies: list[_Copy] = []
        config = shield.git_config
        repository = self._cache.repository
        if repository is not None:
            arguments += repository.binds()
            if repository.config.is_file():
                config = repository.config
        if config is not None:
            copy = _Copy.of(config, scratch, self._cache.run_as)
            copies.append(copy)
            arguments += ["--bind", str(copy.private), str(config)]
        for leaf in shield.leaves:
            arguments += ["--ro-bind", str(leaf), str(leaf)]
        return copies

    async def _finish(self, shield: protect.Shield, copies: list[_Copy], scratch: Path) -> tuple[str, ...]:
        notes: list[str] = []
        workspace = self.confinement.workspace
        quarantine = self.confinement.state / "quarantine" / scratch.name
        for copy in copies:
            notes += await gitconfig.merge(copy.real, copy.before, copy.private)
        moved = protect.quarantine(protect.appeared(workspace, shield.absent), workspace, quarantine)
        if moved:
            notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
        restored = protect.restore_links(shield.links, workspace, quarantine)
        if restored:
            notes.append(f"protected links were put back: {', '.join(restored)}")
        fresh = workspace / ".git" / "config"
        if ".git/config" in shield.absent and fresh.is_file() and not fresh.is_symlink():
            notes += await gitconfig.clean_fresh(fresh)
        shutil.rmtree(scratch, ignore_errors=True)
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class _Copy:
    real: Path
    private: Path
    before: bytes

    @classmethod
    def of(cls, real: Path, scratch: Path, owner: tuple[int, int] | None) -> _Copy:
        scratch.mkdir(mode=0o711 if owner else 0o700, parents=True, exist_ok=True)
        before = real.read_bytes()
        private = scratch / "config"
        private.write_bytes(before)
        if owner is not None:
            os.chown(private, *owner)
        return cls(real, private, before)


class _Fixed:
    """What does not change from one command to the next; worked out once, on first use."""

    def __init__(self, confinement: Confinement, program: str) -> None:
        self._confinement = confinement
        self._program = program
        self._owner_notes: list[str] = []

    @cached_property
    def run_as(self) -> tuple[int, int] | None:
        """uid and gid of the workspace's owner where we are root and it is another, else None."""
        status = self._confinement.workspace.stat()
        if os.geteuid() != 0 or status.st_uid == 0 or not self._confinement.as_owner:
            return None
        if shutil.which("setpriv") is None:
            return None
        return (status.st_uid, status.st_gid)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        owner = self._confinement.workspace.stat().st_uid
        if owner not in (os.geteuid(), *(self.run_as or ())):
            return (
                f"the workspace belongs to user id {owner} and the command runs as {os.geteuid()}:"
                " what it may write follows from the files' permissions",
            )
        return ()

    @cached_property
    def repository(self) -> Repository | None:
        """The repository that the workspace is a linked worktree of."""
        return repository_of(self._confinement.workspace)

    @cached_property
    def made_files(self) -> tuple[tuple[str, str], ...]:
        return (("/etc/passwd", _PASSWD), ("/etc/group", _GROUP), ("/etc/hosts", _HOSTS))

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The system, our kept home and the workspace; protected paths come after."""
        confinement = self._confinement
        program = shutil.which(self._program)
        if program is None:
            raise Unavailable(
                f"there is no {self._program} program",
                hint="Install it: apt-get install bubblewrap, or pip install 'pegboard[sandbox]'.",
            )
        out = [program, "--unshare-all", "--unshare-user", "--uid", str(_UID), "--gid", str(_UID)]
        out += ["--hostname", "sandbox", "--die-with-parent", "--cap-drop", "ALL"]
        out += ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            path = Path("/", name)
            if path.is_symlink():
                out += ["--symlink", os.readlink(path).lstrip("/"), str(path)]
            elif path.is_dir():
                out += ["--ro-bind", str(path), str(path)]
        for name in _ETC:
            out += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        out += ["--dev", "/dev", "--proc", "/proc"]
        for name in _PROC_READ_ONLY:
            out += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
        for name in _PROC_HIDDEN:
            if os.path.exists(f"/proc/{name}"):
                out += ["--ro-bind", "/dev/null", f"/proc/{name}"]
        size = confinement.limits.file_bytes
        if size and self._version >= (0, 8):
            out += ["--size", str(size)]
        out += ["--tmpfs", "/tmp"]
        if size and self._version >= (0, 8):
            out += ["--size", str(size)]
        out += ["--tmpfs", "/dev/shm", "--symlink", "../tmp", "/var/tmp", "--dir", "/run"]
        for prefix in interpreter_prefixes(confinement.search_path):
            out += ["--ro-bind-try", str(prefix), str(prefix)]
        for path in bridge.needs():
            out += ["--ro-bind-try", path, path]
        out += ["--bind", str(self._kept_home()), HOME]
        for bind in confinement.binds:
            out += ["--bind" if bind.writable else "--ro-bind", str(bind.source), str(bind.source)]
        workspace = str(confinement.workspace)
        out += ["--bind", workspace, workspace]
        return tuple(out)

    def mask(self, arguments: list[str]) -> None:
        """Hide and write-protect what the policy denies; what is not there needs no mask."""
        for path in self._confinement.read_only:
            if path.exists():
                arguments += ["--ro-bind", str(path), str(path)]
        for path in self._confinement.hidden:
            if path.is_dir():
                arguments += ["--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path)]
            elif path.exists():
                arguments += ["--ro-bind", "/dev/null", str(path)]

    def environment(self, job: Job) -> dict[str, str]:
        """The command's variables as bwrap's own: on its command line other users could read them."""
        env = dict(job.env)
        env.update(HOME=HOME, USER="user", LOGNAME="user", SHELL="/bin/bash", TMPDIR="/tmp")
        name, email = self._confinement.identity
        pairs = [(key, value) for key, value in (("user.name", name), ("user.email", email)) if value]
        # The workspace may belong to another id than the mapped one (decisions 22).
        pairs.append(("safe.directory", "*"))
        env["GIT_CONFIG_COUNT"] = str(len(pairs))
        for number, (key, value) in enumerate(pairs):
            env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = key, value
        return env

    def scratch(self) -> Path:
        """A folder name for one command's private copies; not made yet."""
        return self._confinement.state / "running" / secrets.token_hex(6)

    def _kept_home(self) -> Path:
        home = self._confinement.state / "home"
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.run_as is not None:
            # The owner must be able to pass through our folder to the two that are bound.
            os.chmod(self._confinement.state, 0o711)
            os.chown(home, *self.run_as)
        return home

    @cached_property
    def _version(self) -> tuple[int, int]:
        try:
            out = subprocess.run(
                [self._program, "--version"], capture_output=True, timeout=10, check=False
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return (0, 0)
        found = re.search(rb"(\d+)\.(\d+)", out)
        return (int(found[1]), int(found[2])) if found else (0, 0)


class _Descriptors:
    """The descriptors of one start: which are passed on, which are ours to close."""

    def __init__(self) -> None:
        self.passed: list[int] = []
        self.ours: list[int] = []

    def add(self, fd: int) -> int:
        self.passed.append(fd)
        self.ours.append(fd)
        return fd

    def memory(self, data: bytes) -> int:
        fd = self.add(os.memfd_create("pegboard", os.MFD_CLOEXEC))
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def close(self) -> None:
        for fd in self.ours:
            os.close(fd)


def _outside(group: Cgroup | None, fixed: _Fixed) -> list[str]:
    out: list[str] = []
    if group is not None:
        out += ["/bin/sh", "-c", _JOIN, "join", str(len(group.join_files)), *group.join_files]
    if fixed.run_as is not None:
        uid, gid = fixed.run_as
        out += ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups", "--"]
    return out


async def _try(prepared: Prepared) -> str:
    """Run a prepared `true`; empty when it worked, else what was said."""
    from pegboard.process.child import Child
    from pegboard.process.ring import Ring
    from pegboard.process.child import Streams
    from pegboard.process.spawner import Spawn

    said = Ring(4000)
    child = await Child.start(
        Spawn(argv=prepared.argv, env=prepared.env, cwd=prepared.cwd, pass_fds=prepared.pass_fds),
        Streams(stdout=said, stderr=said, status_fd=prepared.status_fd),
    )
    for fd in prepared.close_after_start:
        os.close(fd)
    await child.wait(10.0)
    await child.wait_drained(1.0)
    code = child.exit_code
    await child.kill()
    await prepared.finish()
    prepared.release()
    if code == 0:
        return ""
    return (
        b"".join(said.parts()).decode("utf-8", "replace").strip() or f"a trial run ended with status {code}"
    )
