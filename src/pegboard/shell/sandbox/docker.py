"""docker and podman: one throw-away container a command."""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard.process.child import run_small
from pegboard.process.limits import ResourceLimits
from pegboard.shell.sandbox import git, protect
from pegboard.shell.sandbox.confinement import Confinement, Network, PreparedCommand, SandboxCommand

HOME: Final = "/home/user"
DEFAULT_IMAGE: Final = "nanobot-sandbox:latest"
# The first process reaps orphans and takes no signals by default, so it is not the command itself.
# `--init` would do, but podman finds its program only where a further package is installed.
# With job control a command that stops itself has a status too; a terminal is the command's own.
_INIT: Final = '[ -t 0 ] || set -m; exec 9>&2 2>/dev/null; "$@" 2>&9 9>&-; exit $?'
_MOST_PROCESSES: Final = 32_768
_KILL_S: Final = 20.0
_CLIENT: Final = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT")


@dataclass(frozen=True, slots=True)
class Container:
    """Confines commands in containers.

    Args:
        confinement: what commands may reach.
        program: `docker` or `podman`.
        image: must hold bash; nothing is pulled.
        memory, cpus: as the documents have them.
        client_env: variables of ours that the client needs to find its server.
        runtime: the OCI runtime, None = the program's default.
    """

    confinement: Confinement
    program: str = "docker"
    image: str = DEFAULT_IMAGE
    memory: str = "256m"
    cpus: str = "0.5"
    client_env: Mapping[str, str] | None = None
    runtime: str | None = None

    @property
    def name(self) -> str:
        """`docker` or `podman`."""
        return "podman" if os.path.basename(self.program) == "podman" else "docker"

    @property
    def network(self) -> Network:
        """A container has no network at all here."""
        return "closed"

    def reaches(self, folder: Path) -> bool:
        """See Confinement."""
        return self.confinement.reaches(folder)

    async def probe(self) -> str:
        """Run `true` in a container."""
        if shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        job = SandboxCommand(argv=("true",), cwd=self.confinement.workspace, env={})
        prepared = self.prepare(job)
        try:
            status, said = await run_small(prepared.argv, dict(prepared.env), timeout_s=60.0)
        except (OSError, TimeoutError) as problem:
            await prepared.kill()
            return str(problem)
        # The client's advice is how to use the client, which nobody here does.
        lines = [
            line for line in said.decode("utf-8", "replace").splitlines() if not line.startswith("Run '")
        ]
        return (
            ""
            if status == 0
            else " ".join(" ".join(lines).split())[-500:] or f"it ended with status {status}"
        )

    def close(self) -> None:
        """A container ends with its command."""

    def enforced(self) -> Mapping[str, bool | str]:
        """What the flags ask the container program for."""
        return {
            "files": True,
            "protected paths": True,
            "network": "no network at all; single hosts cannot be allowed",
            "system calls": f"{self.name}'s own filter: a set-uid file lasts until its command ends",
            "processes hidden": True,
            "memory": True,
            "process count": True,
            "file size": True,
            "environment": True,
            "child processes stopped": True,
        }

    def prepare(self, job: SandboxCommand) -> PreparedCommand:
        """The `run` command line."""
        name = f"pegboard-{secrets.token_hex(6)}"
        workspace = self.confinement.workspace
        shield = protect.shield(
            workspace, (*self.confinement.protected, *git.started_by(workspace)), job.approved
        )
        trees = git.worktrees_of(workspace / ".git")
        submodules = git.submodule_configs(workspace / ".git")
        packs = git.packs(workspace / ".git", self.confinement.kept_bytes)
        argv = [
            self.program,
            "run",
            "--rm",
            "--name",
            name,
            *self._flags(shield, [*git.submodule_hooks(submodules), *packs]),
        ]
        if job.terminal is not None:
            argv += ["--tty", "--interactive"]
        else:
            argv.append("--interactive")
        argv += ["--workdir", str(job.cwd)]
        env = {**job.env, "HOME": HOME, "USER": "user", "TMPDIR": "/tmp"}
        env.pop("PATH", None)
        client = {"PATH": self.confinement.search_path, **(self.client_env or {})}
        client = {key: value for key, value in client.items() if key in _CLIENT}
        # Only names on the command line: values would be readable in the process list. Where the
        # client needs the same name for itself, it would hand on its own value.
        for key, value in env.items():
            argv += ["--env", f"{key}={value}" if key in client else key]
        argv += [self.image, *_inside(job)]
        quarantine = self.confinement.state / "quarantine" / name
        linked, begun = git.linked_repositories(self.confinement.workspace), time.time_ns()

        async def kill() -> None:
            try:
                await run_small([self.program, "kill", name], client, timeout_s=_KILL_S)
            finally:
                # `--rm` is the work of the client, which ends with the command, or of a helper that may not be there.
                await run_small([self.program, "rm", "--force", name], client, timeout_s=_KILL_S)

        async def finish() -> tuple[str, ...]:
            moved = protect.quarantine(protect.appeared(workspace, shield.absent), workspace, quarantine)
            moved += protect.restore_links(shield.links, workspace, quarantine)
            notes = [f"moved to quarantine ({quarantine}): {', '.join(moved)}"] if moved else []
            notes += await git.clean_linked(workspace, linked, quarantine)
            notes += await git.clean_submodules(workspace, workspace / ".git", submodules, quarantine)
            notes += await git.clean_worktrees(trees, quarantine)
            if taken := await asyncio.to_thread(protect.drop_set_ids, workspace, begun):
                notes.append(f"set-uid and set-gid bits were removed: {', '.join(taken)}")
            return tuple(notes)

        return PreparedCommand(
            argv=tuple(argv),
            env={**env, **client},
            cwd="/",
            kill=kill,
            finish=finish,
            clean=lambda changes: git.clean_made(workspace, changes, quarantine),
        )

    def _flags(self, shield: protect.ProtectedPaths, further: Sequence[Path] = ()) -> list[str]:
        confinement = self.confinement
        limits = confinement.limits
        out = ["--pull=never", f"--memory={self.memory}", f"--cpus={self.cpus}", "--network=none"]
        # -1 is no limit to both programs; 0 is the default of one of them.
        out += [f"--pids-limit={limits.processes or -1}", "--read-only", "--cap-drop=ALL"]
        out += ["--security-opt", "no-new-privileges", "--ipc=private"]
        if self.runtime is not None:
            out += ["--runtime", self.runtime]
        out += [
            f"--tmpfs=/tmp:rw,nosuid,nodev,size={limits.file_bytes}",
            f"--tmpfs={HOME}:rw,nosuid,nodev,mode=1777",
        ]
        for kind, most in _ceilings(limits).items():
            out += ["--ulimit", f"{kind}={most}:{most}"]
        status = confinement.workspace.stat()
        out += ["--user", f"{status.st_uid}:{status.st_gid}"]
        mounts: list[tuple[str, bool]] = [(str(confinement.workspace), True)]
        mounts += [(str(parent), True) for parent in shield.parents]
        mounts += [(str(leaf), False) for leaf in (*shield.leaves, *further)]
        if shield.git_config is not None:
            mounts.append((str(shield.git_config), False))
        mounts += [(str(bind.source), bind.writable) for bind in confinement.binds]
        mounts += [(str(path), False) for path in confinement.read_only if path.exists()]
        for path, writable in mounts:
            out += ["--mount", f"type=bind,source={path},target={path}" + ("" if writable else ",readonly")]
        for path in confinement.hidden:
            if confinement.workspace not in path.parents:
                continue
            if path.is_dir():
                out.append(f"--tmpfs={path}:ro,mode=0")
            elif path.exists():
                out += ["--mount", f"type=bind,source=/dev/null,target={path},readonly"]
        return out


def _ceilings(limits: ResourceLimits) -> dict[str, int]:
    """Resource limits, all written out: podman's own defaults may be more than we are allowed to set."""
    out = {"core": 0}
    if limits.file_bytes:
        out["fsize"] = limits.file_bytes
    if limits.cpu_s:
        out["cpu"] = limits.cpu_s
    for kind, number, wanted in (
        ("nofile", resource.RLIMIT_NOFILE, limits.open_files),
        # Counts everything that the user runs here; `--pids-limit` is the limit that is meant.
        # (podman 4.3 cannot raise it to what we have ourselves, only to less than 65,536.)
        ("nproc", resource.RLIMIT_NPROC, _MOST_PROCESSES),
    ):
        ours = resource.getrlimit(number)[1]
        if ours != resource.RLIM_INFINITY:
            out[kind] = min(wanted or ours, ours)
        elif wanted:
            out[kind] = wanted
    return out


def _inside(job: SandboxCommand) -> list[str]:
    # The documents' image has bash on PATH, not always as /bin/bash.
    program = "bash" if job.argv[0] == "/bin/bash" else job.argv[0]
    return ["bash", "-c", _INIT, "sandbox", program, *job.argv[1:]]
