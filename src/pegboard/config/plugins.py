"""Plug-ins: folders that bring skills, MCP servers, hooks, agents and slash commands.

The format is Agent Plugins 1.0.0 (https://agent-plugins.org): `plugin.json`, `skills/` and `mcp.json`. It leaves other
components to each client; hooks, agents and slash commands are read from where plug-ins for Claude Code keep them. A
folder whose only manifest is `.claude-plugin/plugin.json` is read as a plug-in for Claude Code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import Paths
from pegboard.config.reading import parse_json
from pegboard.config.trust import Trust
from pegboard.core.errors import BuildError, ConfigError
from pegboard.interop.skills import read_skill
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.config_formats import servers_of

FOLDER: Final = "plugins"
"""In our data folder: each installed plug-in in a folder of its name."""
DATA_FOLDER: Final = "plugin-data"
"""In our data folder: what each plug-in's own programs keep (`PLUGIN_DATA`)."""

SCHEMAS: Final = "https://agent-plugins.org/schemas/1.0.0/"
MANIFEST: Final = "plugin.json"
CLAUDE_MANIFEST: Final = ".claude-plugin/plugin.json"
MAX_FILES: Final = 500
"""Files of one kind that are looked at."""
MAX_BYTES: Final = 1_000_000
"""Bytes of a manifest or a list of servers."""

_NAME: Final = r"^(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\Z"
_SKILL_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED: Final = ("PLUGIN_ROOT", "PLUGIN_DATA")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One plug-in, as its folder describes it.

    Attributes:
        name, version, description: from its manifest.
        root: its folder, links followed.
        data: the folder in which its programs keep their state.
        skills: folders that each hold a SKILL.md.
        agents, commands: Markdown files; a command's with the folder that its name begins at.
        hooks: files that name hooks.
        servers: its MCP servers, named `PLUGIN-SERVER`; one that cannot be used has a `fault`.
        notes: what of it cannot be used, a sentence each.
    """

    name: str
    version: str = ""
    description: str = ""
    root: Path
    data: Path
    skills: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    commands: tuple[tuple[Path, Path], ...] = ()
    hooks: tuple[Path, ...] = ()
    servers: tuple[ServerConfig, ...] = ()
    notes: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        """What its programs find in their environment. Python writes nothing into its folder, which is pinned."""
        root, data = str(self.root), str(self.data)
        return {
            "PYTHONDONTWRITEBYTECODE": "1", "CLAUDE_PLUGIN_ROOT": root, "CLAUDE_PLUGIN_DATA": data,
            "PLUGIN_ROOT": root, "PLUGIN_DATA": data,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """The installed plug-ins.

    Attributes:
        trusted: those that count.
        untrusted: those that do not.
        notes: a sentence for each that does not count.
    """

    trusted: tuple[Plugin, ...] = ()
    untrusted: tuple[Plugin, ...] = ()
    notes: tuple[str, ...] = ()


class _Closed(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", regex_engine="python-re")


class _Author(_Closed):
    name: str = ""
    email: str = ""
    url: str = ""


class _Manifest(_Closed):
    """`plugin.json` (§5.2 to §5.6 of the specification)."""

    schema_: Literal["https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"] = Field(alias="$schema")
    name: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=_NAME)]
    version: str = ""
    description: str = ""
    author: _Author = _Author()
    homepage: str = ""
    repository: str = ""
    license: str = ""
    keywords: list[str] = []
    extensions: dict[str, dict[str, Any]] = {}


class _Program(_Closed):
    """A server over standard input and output (§7.2.1)."""

    type: Literal["stdio"]
    command: Annotated[str, StringConstraints(min_length=1)]
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = "./"


class _Remote(_Closed):
    """A server over HTTP (§7.2.1)."""

    type: Literal["streamable-http", "sse"]
    url: str
    headers: dict[str, str] = {}


_SERVER: Final[TypeAdapter[_Program | _Remote]] = TypeAdapter(
    Annotated[_Program | _Remote, Field(discriminator="type")]
)


@dataclass(slots=True)
class _Parts:
    """What is found of a plug-in while it is read."""

    skills: dict[Path, None] = field(default_factory=dict[Path, None])
    agents: dict[Path, None] = field(default_factory=dict[Path, None])
    commands: dict[Path, Path] = field(default_factory=dict[Path, Path])
    hooks: dict[Path, None] = field(default_factory=dict[Path, None])
    servers: dict[str, Any] = field(default_factory=dict[str, Any])
    notes: list[str] = field(default_factory=list[str])


def plugin_folders(paths: Paths) -> list[Path]:
    """The folders of the installed plug-ins."""
    folder = paths.data / FOLDER
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def load_plugins(
    paths: Paths, trust: Trust | None = None, *, environment: Mapping[str, str] | None = None
) -> Plugins:
    """The installed plug-ins. One that is broken costs only itself.

    Args:
        paths: where they and the list of trust lie.
        trust: what the user trusts.
        environment: values for `${VAR}` in the server files of plug-ins for Claude Code, once trusted.
    """
    trust = trust or Trust(paths)
    env = this_environment() if environment is None else environment
    trusted: list[Plugin] = []
    untrusted: list[Plugin] = []
    notes: list[str] = []
    for folder in plugin_folders(paths):
        counts = trust.trusts(folder)
        try:
            # Without variables before: it could send a secret into a place of its choice.
            plugin = read_plugin(folder, data_folder(paths, folder.name), environment=env if counts else None)
        except (ConfigError, OSError) as error:
            notes.append(f"the plug-in {folder.name} is ignored: {error}")
            continue
        if counts:
            trusted.append(plugin)
            notes += [f"plug-in {plugin.name}: {note}" for note in plugin.notes]
        else:
            untrusted.append(plugin)
            notes.append(f"the plug-in {plugin.name} is ignored until you run: pegboard trust {folder}")
    return Plugins(trusted=tuple(trusted), untrusted=tuple(untrusted), notes=tuple(notes))


def data_folder(paths: Paths, name: str) -> Path:
    """Where the programs of a plug-in keep their state, there or not."""
    return paths.data / DATA_FOLDER / name


def read_plugin(folder: Path, data: Path, *, environment: Mapping[str, str] | None = None) -> Plugin:
    """A plug-in as its folder describes it; its notes say what is wrong with it.

    Args:
        folder: the plug-in's.
        data: see `Plugin`.
        environment: values for `${VAR}` in the server file of a plug-in for Claude Code; None = they stay.

    Raises:
        ConfigError: it has no manifest, or one that is wrong.
        OSError: it cannot be read.
    """
    root, parts = folder.resolve(), _Parts()
    claude = _json(root, CLAUDE_MANIFEST) if (root / CLAUDE_MANIFEST).is_file() else None
    if (root / MANIFEST).is_file() or claude is None:
        manifest = _manifest(root, parts.notes)
        _find_skills(root, parts, root / "skills", strict=True)
        rows = _servers(root, data.resolve(), manifest.name, parts)
        servers = servers_of(
            rows, environment=None, source=f"plug-in {manifest.name}", keep=True, foreign=True
        )
    else:
        manifest = _claude_manifest(root, claude)
        for place in (root / "skills", *_places(root, claude, "skills", parts.notes)):
            _find_skills(root, parts, place, strict=False)
        servers = _claude_servers(root, data.resolve(), manifest.name, claude, environment, parts)
    _find_others(root, claude or {}, parts)
    parts.notes += [note for server in servers for note in (server.fault, *server.notes) if note]
    return Plugin(
        name=manifest.name,
        version=manifest.version,
        description=" ".join(manifest.description.split()),
        root=root,
        data=data.resolve(),
        skills=tuple(parts.skills),
        agents=tuple(parts.agents),
        commands=tuple((where, file) for file, where in parts.commands.items()),
        hooks=tuple(parts.hooks),
        servers=tuple(servers),
        notes=tuple(parts.notes),
    )


# -- manifests ------------------------------------------------------------------------------------


def _manifest(root: Path, notes: list[str]) -> _Manifest:
    if not (root / MANIFEST).is_file():
        raise ConfigError(f"{root} is not a plug-in: it has neither {MANIFEST} nor {CLAUDE_MANIFEST}")
    table = _json(root, MANIFEST)
    known = {f.alias or name for name, f in _Manifest.model_fields.items()}
    notes += [f"{MANIFEST}: the unknown key {key!r} is ignored" for key in table if key not in known]
    if not isinstance(table.get("extensions", {}), dict):
        notes.append(f"{MANIFEST}: extensions is ignored: it is not an object")
        del table["extensions"]
    return _checked(_Manifest, {k: v for k, v in table.items() if k in known})


def _claude_manifest(root: Path, table: Mapping[str, Any]) -> _Manifest:
    kept = {k: v for k in ("name", "version", "description") if isinstance(v := table.get(k), str)}
    try:
        return _checked(_Manifest, {"$schema": f"{SCHEMAS}plugin.schema.json", **kept})
    except ConfigError as error:
        raise ConfigError(f"{root / CLAUDE_MANIFEST}: {error}") from None


def _checked(model: type[_Manifest], table: Mapping[str, Any]) -> _Manifest:
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"{MANIFEST}: {_fault(error)}") from None


def _fault(error: ValidationError) -> str:
    """The first fault, with the value."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    given = "" if first["type"] == "missing" else f", got {first['input']!r:.80}"
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}{given}"


def _json(root: Path, name: str) -> dict[str, Any]:
    path = _inside(root, root / name)
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{name} has more than {MAX_BYTES} bytes")
    try:
        value = parse_json(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: expected an object, got {type(value).__name__}")
    return cast("dict[str, Any]", value)


# -- places ---------------------------------------------------------------------------------------


def _inside(root: Path, path: Path) -> Path:
    """A path with its links followed.

    Raises:
        ConfigError: it leaves the plug-in.
    """
    real = path.resolve()
    if not real.is_relative_to(root):
        raise ConfigError(
            f"{path.relative_to(root) if path.is_relative_to(root) else path} leads out of the plug-in"
        )
    return real


def _relative(root: Path, text: str) -> Path:
    """A `./path` of a manifest.

    Raises:
        ConfigError: it does not begin so, or leaves the plug-in.
    """
    if not text.startswith("./") or "\0" in text:
        raise ConfigError(f"the path {text!r:.80} must begin with ./ and stay within the plug-in")
    try:
        return _inside(root, root / text)
    except ConfigError:
        raise ConfigError(f"the path {text!r:.80} leads out of the plug-in") from None


def _places(root: Path, table: Mapping[str, Any], key: str, notes: list[str]) -> list[Path]:
    """The further places of a kind that the manifest of a plug-in for Claude Code names."""
    given: Any = table.get(key, [])
    found: list[Path] = []
    for text in cast(
        "list[Any]", [given] if isinstance(given, str) else given if isinstance(given, list) else []
    ):
        try:
            found.append(_relative(root, str(text)))
        except ConfigError as error:
            notes.append(f"{key}: {error}")
    return found


def _find_skills(root: Path, parts: _Parts, place: Path, *, strict: bool) -> None:
    try:
        if not place.exists():
            return
        if not _inside(root, place).is_dir():
            raise ConfigError(f"{place.relative_to(root)} is not a folder")
        single = not strict and (place / "SKILL.md").is_file()
        children = [place] if single else sorted(p for p in islice(place.iterdir(), MAX_FILES))
        folders = [p for p in children if (p / "SKILL.md").is_file()]
    except (ConfigError, OSError) as error:
        parts.notes.append(f"skills are ignored: {error}")
        return
    for folder in folders:
        try:
            _inside(root, folder / "SKILL.md")
            skill = read_skill(folder)
            if strict and (skill.name != folder.name or not _SKILL_NAME.fullmatch(skill.name)):
                raise ConfigError(
                    f"its name {skill.name!r} must be that of its folder, in lower-case letters, digits and hyphens"
                )
        except (BuildError, ConfigError, OSError) as error:
            parts.notes.append(f"the skill {folder.name} is ignored: {error}")
        else:
            parts.skills[folder] = None


def _find_others(root: Path, claude: Mapping[str, Any], parts: _Parts) -> None:
    """Hooks, agents and slash commands."""
    hooks = [root / "hooks/hooks.json", *_places(root, claude, "hooks", parts.notes)]
    if isinstance(claude.get("hooks"), dict):
        hooks.append(root / CLAUDE_MANIFEST)
    for file in hooks:
        if (found := _files(root, file, "hooks", parts.notes)) and file.is_file():
            parts.hooks.update(dict.fromkeys(found))
    for place in (root / "agents", *_places(root, claude, "agents", parts.notes)):
        parts.agents.update(dict.fromkeys(_files(root, place, "agents", parts.notes)))
    for place in (root / "commands", *_places(root, claude, "commands", parts.notes)):
        start = place if place.is_dir() else place.parent
        parts.commands.update(dict.fromkeys(_files(root, place, "commands", parts.notes), start))


def _files(root: Path, place: Path, what: str, notes: list[str]) -> list[Path]:
    """A file, or the Markdown files below a folder; those that leave the plug-in are left out."""
    found: list[Path] = []
    for path in [place] if place.is_file() else sorted(islice(place.rglob("*.md"), MAX_FILES)):
        try:
            _inside(root, path)
            found.append(path)
        except ConfigError as error:
            notes.append(f"{what}: {error}")
    return found


# -- servers --------------------------------------------------------------------------------------


def _servers(root: Path, data: Path, name: str, parts: _Parts) -> dict[str, Any]:
    """The servers of `mcp.json`, as `servers_of` takes them; a wrong entry costs only itself (§7.2.2)."""
    if not (root / "mcp.json").exists():
        return {}
    try:
        table = _json(root, "mcp.json")
        rows: Any = table.get("mcpServers")
        if table.get("$schema") != f"{SCHEMAS}mcp.schema.json":
            raise ConfigError(f"$schema must be {SCHEMAS}mcp.schema.json, got {table.get('$schema')!r:.80}")
        if set(table) != {"$schema", "mcpServers"} or not isinstance(rows, dict):
            raise ConfigError("expected an object with $schema and mcpServers, and nothing else")
    except (ConfigError, OSError) as error:
        parts.notes.append(f"mcp.json is ignored: {error}")
        return {}
    found: dict[str, Any] = {}
    for server, row in cast("dict[str, Any]", rows).items():
        try:
            match _SERVER.validate_python(row):
                case _Program() as program:
                    found[f"{name}-{server}"] = _program(root, data, program)
                case _Remote() as remote:
                    _check_remote(remote)
                    found[f"{name}-{server}"] = {
                        "type": remote.type,
                        "url": remote.url,
                        "headers": remote.headers,
                    }
        except ValidationError as error:
            parts.notes.append(f"the MCP server {server!r:.60} is ignored: {_fault(error)}")
        except ConfigError as error:
            parts.notes.append(f"the MCP server {server!r:.60} is ignored: {error}")
    return found


def _program(root: Path, data: Path, given: _Program) -> dict[str, Any]:
    def expand(text: str) -> str:
        # At once, so that no text that is put in is looked at again (§9.2).
        return re.sub(r"\$\{PLUGIN_(ROOT|DATA)\}", lambda m: str(root if m[1] == "ROOT" else data), text)

    if "/" not in given.command and "\\" not in given.command:
        command = given.command
    else:
        command = str(_relative(root, given.command))
    if named := [variable for variable in _RESERVED if variable in given.env]:
        raise ConfigError(f"env must not set {named[0]}")
    if given.cwd.startswith("./"):
        cwd = _relative(root, given.cwd)
    elif (start := re.match(r"\$\{PLUGIN_(ROOT|DATA)\}(?:/|\Z)", given.cwd)) is not None:
        base = root if start[1] == "ROOT" else data
        cwd = Path(expand(given.cwd)).resolve()
        if not cwd.is_relative_to(base):
            raise ConfigError(f"cwd {given.cwd!r:.80} leads out of {start[0].rstrip('/')}")
    else:
        raise ConfigError(
            f"cwd must begin with ./, ${{PLUGIN_ROOT}} or ${{PLUGIN_DATA}}, got {given.cwd!r:.80}"
        )
    env = {"PYTHONDONTWRITEBYTECODE": "1", **{k: expand(v) for k, v in given.env.items()}}
    return {
        "command": command, "args": [expand(a) for a in given.args], "cwd": str(cwd),
        "env": {**env, "PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(data)},
    }  # fmt: skip


def _check_remote(given: _Remote) -> None:
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(given.url)
        host = parts.hostname or ""
    except ValueError as error:
        raise ConfigError(f"the url {given.url!r:.80} is wrong: {error}") from None
    if parts.scheme not in ("http", "https") or not host or "#" in given.url or "@" in parts.netloc:
        raise ConfigError(
            f"the url {given.url!r:.80} must be an absolute http or https address without user and fragment"
        )
    here = host == "localhost"
    with suppress(ValueError):
        here = here or ip_address(host).is_loopback
    if parts.scheme == "http" and not here:
        raise ConfigError(
            f"the url {given.url!r:.80} must use https: only this machine may be reached over http"
        )
    names = [name.lower() for name in given.headers]
    for name, value in given.headers.items():
        if not _HEADER.fullmatch(name) or re.search(r"[\r\n\0]", value) or names.count(name.lower()) > 1:
            raise ConfigError(f"the header {name!r:.60} is not a valid header, or appears twice")


def _claude_servers(
    root: Path,
    data: Path,
    name: str,
    table: Mapping[str, Any],
    environment: Mapping[str, str] | None,
    parts: _Parts,
) -> list[ServerConfig]:
    """The servers of `.mcp.json` and of the manifest of a plug-in for Claude Code."""
    given: Any = table.get("mcpServers")
    values = [cast("dict[str, Any]", given)] if isinstance(given, dict) else []
    for file in (root / ".mcp.json", *_places(root, table, "mcpServers", parts.notes)):
        try:
            if file.is_file():
                values.append(_json(root, str(file.relative_to(root))))
        except (ConfigError, OSError) as error:
            parts.notes.append(f"its MCP servers are ignored: {error}")
    rows: dict[str, Any] = {}
    for value in values:
        inner: Any = value.get("mcpServers", value)
        rows |= {
            f"{name}-{k}": v
            for k, v in (cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}).items()
        }
    own = Plugin(name=name, root=root, data=data).variables()
    env = None if environment is None else {**environment, **own}
    found = servers_of(rows, environment=env, source=f"plug-in {name}", keep=True, foreign=True)
    return [replace(one, env={**one.env, **own}, cwd=one.cwd or str(root)) for one in found]
