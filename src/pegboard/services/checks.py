"""Checks: the conformance checks, on a tool, a module's tools or an MCP server's."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pegboard.config.paths import Paths
from pegboard.config.servers import ConfiguredServers, load_servers
from pegboard.core.errors import ConfigError
from pegboard.core.toolkit import Toolkit
from pegboard.interop.python_tools import local_tools
from pegboard.mcp.client import start_all
from pegboard.runtime.checks import CheckReport, check_kit
from pegboard.services.servers import opened


class Checks:
    """The checks over a workspace.

    Args:
        executor: opens an executor over a toolkit and a folder; its approver says yes where `consent` is True.
        paths: whose MCP servers can be checked.
        workspace: the folder that a person named; None = an empty one is made for each check, since checks write
            and run things.
        project: the folder whose MCP servers count.
        file: a config file that is read in place of the user's own.
    """

    def __init__(
        self,
        executor: Callable[[Toolkit, Path, bool], Any],
        *,
        paths: Paths,
        workspace: Path | None,
        project: Path,
        file: Path | None = None,
    ) -> None:
        self._executor = executor
        self._paths = paths
        self._workspace = workspace
        self._project = project
        self._file = file

    async def check(self, target: str, *, seed: int, consent: bool = False) -> CheckReport:
        """Run the checks.

        Args:
            target: a built-in tool, `module[:attribute]`, `file.py[:attribute]`, or a configured MCP server.
            seed: of the random arguments.
            consent: approve what asks.

        Raises:
            ConfigError: the target is none of these, or cannot be imported or started.
        """
        toolkit = local_tools(target)
        if toolkit is not None:
            return await self._check(toolkit, seed, consent=consent)
        configured = load_servers(self._paths, self._project, file=self._file)
        known = [s.name for s in configured.servers]
        if target not in known:
            raise ConfigError(
                f"{target!r} is not a tool, module or MCP server; give one of the tools (pegboard tools), a module "
                f"or file such as my_tools.py:kit, or a server ({', '.join(known) or 'none is configured'})"
            )
        servers = opened(ConfiguredServers(servers=(configured.named(target),)), self._paths)
        try:
            tools = (await start_all(servers))[target]
            if isinstance(tools, Exception):
                raise ConfigError(f"the server {target!r} cannot be checked: {tools}")
            return await self._check(Toolkit(tools), seed, consent=consent)
        finally:
            await asyncio.gather(*(s.aclose() for s in servers))

    async def _check(self, toolkit: Toolkit, seed: int, *, consent: bool) -> CheckReport:
        with tempfile.TemporaryDirectory(prefix="pegboard-check-") as scratch:
            folder = self._workspace or Path(scratch)
            if self._workspace is None:
                (folder / "sample.txt").write_text("one\ntwo\n", encoding="utf-8")
            return await check_kit(
                toolkit, lambda kit: self._executor(kit, folder, consent), consent=consent, seed=seed
            )
