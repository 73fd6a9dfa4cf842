"""Shells to try things in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pegboard.core.effects import Effect
from pegboard.ports.shell import ExecOutcome, ExecRequest, Inspection
from pegboard.process.limits import CgroupPool
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Confinement
from pegboard.shell.sandbox.selection import select_backend

BACKENDS = ("none", "bubblewrap")


def allow(command: str, *, working_dir: str | None = None) -> Inspection:
    """A guard that finds one harmless segment."""
    effect = Effect("exec", command, argv=tuple(command.split()))
    return Inspection(effects=(effect,), decision="allow", reason="", read_only=False)


async def shell_in(
    folder: Path,
    backend: str = "bubblewrap",
    *,
    environment: Mapping[str, str] | None = None,
    groups: CgroupPool | None = None,
    confine: Mapping[str, Any] | None = None,
    **options: Any,
) -> CommandShell:
    """A shell whose workspace is `folder/ws` and whose state is `folder/state`."""
    workspace, state = folder / "ws", folder / "state"
    workspace.mkdir(exist_ok=True)
    state.mkdir(exist_ok=True)
    host = dict(os.environ) if environment is None else dict(environment)
    confinement = Confinement(
        workspace=workspace.resolve(),
        state=state,
        search_path=host.get("PATH", "/usr/bin:/bin"),
        **(confine or {}),
    )
    choice = await select_backend(confinement, backend=backend, groups=groups)
    return CommandShell(workspace.resolve(), backend=choice.backend, environment=host, guard=allow, **options)


async def run(shell: CommandShell, command: str, **options: Any) -> ExecOutcome:
    """Run one command with a limit of 30 seconds."""
    return await shell.run(ExecRequest(command=command, **{"timeout_s": 30.0, **options}))
