"""`pegboard check`: run the conformance checks on a tool, a module's tools or an MCP server's."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pegboard.app.executor import Executor
from pegboard.cli.options import Options
from pegboard.cli.show import print_json, print_line
from pegboard.core.errors import ConfigError
from pegboard.core.policy.approval import AllowOnce
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, as_tool, import_object
from pegboard.runtime.checks import CheckReport, check_kit
from pegboard.tools import TOOLS


def check(target: str, *, seed: int | None, options: Options) -> int:
    """Carry out the command; 1 where a check failed.

    Raises:
        ConfigError: the target is no tool, module or server.
    """
    seed = random.randrange(10**6) if seed is None else seed
    kit = _local(target)
    report = asyncio.run(_server(target, seed, options) if kit is None else _checked(kit, seed, options))
    if options.json:
        print_json(report.to_dict())
    else:
        print_line(str(report))
    return 0 if report.ok else 1


async def _checked(toolkit: Toolkit, seed: int, options: Options) -> CheckReport:
    with tempfile.TemporaryDirectory(prefix="pegboard-check-") as scratch:
        # Never the user's own folder, unless it was named: the checks write and run things.
        folder = options.workspace or Path(scratch)
        if options.workspace is None:
            (folder / "sample.txt").write_text("one\ntwo\n", encoding="utf-8")

        def open(toolkit: Toolkit) -> Executor:
            return Executor(
                toolkit, workspace=folder, mode=options.mode, approver=AllowOnce() if options.yes else None
            )

        return await check_kit(toolkit, open, consent=options.yes, seed=seed)


async def _server(target: str, seed: int, options: Options) -> CheckReport:
    from pegboard.app.servers import opened
    from pegboard.config.paths import Paths, current_folder
    from pegboard.config.servers import ConfiguredServers, load_servers
    from pegboard.mcp.client import start_all

    paths = Paths.of()
    configured = load_servers(paths, options.workspace or current_folder(), file=options.config)
    known = [s.name for s in configured.servers]
    if target not in known:
        raise ConfigError(
            f"{target!r} is not a tool, module or MCP server; give one of the tools (pegboard tools), a module "
            f"or file such as my_tools.py:kit, or a server ({', '.join(known) or 'none is configured'})"
        )
    servers = opened(ConfiguredServers(servers=(configured.named(target),)), paths)
    try:
        found = (await start_all(servers))[target]
        if isinstance(found, Exception):
            raise ConfigError(f"the server {target!r} cannot be checked: {found}")
        return await _checked(Toolkit(found), seed, options)
    finally:
        await asyncio.gather(*(s.aclose() for s in servers))


def _local(target: str) -> Toolkit | None:
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
