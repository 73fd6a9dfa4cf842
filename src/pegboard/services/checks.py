"""Checks: the conformance checks, on a tool, a module's tools or an MCP server's."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pegboard.config.paths import Paths
from pegboard.config.servers import ConfiguredServers, load_servers
from pegboard.core.errors import ConfigError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, as_tool, import_object
from pegboard.mcp.client import start_all
from pegboard.runtime.checks import CheckReport, check_kit
from pegboard.services.servers import opened
from pegboard.tools import TOOLS


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


def local_tools(target: str) -> Toolkit | None:
    """The tools of a name, `module`, `module:attribute` or `file.py[:attribute]`; None where it is none."""
    if target in TOOLS:
        return Toolkit([import_object(TOOLS[target])])
    place, _, attribute = target.partition(":")
    module = _module(place)
    if module is None:
        return None
    if attribute:
        found = getattr(module, attribute, None)
        if found is None:
            raise ConfigError(f"{place} has no {attribute!r}")
        many = isinstance(found, (Toolkit, list, tuple))
        return Toolkit(cast("Any", found) if many else [as_tool(found)])
    kit = Toolkit(_tools_of(module))
    if not len(kit):
        raise ConfigError(f"{place} contains no tools; name one as {place}:NAME")
    return kit


def _module(place: str) -> ModuleType | None:
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise ConfigError(f"no file {place}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        loader = spec.loader
        assert loader is not None
        module = importlib.util.module_from_spec(spec)
        # Annotations of its functions are resolved through the table of modules.
        sys.modules[path.stem] = module
        _run(place, lambda: loader.exec_module(module))
        return module
    if not all(part.isidentifier() for part in place.split(".")):
        return None
    return _run(place, lambda: importlib.import_module(place))


def _run(place: str, load: Callable[[], ModuleType | None]) -> ModuleType | None:
    """Import the user's own module; None where there is none of that name.

    Raises:
        ConfigError: it fails, with the line of it that does.
    """
    try:
        return load()
    except Exception as error:  # Foreign code: what it raises is its fault and not ours.
        if isinstance(error, ModuleNotFoundError) and error.name is not None and place.startswith(error.name):
            return None
        sys.modules.pop(place.removesuffix(".py").rpartition("/")[2], None)  # It is half there.
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if Path(f.filename).stem == place.removesuffix(".py").rpartition("/")[2]]
        where = f" (line {own[-1].lineno})" if own else ""
        raise ConfigError(f"{place} cannot be imported{where}: {type(error).__name__}: {error}") from error


def _tools_of(module: ModuleType) -> list[Any]:
    unique: dict[int, Any] = {}
    for value in vars(module).values():
        if isinstance(value, type):
            ours = issubclass(value, Tool) and value is not Tool
        else:
            ours = isinstance(value, Tool) or hasattr(value, "to_tool")
        if ours:
            unique[id(cast("object", value))] = value
    return list(unique.values())
