"""none: no confinement at all, and it says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pegboard.shell.sandbox.confinement import Network, PreparedCommand, SandboxCommand

# A session leader that opens a terminal without O_NOCTTY gets it as its controlling terminal.
_TAKE_TERMINAL = 'exec <>"$0" >&0 2>&0; exec "$@"'


class Unconfined:
    """Runs commands as they are. Only what the policy asks about stands in the way."""

    name = "none"
    network: Network = "open"

    def reaches(self, folder: Path) -> bool:
        """Everything is there."""
        return True

    async def probe(self) -> str:
        """Always works."""
        return ""

    def close(self) -> None:
        """It keeps nothing."""

    def enforced(self) -> Mapping[str, bool | str]:
        """Nothing but a clean environment and the end of all children."""
        return {
            "files": False,
            "protected paths": False,
            "network": False,
            "system calls": False,
            "processes hidden": False,
            "memory": False,
            "process count": False,
            "file size": False,
            "environment": "provider keys and other secrets are left out",
            "child processes stopped": True,
        }

    def prepare(self, job: SandboxCommand) -> PreparedCommand:
        """The command itself."""
        argv = tuple(job.argv)
        if job.terminal is not None:
            argv = ("/bin/sh", "-c", _TAKE_TERMINAL, job.terminal, *argv)
        return PreparedCommand(argv=argv, env=job.env, cwd=str(job.cwd))
