"""Settings: what this machine has and enforces, which project files are trusted, and which models can be used."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from pegboard.config.agent_files import trusted_with
from pegboard.config.edit import read_key, set_key, settings_file, write_starter
from pegboard.config.environment import environment
from pegboard.config.load import NAMES
from pegboard.config.models import (
    AcceptedServers,
    available_models,
    fetch_weights,
    find_local_servers,
    key_states,
)
from pegboard.config.paths import Paths, refused_workspace
from pegboard.config.reading import read_unfilled
from pegboard.config.tools import ToolSettings, is_python_place, python_place
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError, Conflict, PegboardError
from pegboard.models.servers import LocalServer
from pegboard.ports.store import StoreError
from pegboard.services.history import History
from pegboard.services.runtime import Runtime
from pegboard.services.sandbox import Sandbox
from pegboard.version import VERSION

EXTRAS: Final = {
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "gemini": ("google.genai",),
    "gguf": ("xllamacpp", "openai"),
    "code": ("pydantic_monty",),
    "documents": ("pypdfium2", "docx", "openpyxl", "pptx"),
    "web": ("trafilatura", "html_to_markdown"),
    "browser": ("playwright",),
    "postgres": ("asyncpg",),
}
"""Modules that show that an extra is installed."""

PROGRAMS: Final = {
    "bwrap": "the sandbox for commands (Debian package bubblewrap)",
    "git": "repositories",
    "rg": "faster search (Debian package ripgrep)",
    "chromium": "the browser tool (Debian package chromium)",
    "espeak-ng": "speech without a network (Debian package espeak-ng)",
}
"""Programs that we use where they are found, and what for."""


class Settings:
    """The settings of this machine.

    Args:
        runtime: the settings as they hold in a workspace.
        history: whether it can be kept is told too.
        named: whether a person named the workspace.
    """

    def __init__(self, runtime: Runtime, history: History, *, named: bool) -> None:
        self._runtime = runtime
        self._history = history
        self._named = named

    async def show(self) -> dict[str, Any]:
        """What this machine can enforce, and what is there: the object that `pegboard doctor --json` prints."""
        runtime, paths = self._runtime, self._runtime.paths
        refused = None if self._named else refused_workspace(runtime.workspace, paths)
        with tempfile.TemporaryDirectory(prefix="pegboard-doctor-") as scratch:
            # What can be enforced is found by running something, and nothing may run over a refused folder.
            folder = Path(scratch).resolve() if refused else runtime.workspace
            sandbox = await Sandbox(runtime).report(folder)
        return {
            "pegboard": VERSION,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
            "workspace": str(runtime.workspace),
            "refused": refused or "",
            "mode": runtime.policy.mode,
            "config": [str(p) for p in runtime.config.files],
            "ignored": list(runtime.config.ignored),
            "sandbox": sandbox,
            "programs": {name: shutil.which(name) for name in PROGRAMS},
            "diagnostics": self._diagnostics_report(),
            "extras": {name: all(_has(m) for m in modules) for name, modules in EXTRAS.items()},
            "browser": await asyncio.to_thread(self._browser_report),
            "models": await self.models(),
            "history": await self._history_report(),
            "folders": {
                "config": str(paths.config), "state": str(paths.state), "data": str(paths.data),
                "cache": str(paths.cache),
            },
        }  # fmt: skip

    def _browser_report(self) -> dict[str, Any]:
        """Whether pages are confined by Chromium's own sandbox: `{program, sandbox, reason}`."""
        from pegboard.browser.chromium import find_chromium, why_unsandboxed

        variables = environment()
        program = find_chromium(self._runtime.config.browser.executable, variables)
        reason = why_unsandboxed(program, variables) if program else "Chromium is not installed"
        return {"program": program or "", "sandbox": not reason, "reason": reason}

    def _diagnostics_report(self) -> dict[str, Any]:
        """What looks at files after a write, and the language servers that are known: name to path, None if missing."""
        from pegboard.lsp.programs import KNOWN

        config = self._runtime.config
        path = os.pathsep.join([*config.path_prepend, environment().get("PATH", os.defpath)])
        named = {c.name: c for several in config.diagnostics.files.values() for c in several}
        programs = {name: shutil.which(c.argv[0], path=path) for name, c in {**KNOWN, **named}.items()}
        return {"enabled": config.diagnostics.enabled, "used": sorted(named), "programs": programs}

    async def _history_report(self) -> dict[str, Any]:
        """Whether the history can be kept: without it no call is made."""
        report: dict[str, Any] = {
            "error": "", "damaged": "", "kept": [str(p) for p in self._history.damaged()],
        }  # fmt: skip
        try:
            report["damaged"] = await self._history.check()
        except StoreError as error:
            report["error"] = str(error)
        if self._history.file is None:
            return report
        state = self._history.file.parent
        folder = next(p for p in (state, *state.parents) if p.exists())
        if not os.access(folder, os.W_OK):
            report["error"] = f"{folder} cannot be written; XDG_STATE_HOME can name a folder that can"
        return report

    # -- models -----------------------------------------------------------------------------------

    async def models(self) -> list[dict[str, Any]]:
        """The models that can be used here, and what the others lack: `{name, status}`."""
        runtime = self._runtime
        return [dict(r) for r in available_models(runtime.paths, ports=runtime.config.model_servers)]

    async def model_keys(self) -> list[dict[str, Any]]:
        """Which keys of models are set, and where each comes from: `{provider, source, set}`; never the keys."""
        return await asyncio.to_thread(key_states, self._runtime.config.model_keys)

    async def fetch_model(self, name: str) -> Path:
        """Download a model's weights; where they lie.

        Raises:
            ConfigError, ModelError: there is no such model, or it cannot be fetched.
        """
        return await fetch_weights(name, self._runtime.paths)

    async def accept_server(self, name: str) -> LocalServer:
        """Use a model server of this machine from now on where no model is named.

        Args:
            name: the port that it listens at, or its kind.

        Raises:
            ConfigError: none answers, or several are called so.
        """
        answering = find_local_servers(self._runtime.config.model_servers)
        named = [s for s in answering if name == str(s.port) or name.lower() == s.kind.lower()]
        if len(named) != 1:
            listed = ", ".join(f"{s.kind} at port {s.port}" for s in answering) or "none"
            raise ConfigError(f"no single local model server matches {name!r}; running: {listed}")
        AcceptedServers(self._runtime.paths).add(named[0])
        return named[0]

    async def forget_server(self, name: str) -> list[str]:
        """Accept a model server no more, by port or kind, also one that has ended; what was forgotten."""
        return list(AcceptedServers(self._runtime.paths).remove(name))


class TrustedFiles:
    """The project files that the user has looked at and trusts; usable where the settings cannot be read.

    Args:
        paths: where the list lies.
        workspace: whose own file is meant where none is named.
    """

    def __init__(self, paths: Paths, workspace: Path) -> None:
        self._paths = paths
        self._workspace = workspace

    async def list(self) -> dict[str, str]:
        """The trusted files, and the SHA-256 of each as it was when it was trusted."""
        return Trust(self._paths).list()

    async def all_of(self, paths: Sequence[Path]) -> list[Path]:
        """The files that are trusted together: of a folder its hooks, skills, agents and slash commands, and with a
        file of hooks the scripts that they run. An installed plug-in is one thing, its folder.

        Raises:
            ConfigError: one is not there, or holds nothing that can be trusted.
        """
        files = [
            f for p in paths for f in ([p] if self._is_plugin(p) else trusted_with(p, self._workspace))
        ] or [self._file(None)]
        return list(dict.fromkeys(map(self._file, files)))

    async def add(self, file: Path | None = None) -> tuple[Path, str]:
        """Trust a file as it is now; the file and its SHA-256.

        Args:
            file: None = the project's own.

        Raises:
            ConfigError: there is no such file.
        """
        path = self._file(file)
        return path, Trust(self._paths).add(path)

    async def shown(self, file: Path) -> list[Path]:
        """What a person should see of it: the file itself; of a plug-in all that an agent reads or that starts something."""
        if not self._is_plugin(file):
            return [file]
        from pegboard.config.hooks import hooks_of_plugin, scripts_of
        from pegboard.config.plugins import read_plugin

        plugin = read_plugin(file, file)
        scripts = scripts_of(hooks_of_plugin(plugin).hooks, plugin.root)
        found = [
            *plugin.hooks, *scripts, *(folder / "SKILL.md" for folder in plugin.skills), *plugin.agents,
            *(command for _, command in plugin.commands), *(plugin.root / n for n in ("mcp.json", ".mcp.json")),
        ]  # fmt: skip
        return [path for path in dict.fromkeys(found) if path.is_file()]

    async def tool_files(self, settings: Path) -> list[Path]:
        """The Python files that a settings file loads tools from and that lie in the workspace: each needs to be
        trusted too."""
        if settings.name not in NAMES:
            return []
        named: Any = read_unfilled(settings).get("tools", [])
        places = [python_place(one, settings.parent) for one in named if is_python_place(str(one))]
        inside = ToolSettings(python=tuple(places)).python_inside(self._workspace)
        return [file for one in inside if (file := self._workspace / one).is_file()]

    async def remove(self, file: Path | None = None) -> tuple[Path, bool]:
        """Trust a file no more; the file, and whether it was trusted.

        Raises:
            ConfigError: there is no such file.
        """
        path = self._file(file)
        return path, Trust(self._paths).remove(path)

    def _file(self, file: Path | None) -> Path:
        workspace = self._workspace
        path = file or next((workspace / n for n in (*NAMES, ".mcp.json") if (workspace / n).is_file()), None)
        if path is None:
            raise ConfigError(f"no {NAMES[0]} or .mcp.json in {workspace}; name the file to trust")
        if not path.is_file() and not self._is_plugin(path):
            raise ConfigError(f"{path} is not a file")
        return path

    def _is_plugin(self, path: Path) -> bool:
        return path.is_dir() and path.resolve().parent == (self._paths.data / "plugins").resolve()


class SettingsFiles:
    """The user's settings file and the project's, as they are written; usable where they cannot be read.

    Args:
        paths: where the user's lies.
        workspace: where the project's lies.
    """

    def __init__(self, paths: Paths, workspace: Path) -> None:
        self._paths = paths
        self._workspace = workspace

    @property
    def user_file(self) -> Path:
        """The user's file, there or not."""
        return settings_file(self._paths.config)

    async def paths(self) -> tuple[Path, Path | None]:
        """The user's file, there or not, and the project's, None without one."""
        project = settings_file(self._workspace)
        return settings_file(self._paths.config), project if project.exists() else None

    async def start(self, *, user: bool) -> Path:
        """Write a file of comments for a person to edit, the user's or the project's; where it is.

        Raises:
            BuildError: there is one already.
        """
        return write_starter(self._paths.config if user else self._workspace)

    async def get(self, key: str | None = None) -> dict[str, tuple[Any, Path]]:
        """Keys with their values and the file that says so; a trusted project's file wins.

        Args:
            key: such as `model` or `limits.turns`; None = all keys of the first level.

        Raises:
            ConfigError: a file cannot be read, or there is no such key.
        """
        user, project = await self.paths()
        counted = [user, *([project] if project is not None and Trust(self._paths).trusts(project) else [])]
        names = [key] if key is not None else [k for p in counted if p.is_file() for k in read_unfilled(p)]
        found: dict[str, tuple[Any, Path]] = {}
        for path in counted:
            for name in names:
                if (value := read_key(path, name)) is not None:
                    found[name] = (value, path)
        return found

    async def untrusted(self, key: str) -> Path | None:
        """The project's file if it sets a key and does not count, since it is not trusted."""
        _, project = await self.paths()
        if project is None or Trust(self._paths).trusts(project) or read_key(project, key) is None:
            return None
        return project

    async def set(self, key: str, text: str, *, project: bool = False) -> tuple[Path, Any]:
        """Set a key in the user's file or the project's; the file, and the value as it was read.

        Raises:
            BuildError: the file is not TOML.
            ConfigError: no such key, or the value does not fit it.
        """
        path = settings_file(self._workspace if project else self._paths.config)
        return path, set_key(path, key, text, self._paths)

    async def hash(self) -> str:
        """SHA-256 (hex) of the user's file; that of no bytes where there is none."""
        return hashlib.sha256(self._read()).hexdigest()

    async def patch(self, base: str, values: Mapping[str, Any]) -> None:
        """Set keys of the user's file, all or none.

        Args:
            base: the hash of the file that the change was made for.
            values: JSON values by key.

        Raises:
            Conflict: the file is another one by now.
            BuildError: the file is not TOML.
            ConfigError: no such key, or a value does not fit it.
        """
        before, path = self._read(), settings_file(self._paths.config)
        if hashlib.sha256(before).hexdigest() != base:
            raise Conflict(f"{path} has changed since", hint="Read it again and repeat the change.")
        there = path.exists()
        try:
            for key, value in values.items():
                set_key(path, key, _toml(value), self._paths)
        except PegboardError:
            if there:
                path.write_bytes(before)
            else:
                path.unlink(missing_ok=True)
            raise

    def _read(self) -> bytes:
        path = settings_file(self._paths.config)
        return path.read_bytes() if path.is_file() else b""


def _toml(value: Any) -> str:
    """A JSON value as TOML writes it on one line.

    Raises:
        ConfigError: TOML has no null, and no half of a surrogate pair.
    """
    match value:
        case None:
            raise ConfigError("null is not a value of the settings; leave the key out")
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            text = (
                "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)} = {_toml(v)}" for k, v in pairs) + "}"
            )
        case list():
            text = "[" + ", ".join(map(_toml, cast("list[Any]", value))) + "]"
        case _:
            text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
        tomllib.loads(f"value = {text}")
    except ValueError as error:
        raise ConfigError(f"the value cannot be written as TOML: {error}") from None
    return text


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
