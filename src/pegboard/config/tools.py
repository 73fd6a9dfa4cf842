"""`tools`, `[http_tools]`, `[openapi.NAME]`, `[skills]` and `[plugins]`: further tools that the settings name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pegboard.config.reading import path_of, table_of, texts
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError
from pegboard.core.schema.problems import nearest

T = TypeVar("T")
R = TypeVar("R")

_HTTP: Final = (".toml", ".yaml", ".yml", ".md")
_SKILL: Final = "SKILL.md"
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "http_tools": ("files",),
    "skills": ("folders",),
    "plugins": ("allow",),
    "openapi": ("file", "base_url", "auth", "headers", "keep", "timeout_s", "prefix"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAPIFile:
    """One `[openapi.NAME]` table.

    Attributes:
        name: of the table.
        file: the document, JSON or YAML.
        prefix: before every tool's name; `NAME_` where the table says nothing.
        base_url, auth, headers, keep, timeout_s: see `pegboard.interop.openapi.openapi_tools`.
    """

    name: str
    file: Path
    prefix: str
    base_url: str = ""
    auth: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    keep: tuple[str, ...] = ()
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTools:
    """One place with tools in Python: `FILE.py`, `package.module`, or either with `:NAME`.

    Attributes:
        place: as it is loaded; a file with its whole path.
        given: as it was written.
        file: the file; None = an installed module.
        sha256: of the file's bytes as they were trusted; empty = a person named it on the command line, or it lies
            outside the workspace.
    """

    place: str
    given: str
    file: Path | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """What the settings name beside built-in tools and servers.

    Attributes:
        python: files and modules with tools in Python.
        http: files of declarative HTTP tools.
        openapi: documents.
        skills: folders that each hold one SKILL.md.
        plugins: entry points that may be loaded.
        found: folders of skills that no settings name; the first of a name counts, a wrong one is left out.
        of_plugin: the plug-in that such a folder comes from.
        pinned: folders of plug-ins; they are looked at again when a skill in them is read later.
        inside: those of the above files that lie in the workspace and were trusted; they are looked at
            again when they are read later.
        missing: what is named and not there, a sentence each.
    """

    python: tuple[PythonTools, ...] = ()
    http: tuple[Path, ...] = ()
    openapi: tuple[OpenAPIFile, ...] = ()
    skills: tuple[Path, ...] = ()
    plugins: tuple[str, ...] = ()
    found: tuple[Path, ...] = ()
    of_plugin: Mapping[Path, str] = field(default_factory=dict[Path, str])
    pinned: tuple[Path, ...] = ()
    inside: frozenset[Path] = frozenset()
    missing: tuple[str, ...] = ()

    def __add__(self, other: ToolSettings) -> ToolSettings:
        return ToolSettings(
            python=self.python + other.python,
            http=self.http + other.http,
            openapi=self.openapi + other.openapi,
            skills=self.skills + other.skills,
            plugins=self.plugins + other.plugins,
            found=self.found + other.found,
            of_plugin={**self.of_plugin, **other.of_plugin},
            pinned=self.pinned + other.pinned,
            missing=self.missing + other.missing,
        )

    def __bool__(self) -> bool:
        return bool(self.python or self.http or self.openapi or self.skills or self.plugins or self.found)

    def python_inside(self, workspace: Path) -> list[str]:
        """The Python files among them that lie in a workspace, relative to it: they run as the person, so no tool
        may change them unasked."""
        root = workspace.resolve()
        real = [p.file.resolve() for p in self.python if p.file is not None]
        return [file.relative_to(root).as_posix() for file in real if file.is_relative_to(root)]


def is_python_place(text: str) -> bool:
    """Whether a text names Python tools rather than a built-in tool: it has a dot, a colon or a slash."""
    return any(c in text for c in ".:/")


def python_place(text: str, folder: Path) -> PythonTools:
    """Tools in Python by what a person wrote; a relative file starts at `folder`."""
    where, colon, name = text.partition(":")
    if not where.endswith(".py"):
        return PythonTools(place=text, given=text)
    file = folder / Path(where).expanduser()
    return PythonTools(place=f"{file}{colon}{name}", given=text, file=file)


class _NotThere(ConfigError):
    """A file or folder that is named is not there: that costs its entry."""


def read_tool_files(key: str, table: Mapping[str, Any], path: Path) -> ToolSettings:
    """One of the four tables of a settings file; relative paths start at that file's folder.

    A file or folder that is not there, or cannot be looked into, costs only its entry.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    missing: list[str] = []

    def each(names: Iterable[T], read: Callable[[T], Iterable[R]]) -> list[R]:
        out: list[R] = []
        for name in names:
            try:
                out += read(name)
            except _NotThere as error:
                missing.append(f"{error}; it is left out")
        return out

    if key == "openapi":
        rows = each(table.items(), lambda row: [_openapi(*row, path)])
        return ToolSettings(openapi=tuple(rows), missing=tuple(missing))
    (only,) = _KEYS[key]
    table = table_of(table, path, key, _KEYS[key])
    given = texts(table.get(only), path, f"{key}.{only}")
    match key:
        case "plugins":
            return ToolSettings(plugins=given)
        case "skills":
            found = each(given, lambda text: _skills(text, path))
            return ToolSettings(skills=tuple(dict.fromkeys(found)), missing=tuple(missing))
        case _:
            found = each(given, lambda text: _http_files(text, path))
            return ToolSettings(http=tuple(dict.fromkeys(found)), missing=tuple(missing))


def trusted_only(
    files: ToolSettings, trust: Trust, workspace: Path | None
) -> tuple[ToolSettings, tuple[str, ...]]:
    """The files without those in the workspace that nobody trusts, and a sentence for each of these.

    A trusted settings file vouches for itself alone: what lies in the workspace can be written by whoever
    may write there, the agent's own tools too.
    """
    ignored: list[str] = []
    inside: set[Path] = set()

    def kept(file: Path, what: str) -> bool:
        real = file.resolve()
        if workspace is None or not real.is_relative_to(workspace.resolve()):
            return True
        if trust.trusts(file):
            inside.add(real)
            return True
        ignored.append(
            f"{what} {file} is in the workspace and is ignored until you run: pegboard trust {file}"
        )
        return False

    python: list[PythonTools] = []
    for one in files.python:
        if one.file is not None and kept(one.file, "the file"):
            python.append(replace(one, sha256=trust.sha256(one.file) if one.file.resolve() in inside else ""))
        elif one.file is None and (there := _workspace_module(one.place, workspace)) is not None:
            ignored.append(
                f"tools: the module {one.given} is in the workspace and is ignored; name its file {there} instead"
            )
        elif one.file is None:
            python.append(one)
    found = replace(
        files,
        python=tuple(python),
        http=tuple(f for f in files.http if kept(f, "the HTTP tool file")),
        openapi=tuple(o for o in files.openapi if kept(o.file, "the OpenAPI document")),
        skills=tuple(s for s in files.skills if kept(s / _SKILL, "the skill")),
    )
    return replace(found, inside=frozenset(inside)), tuple(ignored)


def _workspace_module(place: str, workspace: Path | None) -> Path | None:
    """The file of a module that lies in the workspace, None for an installed one. Nothing is imported."""
    where: Sequence[str] | None = None
    found: Path | None = None
    parts = place.partition(":")[0].split(".")
    for index in range(len(parts)):
        name = ".".join(parts[: index + 1])
        spec = next((s for f in sys.meta_path if (s := f.find_spec(name, where, None)) is not None), None)
        if spec is None:
            break
        places: list[str] = list(spec.submodule_search_locations or ())
        found = Path(spec.origin or next(iter(places), "")).resolve()
        inside = workspace is not None and found.is_relative_to(workspace.resolve())
        # What is installed with us, in an environment within the workspace, is as safe as we are.
        if inside and not found.is_relative_to(Path(sys.prefix).resolve()):
            return workspace.joinpath(*parts).with_suffix(".py") if workspace is not None else None
        where = places
    return None


def _openapi(name: str, given: Any, path: Path) -> OpenAPIFile:
    key = f"openapi.{name}"
    row = table_of(given, path, key, _KEYS["openapi"])
    if not isinstance(row.get("file"), str):
        raise ConfigError(f"{path}: {key}.file must name the document")
    file = _there(row["file"], f"{key}.file", path)
    if not file.is_file():
        raise _NotThere(f"{path}: {key}.file: {file} is not a file")
    for text in ("base_url", "prefix"):
        if not isinstance(row.get(text, ""), str):
            raise ConfigError(f"{path}: {key}.{text} must be text, not {row[text]!r:.60}")
    timeout = row.get("timeout_s", 30.0)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        raise ConfigError(f"{path}: {key}.timeout_s must be a number of seconds above 0, not {timeout!r:.60}")
    return OpenAPIFile(
        name=name,
        file=file,
        prefix=row.get("prefix", f"{name}_"),
        base_url=row.get("base_url", ""),
        auth=_pairs(row.get("auth", {}), f"{key}.auth", path),
        headers=_pairs(row.get("headers", {}), f"{key}.headers", path),
        keep=texts(row.get("keep", []), path, f"{key}.keep"),
        timeout_s=float(timeout),
    )


def _skills(text: str, path: Path) -> list[Path]:
    folder = _there(text, "skills.folders", path)
    if not folder.is_dir():
        raise _NotThere(f"{path}: skills.folders: {folder} is not a folder")
    if (folder / _SKILL).is_file():
        return [folder]
    return [p for p in _listed(folder, "skills.folders", path) if (p / _SKILL).is_file()]


def _http_files(text: str, path: Path) -> list[Path]:
    file = _there(text, "http_tools.files", path)
    if file.is_dir():
        return [p for p in _listed(file, "http_tools.files", path) if p.suffix in _HTTP and p.is_file()]
    if file.suffix not in _HTTP:
        raise ConfigError(f"{path}: http_tools.files: {file.name} is none of {', '.join(_HTTP)}")
    return [file]


def _there(text: str, key: str, path: Path) -> Path:
    found = path_of(text, path, key)
    if not found.exists():
        near: list[str] = []
        with suppress(OSError):
            near = nearest(found.name, [p.name for p in found.parent.iterdir()])
        meant = f"; did you mean {str(Path(text).with_name(near[0]))!r}?" if near else ""
        raise _NotThere(f"{path}: {key}: {found} does not exist{meant}")
    return found


def _listed(folder: Path, key: str, path: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise _NotThere(f"{path}: {key}: {folder} cannot be read ({error.strerror})") from None


def _pairs(value: Any, key: str, path: Path) -> dict[str, str]:
    rows = cast("dict[Any, Any]", value) if isinstance(value, dict) else {"": None}
    for name, one in rows.items():
        if not isinstance(one, str):
            raise ConfigError(f"{path}: {key} must be a table of texts, not {value!r:.60}")
        del name
    return cast("dict[str, str]", rows)


__all__ = [
    "OpenAPIFile",
    "PythonTools",
    "ToolSettings",
    "is_python_place",
    "python_place",
    "read_tool_files",
    "trusted_only",
]
