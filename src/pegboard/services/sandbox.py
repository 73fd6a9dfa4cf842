"""Sandbox: what this machine can confine, and a command of a person's own, confined as an agent's would be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pegboard.config.environment import environment
from pegboard.core.errors import ConfigError, ToolError
from pegboard.ports.shell import ExecOutcome, ExecRequest
from pegboard.services.runtime import Runtime
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.selection import BACKENDS

_MAX_OUTPUT_BYTES = 100_000_000


class Sandbox:
    """The confinement of commands in a workspace.

    Args:
        runtime: the workspace and its settings.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(
        self,
        command: str,
        *,
        backend: str | None = None,
        hosts: Sequence[str] = (),
        stdin: bytes | None = None,
    ) -> ExecOutcome:
        """Run a command confined.

        Args:
            command: for the shell.
            backend: which; `none` runs it unconfined. None = the strongest that works, and never unconfined:
                a person who asks for a sandbox wants one.
            hosts: it may connect to these.
            stdin: what it reads.

        Raises:
            ConfigError: there is no such backend.
            Unavailable: none works here.
        """
        if backend is not None and backend not in BACKENDS:
            raise ConfigError(f"unknown sandbox backend {backend!r}; known: {', '.join(BACKENDS)}")
        runtime = self._runtime
        choice = runtime.select_sandbox(backend=backend, require=backend != "none")
        shell = CommandShell(
            runtime.workspace, backend=choice.backend, environment=environment(),
            egress_allow=runtime.config.network.allow_hosts, egress_cidrs=runtime.config.network.allow_cidrs,
            ca_file=runtime.config.confinement.ca_file,
        )  # fmt: skip
        try:
            return await shell.run(
                ExecRequest(
                    command=command, timeout_s=0.0, hosts=tuple(hosts), stdin=stdin or None,
                    max_output_bytes=_MAX_OUTPUT_BYTES,
                )
            )  # fmt: skip
        finally:
            await asyncio.to_thread(choice.backend.close)

    async def report(self, folder: Path) -> dict[str, Any]:
        """What can be enforced in a folder: `{backend, enforced, rejected, limits}`, or `error` in place of limits."""
        try:
            choice = self._runtime.select_sandbox(folder)
        except ToolError as error:
            return {"backend": "none", "enforced": {}, "rejected": {}, "error": str(error)}
        try:
            return {
                "backend": choice.backend.name,
                "enforced": dict(choice.enforced()),
                "rejected": dict(choice.rejected),
                "limits": asdict(self._runtime.config.confinement.limits),
            }
        finally:
            await asyncio.to_thread(choice.backend.close)
