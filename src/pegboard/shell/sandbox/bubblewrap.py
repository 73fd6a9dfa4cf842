"""bubblewrap: the default confinement on Linux."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pegboard.core.errors import Unavailable
from pegboard.process.child import Child, Spawn, Streams
from pegboard.process.limits import Cgroup, CgroupPool
from pegboard.process.output import HeadTailBuffer
from pegboard.shell.sandbox import bridge, git, profile, protect, seccomp
from pegboard.shell.sandbox.confinement import Confinement, Network, PreparedCommand, SandboxCommand
from pegboard.shell.sandbox.namespaces import PRIVATE_GIT, SharedNamespaces
from pegboard.shell.sandbox.profile import SandboxProfile

# Inside, as the first process, which no signal from inside stops or ends. Sets the limits, runs the
# command, tells its status at once and then stays for as long as the command's own children do: the
# namespace ends with it. With job control a command that stops itself has a status too. Bash's
# reports about a killed command go nowhere; the command itself gets the real standard error.
_INSIDE: Final = """\
{check}
exec {spare}>&2 2>/dev/null
{ulimits}
{job_control}
"$@" 2>&{spare} {spare}>&- {status}>&-
code=$?
echo "$code" >&{status}
exec {status}>&- {spare}>&- </dev/null >/dev/null
set -- /proc/[0-9]*
for pause in .01 .02 .05 .1; do [ $# -gt 1 ] && /bin/sleep $pause; set -- /proc/[0-9]*; done
while [ $# -gt 1 ]; do /bin/sleep .3; set -- /proc/[0-9]*; done
exit "$code"
"""
# The mount goes away when somebody outside renames a file over it between our look and bwrap's.
_CHECK: Final = (
    '[ -L {config} ] || {{ echo "{config} changed while the command started; run it again" >&2; exit 125; }}'
)
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
    _cache: SandboxProfile = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cache", SandboxProfile(self.confinement, self.program))

    @property
    def name(self) -> str:
        """`bubblewrap`."""
        return "bubblewrap"

    @property
    def network(self) -> Network:
        """Granted hosts are reached through the egress proxy."""
        return "filtered"

    def reaches(self, folder: Path) -> bool:
        """See Confinement."""
        return self.confinement.reaches(folder)

    async def probe(self) -> str:
        """Run `true` with the whole profile, as whoever would run commands."""
        if shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        if not seccomp.supported(platform.machine()):
            return f"no system-call filter for {platform.machine()}"
        try:
            prepared = self.prepare(
                SandboxCommand(
                    argv=("/bin/true",), cwd=self.confinement.workspace, env={"PATH": "/usr/bin:/bin"}
                )
            )
        except Unavailable as problem:
            return problem.message
        return await _try(prepared)

    def enforced(self) -> Mapping[str, bool | str]:
        """What holds here; the text says why something holds only in part."""
        root = os.geteuid() == 0 and self._cache.run_as is None
        counted = self.groups is not None
        shared = self._cache.shared() is not None
        return {
            "files": True,
            "protected paths": True,
            "network": True,
            "system calls": seccomp.supported(platform.machine()),
            "processes hidden": True,
            "memory": True
            if counted
            else "not limited: no control group can be made here, so only the data of each "
            "process is; files in memory (memfd, /tmp, /dev/shm) and many processes together are not",
            "process count": True
            if counted or not root
            else "not for root without control groups: use an ordinary user, or give cgroup access",
            "file size": True,
            "environment": True,
            "child processes stopped": True,
            "shared loopback network per session": True
            if shared
            else f"each command alone, and git cannot write .git/config ({self._cache.shared_problem})",
        }

    def close(self) -> None:
        """End the namespaces that the commands share."""
        self._cache.close()

    def prepare(self, job: SandboxCommand) -> PreparedCommand:
        """Build the command line; a handful of lstat calls, no program is run.

        Raises:
            Unavailable: bwrap is missing, or the command cannot be counted in a control group.
        """
        try:
            group = self.groups.take() if self.groups is not None else None
        except OSError as problem:
            raise Unavailable(f"no control group can be made for the command: {problem}") from problem
        fixed = self._cache
        shield = protect.shield(
            self.confinement.workspace,
            (*self.confinement.protected, *git.started_by(self.confinement.workspace)),
            job.approved,
        )
        scratch = fixed.scratch()
        fds = _Descriptors()
        try:
            shared = fixed.shared()
            arguments = [*fixed.arguments]
            if shared is not None and job.bridge is None:
                # A granted host's proxy listens in the namespace: such a command has one of its own.
                arguments.append("--share-net")
            bundle = ((bridge.CA_BUNDLE, job.certificates),) if job.certificates else ()
            for path, text in (*fixed.made_files, *bundle):
                arguments += ["--perms", "0444", "--file", str(fds.memory(text.encode())), path]
            arguments += profile.etc_files(fds.add)
            copy = self._shield(arguments, shield, scratch, shared)
            submodules = git.submodule_configs(self._git())
            linked = git.linked_repositories(self.confinement.workspace)
            trees = git.worktrees_of(self._git())
            arguments += git.submodule_binds(self._git(), submodules)
            for pack in git.packs(self._git(), self.confinement.kept_bytes):
                arguments += ["--ro-bind", str(pack), str(pack)]
            fixed.mask(arguments)
            filter_ = seccomp.program(platform.machine(), unix_sockets=job.bridge is None)
            # Files there would be memory that no limit counts: bubblewrap makes both without a size.
            arguments += ["--remount-ro", "/dev", "--remount-ro", "/"]
            arguments += ["--seccomp", str(fds.memory(filter_)), "--chdir", str(job.cwd)]
            if job.terminal is None:
                arguments.append("--new-session")
            status_read, status_write = os.pipe2(os.O_CLOEXEC)
            fds.add(status_write)
        except BaseException:
            fds.close()
            if group is not None:
                group.release()
            raise
        inner = self._inside(job, status_write, copy)
        if job.bridge is not None:
            fds.passed.append(job.bridge)
            inner = [*bridge.command(job.bridge), *inner]
        argv = [*_outside(group, fixed)]
        if shared is not None:
            argv += shared.join(network=job.bridge is None)
        argv += [*arguments, "--", *inner]
        return PreparedCommand(
            argv=tuple(argv),
            env=fixed.environment(job),
            cwd="/",
            pass_fds=tuple(fds.passed),
            status_fd=status_read,
            close_after_start=tuple(fds.ours),
            notes=fixed.notes,
            finish=lambda: self._finish(job, shield, copy, submodules, linked, trees, scratch),
            clean=lambda changes: git.clean_made(
                self.confinement.workspace, changes, self._quarantine(scratch)
            ),
            release=(lambda: None) if group is None else group.release,
        )

    def _quarantine(self, scratch: Path) -> Path:
        return self.confinement.state / "quarantine" / scratch.name

    def _git(self) -> Path:
        """The folder that holds the repository."""
        repository = self._cache.repository
        return self.confinement.workspace / ".git" if repository is None else repository.common

    def _inside(self, job: SandboxCommand, status: int, copy: _Copy | None) -> list[str]:
        spare = 9 if status != 9 else 8
        root = os.geteuid() == 0 and self._cache.run_as is None
        linked = copy is not None and copy.linked
        script = _INSIDE.format(
            spare=spare,
            status=status,
            ulimits=self.confinement.limits.ulimits(processes=not root),
            job_control="set -m" if job.terminal is None else ":",
            check=_CHECK.format(config=shlex.quote(str(copy.real))) if copy is not None and linked else ":",
        )
        # A new session inside takes the terminal; ^C then reaches the command and not bwrap.
        take = ["/usr/bin/setsid", "--ctty", "--wait"] if job.terminal is not None else []
        return ["/bin/bash", "-c", script, "sandbox", *take, *job.argv]

    def _shield(
        self,
        arguments: list[str],
        shield: protect.ProtectedPaths,
        temp_dir: Path,
        shared: SharedNamespaces | None,
    ) -> _Copy | None:
        for parent in shield.parents:
            arguments += ["--bind", str(parent), str(parent)]
        config = shield.git_config
        repository = self._cache.repository
        if repository is not None:
            arguments += repository.binds()
            if repository.config.is_file():
                config = repository.config
        copy = None
        if config is not None:
            copy = _Copy.of(config, temp_dir, self._cache.run_as, shared)
            if copy.linked:
                arguments += ["--bind", str(copy.private.parent), PRIVATE_GIT]
            else:
                arguments += ["--bind", str(copy.private), str(config)]
        for leaf in shield.leaves:
            arguments += ["--ro-bind", str(leaf), str(leaf)]
        return copy

    async def _finish(
        self,
        job: SandboxCommand,
        shield: protect.ProtectedPaths,
        copy: _Copy | None,
        submodules: Mapping[Path, bytes],
        linked: git.LinkedRepositories,
        trees: git.Worktrees,
        temp_dir: Path,
    ) -> tuple[str, ...]:
        notes: list[str] = []
        workspace = self.confinement.workspace
        quarantine = self._quarantine(temp_dir)
        if copy is not None:
            async with self._cache.merging:
                notes += await git.merge_config(
                    copy.real, copy.before, copy.private, temp_dir, approved=".git/config" in job.approved
                )
        moved = protect.quarantine(protect.appeared(workspace, shield.absent), workspace, quarantine)
        if moved:
            notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
        restored = protect.restore_links(shield.links, workspace, quarantine)
        if restored:
            notes.append(f"protected links were put back: {', '.join(restored)}")
        fresh = workspace / ".git" / "config"
        through = fresh.parent.is_symlink() or fresh.is_symlink()
        if ".git/config" in shield.absent and fresh.exists() and not through:
            if git.read_plain(fresh) is None:
                # A second name, a pipe: what cannot be looked at is not left for git to read.
                protect.quarantine([fresh], workspace, quarantine)
                notes.append(f"moved to quarantine ({quarantine}): .git/config")
            else:
                notes += await git.clean_fresh(fresh)
        notes += await git.clean_submodules(workspace, self._git(), submodules, quarantine)
        notes += await git.clean_linked(workspace, linked, quarantine)
        notes += await git.clean_worktrees(trees, quarantine, outside=self._cache.repository is not None)
        shutil.rmtree(temp_dir, ignore_errors=True)
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The private copy of a config; `linked`: it is reached through a link, not a mount."""

    real: Path
    private: Path
    before: bytes
    linked: bool

    @classmethod
    def of(
        cls, real: Path, temp_dir: Path, owner: tuple[int, int] | None, shared: SharedNamespaces | None
    ) -> _Copy:
        private = temp_dir / "git" / "config"
        temp_dir.mkdir(mode=0o711 if owner else 0o700, parents=True, exist_ok=True)
        private.parent.mkdir(mode=0o700, exist_ok=True)
        before = real.read_bytes()
        private.write_bytes(before)
        if owner is not None:
            os.chown(private.parent, *owner)
            os.chown(private, *owner)
        linked = False
        if shared is not None:
            # Without the link it is a mount, into which all but git can write.
            with contextlib.suppress(OSError):
                shared.cover(real)
                linked = True
        return cls(real, private, before, linked)


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


def _outside(group: Cgroup | None, fixed: SandboxProfile) -> list[str]:
    out: list[str] = []
    if group is not None:
        out += ["/bin/sh", "-c", _JOIN, "join", str(len(group.join_files)), *group.join_files]
    if fixed.run_as is not None:
        uid, gid = fixed.run_as
        out += ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups", "--"]
    return out


async def _try(prepared: PreparedCommand) -> str:
    """Run a prepared `true`; empty when it worked, else what was said."""
    said = HeadTailBuffer(4000)
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
