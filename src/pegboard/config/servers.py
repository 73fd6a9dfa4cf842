"""Servers: which foreign MCP servers the settings name, and which of those are trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.config.environment import environment as this_environment
from pegboard.config.load import NAMES
from pegboard.config.paths import Paths
from pegboard.config.reading import parse_file, parse_json, path_of
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.config_formats import servers_of
from pegboard.store.private_file import replace_private

OWN: Final = "mcp.json"
"""In our config folder: what `pegboard mcp add` writes, in the desktop clients' form."""
PROJECT_FILES: Final = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredServers:
    """What the settings say.

    Attributes:
        servers: the user's own, then those of trusted project files; one that cannot be used has a `fault`.
        ignored: what an untrusted project file wanted, with the whole command line of each, one sentence each.
    """

    servers: tuple[ServerConfig, ...] = ()
    ignored: tuple[str, ...] = ()

    def with_servers(self, more: Sequence[ServerConfig]) -> ConfiguredServers:
        """These and others; of equal names these."""
        taken = {one.name for one in self.servers}
        return replace(self, servers=(*self.servers, *(one for one in more if one.name not in taken)))

    def named(self, name: str) -> ServerConfig:
        """One of them.

        Raises:
            ConfigError: there is none of that name.
        """
        for one in self.servers:
            if one.name == name:
                return one
        known = ", ".join(s.name for s in self.servers) or "none"
        raise ConfigError(f"no MCP server is named {name!r}; configured: {known}. See: pegboard mcp list")


def load_servers(
    paths: Paths,
    workspace: Path | None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ConfiguredServers:
    """The servers of the user's files and of the project's trusted ones; the user's win over equal names.

    Raises:
        ConfigError: a file cannot be read, or what it has in the place of servers is no list or table.
    """
    env = dict(this_environment() if environment is None else environment)
    found: dict[str, ServerConfig] = {}
    ignored: list[str] = []
    for path in _own_files(paths, file):
        for one in _servers(path, env):
            found.setdefault(one.name, _completed(one, path))
    trust = Trust(paths)
    for path in _project_files(workspace):
        if trust.trusts(path):
            for one in _servers(path, {**env, **_editor_words(workspace, paths)}):
                file_ = path.parent / Path(one.env_file).expanduser()
                if one.env_file and file_.exists() and not trust.trusts(file_):
                    # It may set what makes a program run other code, and the trusted file does not show it.
                    ignored.append(
                        f"{path.name}: envFile {one.env_file} of MCP server {one.name!r} is ignored until you run: "
                        f"pegboard trust {file_}"
                    )
                    one = replace(one, env_file="")
                found.setdefault(one.name, _completed(one, path))
            continue
        # Without variables: an untrusted file could send a secret into a place of its choice.
        for one in _servers(path, None):
            ignored.append(
                f"{path.name}: MCP server {one.name!r} would run: {one.command_line}; it is ignored until you "
                f"run: pegboard trust {path}"
            )
    if (paths.data / "plugins").is_dir():
        _add_plugins(found, ignored, paths, trust, env)
    return ConfiguredServers(servers=tuple(found.values()), ignored=tuple(ignored))


def _add_plugins(
    found: dict[str, ServerConfig], ignored: list[str], paths: Paths, trust: Trust, env: Mapping[str, str]
) -> None:
    from pegboard.config.plugins import load_plugins

    installed = load_plugins(paths, trust, environment=env)
    for plugin in installed.trusted:
        for one in plugin.servers:
            if one.name in found:
                ignored.append(
                    f"plug-in {plugin.name}: MCP server {one.name!r} is ignored: another one has this name"
                )
                continue
            plugin.data.mkdir(parents=True, exist_ok=True, mode=0o700)
            found[one.name] = one
    ignored += [
        f"plug-in {plugin.name}: MCP server {one.name!r} would run: {one.command_line}; it is ignored until you run: "
        f"pegboard trust {plugin.root}"
        for plugin in installed.untrusted
        for one in plugin.servers
    ]


def any_servers(paths: Paths, workspace: Path | None) -> bool:
    """Whether any file that may name servers is there; cheap, so that nobody without servers pays for them."""
    own = bool(_own_files(paths, None)) or (paths.data / "plugins").is_dir()
    return own or bool(_project_files(workspace))


def own_file(paths: Paths) -> Path:
    """The file that `pegboard mcp add` and `remove` change."""
    return paths.config / OWN


def save_server(paths: Paths, name: str, row: Mapping[str, Any] | None) -> bool:
    """Add or replace a server in our own file, or with None take it out; whether it was there.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = own_file(paths)
    table: dict[str, Any] = {}
    if path.is_file():
        try:
            table = cast("dict[str, Any]", parse_json(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from None
    rows = cast("dict[str, Any]", table.setdefault("mcpServers", {}))
    was = name in rows
    if row is None:
        rows.pop(name, None)
    else:
        rows[name] = dict(row)
    replace_private(path, json.dumps(table, indent=1, ensure_ascii=False))
    return was


def _own_files(paths: Paths, file: Path | None) -> list[Path]:
    named = file or next((p for n in NAMES if (p := paths.config / n).is_file()), None)
    return [p for p in (own_file(paths), named) if p is not None and p.is_file()]


def _project_files(workspace: Path | None) -> list[Path]:
    if workspace is None:
        return []
    return [p for name in (*NAMES, *PROJECT_FILES) if (p := workspace / name).is_file()]


def _servers(path: Path, environment: Mapping[str, str] | None) -> tuple[ServerConfig, ...]:
    foreign = path.name not in NAMES
    value = parse_file(path, comments=foreign)
    if not foreign:
        folded = _folded(value)
        # Two of the documents keep them in a section `tools`.
        value = folded.get("mcpservers", _folded(folded.get("tools")).get("mcpservers"))
        if value is None:
            return ()
    # One server that lacks a variable must not take the others with it; started, it says what it lacks.
    return servers_of(value, environment=environment, source=path.name, keep=True, foreign=foreign)


def _folded(value: Any) -> dict[str, Any]:
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {k.replace("_", "").replace("-", "").lower(): v for k, v in table.items()}


def _editor_words(workspace: Path | None, paths: Paths) -> dict[str, str]:
    """What VS Code fills in by itself in a project's file."""
    if workspace is None:
        return {}
    folder = workspace.resolve()
    return {
        "workspaceFolder": str(folder), "workspaceFolderBasename": folder.name, "userHome": str(paths.home),
    }  # fmt: skip


def _completed(server: ServerConfig, file: Path) -> ServerConfig:
    """The server with `~` in its paths read, and the variables of its `envFile`; those under `env` win.

    One whose file cannot be read, or has a line that is not `NAME=VALUE`, has that as its fault.
    """
    if server.fault:
        return server
    where = f"MCP server {server.name!r}"
    try:
        if server.command.startswith("~"):
            server = replace(server, command=str(path_of(server.command, file, f"{where}: command")))
        if server.cwd is not None and server.cwd.startswith("~"):
            server = replace(server, cwd=str(path_of(server.cwd, file, f"{where}: cwd")))
        if not server.env_file:
            return server
        return replace(server, env={**_variables(path_of(server.env_file, file, where), where), **server.env})
    except ConfigError as error:
        return replace(server, fault=f"{server.source}: {error}")


def _variables(path: Path, where: str) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{where}: envFile {path}: {why}") from None
    given: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ")
        if not text or text.startswith("#"):
            continue
        name, mark, value = text.partition("=")
        if not mark or not name.strip().isidentifier():
            # Not the line itself: such files hold secrets, and terminals are logged.
            raise ConfigError(
                f"{where}: envFile {path}, line {number}: expected NAME=VALUE, got {len(text)} characters without an ="
            )
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        given[name.strip()] = value[1:-1] if quoted else value
    return given
