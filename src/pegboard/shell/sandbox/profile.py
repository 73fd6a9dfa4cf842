"""The part of bubblewrap's profile that does not change from one command to the next, and the sandbox's /etc.

A mount costs bubblewrap 0.2 to 0.4 ms, a copied file 0.02 ms: of /etc, only folders are mounted. The copies lie in
the sandbox's own file system, which ends with the command.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final

from pegboard.core.errors import Unavailable
from pegboard.shell.sandbox import bridge
from pegboard.shell.sandbox.confinement import Confinement, SandboxCommand
from pegboard.shell.sandbox.git import Repository, repository_of
from pegboard.shell.sandbox.namespaces import SharedNamespaces
from pegboard.shell.sandbox.prefixes import interpreter_prefixes

HOME: Final = "/home/user"
_UID: Final = 1000
# Of the other places where root may write, bubblewrap covers those that the caller could write.
_PROC_READ_ONLY: Final = ("sys", "fs")
_PROC_HIDDEN: Final = ("kcore", "keys", "timer_list", "latency_stats")
_PASSWD: Final = (
    f"root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:{_UID}:{_UID}:user:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP: Final = f"root:x:0:\nuser:x:{_UID}:\nnogroup:x:65534:\n"
_HOSTS: Final = "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"


class SandboxProfile:
    """What does not change from one command to the next; worked out once, on first use."""

    def __init__(self, confinement: Confinement, program: str) -> None:
        self._confinement = confinement
        self._program = program
        self._shared: SharedNamespaces | None = None
        self._shared_problem = ""
        self.merging = asyncio.Lock()
        """Held while the repository's config is written."""

    def shared(self) -> SharedNamespaces | None:
        """The namespaces of this session, made on first use; None where this machine cannot make them."""
        if self._shared is not None and self._shared.alive:
            return self._shared
        if not self._shared_problem:
            try:
                self._shared = SharedNamespaces(self.run_as)
                return self._shared
            except OSError as problem:
                self._shared_problem = str(problem)
        return None

    def close(self) -> None:
        """End the namespaces; the next command makes them anew."""
        if self._shared is not None:
            self._shared.close()

    @property
    def shared_problem(self) -> str:
        """Why there are no shared namespaces; empty where there are, or where none were needed yet."""
        return self._shared_problem

    @cached_property
    def run_as(self) -> tuple[int, int] | None:
        """uid and gid of the workspace's owner where we are root and it is another, else None."""
        status = self._confinement.workspace.stat()
        if os.geteuid() != 0 or status.st_uid == 0 or not self._confinement.as_owner:
            return None
        owner = (status.st_uid, status.st_gid)
        if shutil.which("setpriv") is None or not reachable(self._confinement.workspace, *owner):
            return None
        return owner

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What must be said before a run."""
        owner = self._confinement.workspace.stat().st_uid
        if self.run_as is None and not self._state_is_reachable:
            return (f"HOME is not kept between commands: {self._confinement.state} cannot be written",)
        if self.run_as is not None:
            if self._state_is_reachable:
                return ()
            return (
                f"HOME is not kept between commands: user id {owner} cannot reach {self._confinement.state}",
            )
        if owner != os.geteuid():
            return (
                f"the workspace belongs to user id {owner} and the command runs as {os.geteuid()}:"
                " file permissions decide what it may write",
            )
        return ()

    @cached_property
    def _state_is_reachable(self) -> bool:
        state = self._confinement.state
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            # Nowhere to keep a home: a read-only or missing HOME of ours is no reason not to run.
            return False
        if not os.access(state, os.W_OK | os.X_OK):
            return False
        return self.run_as is None or reachable(state.parent, *self.run_as)

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
                f"{self._program} is not installed",
                hint="Install it: apt-get install bubblewrap, or pip install 'pegboard[sandbox]'.",
            )
        out = [program, "--unshare-all", "--unshare-user", "--uid", str(_UID), "--gid", str(_UID)]
        out += ["--hostname", "sandbox", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
        out += ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            path = Path("/", name)
            if path.is_symlink():
                out += ["--symlink", os.readlink(path).lstrip("/"), str(path)]
            elif path.is_dir():
                out += ["--ro-bind", str(path), str(path)]
        out += etc_binds()
        out += ["--dev", "/dev", "--proc", "/proc"]
        for name in _PROC_READ_ONLY:
            out += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
        for name in _PROC_HIDDEN:
            if os.path.exists(f"/proc/{name}"):
                out += ["--ro-bind", "/dev/null", f"/proc/{name}"]
        out += [*self._sized, "--tmpfs", "/tmp", *self._sized, "--tmpfs", "/dev/shm"]
        out += ["--symlink", "../tmp", "/var/tmp", "--dir", "/run"]
        for prefix in (*interpreter_prefixes(confinement.search_path), *bridge.needs()):
            if self.run_as is None or reachable(prefix, *self.run_as):
                out += ["--ro-bind", str(prefix), str(prefix)]
        out += self._kept_home()
        for bind in confinement.binds:
            out += ["--bind" if bind.writable else "--ro-bind", str(bind.source), str(bind.source)]
        workspace = str(confinement.workspace)
        out += ["--bind", workspace, workspace]
        return tuple(out)

    def mask(self, arguments: list[str]) -> None:
        """Hide and write-protect what the policy denies; what is not there needs no mask."""
        workspace = self._confinement.workspace
        masked = [path for path in (*self._confinement.read_only, *self._confinement.hidden) if path.exists()]
        # As with protected paths: without this the mask goes away with its renamed parent.
        parents = {parent for path in masked for parent in path.parents if workspace in parent.parents}
        for parent in sorted(parents, key=lambda parent: len(parent.parts)):
            arguments += ["--bind", str(parent), str(parent)]
        for path in self._confinement.read_only:
            if path.exists():
                arguments += ["--ro-bind", str(path), str(path)]
        for path in self._confinement.hidden:
            if path.is_dir():
                arguments += ["--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path)]
            elif path.exists():
                arguments += ["--ro-bind", "/dev/null", str(path)]

    def environment(self, job: SandboxCommand) -> dict[str, str]:
        """The command's variables as bwrap's own: on its command line other users could read them."""
        env = dict(job.env)
        env.update(HOME=HOME, USER="user", LOGNAME="user", SHELL="/bin/bash", TMPDIR="/tmp")
        name, email = self._confinement.identity
        pairs = [(key, value) for key, value in (("user.name", name), ("user.email", email)) if value]
        # The workspace may belong to another id than the mapped one.
        pairs.append(("safe.directory", "*"))
        env["GIT_CONFIG_COUNT"] = str(len(pairs))
        for number, (key, value) in enumerate(pairs):
            env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = key, value
        return env

    def scratch(self) -> Path:
        """A folder name for one command's private copies; not made yet."""
        parent = self._confinement.state / "running"
        if not self._state_is_reachable:
            parent = Path(tempfile.gettempdir())
        return parent / f"pegboard-{secrets.token_hex(8)}"

    def _kept_home(self) -> list[str]:
        if not self._state_is_reachable:
            return [*self._sized, "--tmpfs", HOME]
        home = self._confinement.state / "home"
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.run_as is not None:
            # The owner must be able to pass through our folder to the two that are bound.
            os.chmod(self._confinement.state, 0o711)
            os.chown(home, *self.run_as)
        return ["--bind", str(home), HOME]

    @cached_property
    def _sized(self) -> list[str]:
        """What stands before a file system in memory, so that it holds no more than a file may."""
        size = self._confinement.limits.file_bytes
        return ["--size", str(size)] if size and self._version >= (0, 8) else []

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


def reachable(path: Path, uid: int, gid: int) -> bool:
    """Whether a user in no further groups may enter a folder, by the folders' permission bits."""
    for folder in (path, *path.parents):
        status = folder.stat()
        if uid == status.st_uid:
            needed = stat.S_IXUSR
        elif gid == status.st_gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not status.st_mode & needed:
            return False
    return True


ETC: Final = "/etc"
_NEEDED: Final = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl/certs", "ssl/openssl.cnf", "ca-certificates",
    "pki/tls/certs", "pki/ca-trust", "crypto-policies", "nsswitch.conf", "localtime", "timezone", "mime.types",
    "protocols", "services", "os-release", "debian_version", "fonts", "magic", "inputrc",
)  # fmt: skip


def etc_binds(etc: str = ETC) -> list[str]:
    """bwrap arguments for the folders."""
    out: list[str] = []
    for name in _NEEDED:
        if os.path.isdir(path := os.path.join(etc, name)):
            out += ["--ro-bind", path, f"/etc/{name}"]
    return out


def etc_files(give: Callable[[int], int], etc: str = ETC) -> list[str]:
    """bwrap arguments for the files; those that we cannot read are left out, as they would be of no use inside.

    Args:
        give: takes over an open descriptor that bwrap is to read; returns its number.
        etc: where they come from.
    """
    out: list[str] = []
    for name in _NEEDED:
        path = os.path.join(etc, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind) and os.path.islink(path) and (target := _link_target(path)).startswith("/usr/"):
            # It stays a link: programs read the time zone's name off it.
            os.close(fd)
            out += ["--symlink", target, f"/etc/{name}"]
        elif stat.S_ISREG(kind):
            out += ["--perms", "0444", "--file", str(give(fd)), f"/etc/{name}"]
        else:
            os.close(fd)
    return out


def _link_target(link: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
