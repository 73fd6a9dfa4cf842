"""Agent files: the skills, agents, slash commands and hooks that people already have, and which of them count.

They lie in `.agents` of the home folder, in `.agents`, `.claude` and `.codex` of the workspace, and in plug-ins. What lies
in the workspace or in a plug-in counts only as it was when the user trusted it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pegboard.config.paths import Paths
from pegboard.config.trust import Trust, within
from pegboard.core.errors import BuildError, ConfigError, ToolError

if TYPE_CHECKING:
    from pegboard.config.plugins import Plugin

SHARED: Final = ".agents"
PROJECT: Final = (".agents", ".claude", ".codex")
"""Folders of a workspace in which such files are looked for, in the order in which equal names win."""
HOOK_FILES: Final = ("hooks.json", "settings.json", "settings.local.json")

MAX_FILES: Final = 500
"""Files of one kind that are looked at."""
MAX_BYTES: Final = 200_000
_ARGUMENT: Final = re.compile(r"\$(ARGUMENTS\b|[1-9]\b)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFiles:
    """What was found, the user's before the project's.

    Attributes:
        skills: folders that each hold a SKILL.md.
        agents, commands: Markdown files; a command's with the folder that its name begins at.
        hooks: files that may name hooks.
        inside: those of the workspace, all of them trusted.
        untrusted: files of the workspace that do not count.
        plugins: the trusted plug-ins; theirs stand behind the user's and the project's.
        of_plugin: the plug-in that a file or a skill's folder comes from.
        notes: what of plug-ins does not count, a sentence each.
    """

    skills: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    commands: tuple[tuple[Path, Path], ...] = ()
    hooks: tuple[Path, ...] = ()
    inside: frozenset[Path] = frozenset()
    untrusted: tuple[Path, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    of_plugin: Mapping[Path, str] = field(default_factory=dict[Path, str])
    notes: tuple[str, ...] = ()

    def ignored(self, workspace: Path) -> str:
        """What of the workspace does not count, and the command that trusts it; empty if all counts."""
        if not self.untrusted:
            return ""
        kinds = [_kind(path) for path in self.untrusted]
        counted = [
            f"{n} {kind}{'' if n == 1 else 's'}" for kind in dict.fromkeys(kinds) if (n := kinds.count(kind))
        ]
        folders = dict.fromkeys(path.relative_to(workspace).parts[0] for path in self.untrusted)
        listed = ", ".join(counted[:-1]) + (" and " if counted[1:] else "") + counted[-1]
        return f"{listed} of this project {'is' if len(kinds) == 1 else 'are'} ignored until you run: pegboard trust {' '.join(folders)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """An agent as its file describes it.

    Attributes:
        name, description: what it is called, and when to use it.
        instructions: its system prompt.
        tools: our names of the tools that it may use; None = all.
        model: as it is written there; empty or `inherit` = the one of whoever calls it.
        isolation: `worktree` = it works in a git worktree of its own.
        file: where it lies.
    """

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...] | None = None
    model: str = ""
    isolation: Literal["", "worktree"] = ""
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFile:
    """A slash command: a prompt with places for arguments.

    Attributes:
        name: without the slash; one in a subfolder is `folder:name`.
        description, arguments: what lists and completions show.
        prompt: its text.
        file: where it lies.
    """

    name: str
    description: str
    prompt: str
    arguments: str = ""
    file: Path

    def expand(self, given: str) -> str:
        """The prompt with `$ARGUMENTS`, `$1` to `$9` filled in; arguments that have no place stand behind it."""
        words = _words(given)

        def fill(match: re.Match[str]) -> str:
            if match[1] == "ARGUMENTS":
                return given
            return words[int(match[1]) - 1] if int(match[1]) <= len(words) else ""

        text = _ARGUMENT.sub(fill, self.prompt)
        return text if not given or _ARGUMENT.search(self.prompt) else f"{text.rstrip()}\n\n{given}"


def find_agent_files(paths: Paths, workspace: Path | None, *, trust: Trust | None = None) -> AgentFiles:
    """What lies in the folders of the user and of the workspace; a few looks where there is nothing."""
    trust = trust or Trust(paths)
    places = [paths.home / SHARED]
    if workspace is not None:
        places += [workspace / name for name in PROJECT]
    places = [place for place in dict.fromkeys(places) if place.is_dir()]
    hooks = [paths.config / "hooks.json"]
    skills: list[Path] = []
    agents: list[Path] = []
    commands: list[tuple[Path, Path]] = []
    for place in places:
        hooks += [place / name for name in HOOK_FILES]
        hooks += sorted(islice(place.glob("plugins/*/hooks/hooks.json"), MAX_FILES))
        skills += sorted(p.parent for p in islice(place.glob("skills/*/SKILL.md"), MAX_FILES))
        agents += sorted(islice((place / "agents").rglob("*.md"), MAX_FILES))
        commands += [
            (place / "commands", p) for p in sorted(islice((place / "commands").rglob("*.md"), MAX_FILES))
        ]
    inside: set[Path] = set()
    untrusted: list[Path] = []

    def counts(file: Path) -> bool:
        if workspace is None or not within(file, workspace):
            return True
        if _trusts(trust, file, workspace):
            inside.add(file.resolve())
            return True
        untrusted.append(file)
        return False

    found = [h for h in hooks if _names_hooks(h)]
    files = AgentFiles(
        hooks=tuple(h for h in found if counts(h)),
        skills=tuple(s for s in skills if counts(s / "SKILL.md")),
        agents=tuple(a for a in agents if counts(a)),
        commands=tuple((root, c) for root, c in commands if counts(c)),
        inside=frozenset(inside),
        untrusted=tuple(untrusted),
    )
    return _with_plugins(files, paths, trust) if (paths.data / "plugins").is_dir() else files


def _with_plugins(files: AgentFiles, paths: Paths, trust: Trust) -> AgentFiles:
    from pegboard.config.plugins import load_plugins

    installed = load_plugins(paths, trust)
    of_plugin: dict[Path, str] = {}
    for plugin in installed.trusted:
        theirs = (*plugin.skills, *plugin.agents, *(file for _, file in plugin.commands))
        of_plugin |= dict.fromkeys(theirs, plugin.name)
    return replace(
        files,
        skills=files.skills + tuple(s for p in installed.trusted for s in p.skills),
        agents=files.agents + tuple(a for p in installed.trusted for a in p.agents),
        commands=files.commands + tuple(c for p in installed.trusted for c in p.commands),
        plugins=installed.trusted,
        of_plugin=of_plugin,
        notes=installed.notes,
    )


def free_name(name: str, taken: Container[str], plugin: str) -> str:
    """The name of something that a plug-in brings: `PLUGIN:NAME` if another has it already."""
    return f"{plugin}:{name}" if plugin and name in taken else name


def read_agents(
    files: AgentFiles, taken: Collection[str] = ()
) -> tuple[tuple[AgentFile, ...], tuple[str, ...]]:
    """The agents, the first of each name, and a sentence for each file that is none.

    Args:
        files: where they are.
        taken: names that others have already.
    """
    from pegboard.interop.tool_names import our_name

    found: dict[str, AgentFile] = {}
    notes: list[str] = []
    for path, front, body in _read(files.agents, notes):
        name, description = front.get("name") or path.stem, front.get("description")
        if not isinstance(name, str) or not isinstance(description, str) or not body.strip():
            notes.append(f"{path} is no agent: it needs a description in its front matter, and instructions")
            continue
        model: Any = front.get("model")
        name = free_name(name.strip(), {*found, *taken}, files.of_plugin.get(path, ""))
        found.setdefault(
            name,
            AgentFile(
                name=name, description=" ".join(description.split()), instructions=body.strip(), file=path,
                tools=None if front.get("tools") is None else tuple(dict.fromkeys(map(our_name, _listed(front["tools"])))),
                model=model if isinstance(model, str) else "",
                isolation="worktree" if front.get("isolation") == "worktree" else "",
            ),
        )  # fmt: skip
    return tuple(found.values()), tuple(notes)


def read_commands(files: AgentFiles) -> tuple[tuple[CommandFile, ...], tuple[str, ...]]:
    """The slash commands, the first of each name, and a sentence for each file that is none."""
    roots = {path: root for root, path in files.commands}
    found: dict[str, CommandFile] = {}
    notes: list[str] = []
    for path, front, body in _read(roots, notes):
        name = ":".join(path.relative_to(roots[path]).with_suffix("").parts)
        if not body.strip() or re.search(r"\s", name):
            notes.append(f"{path} is no slash command: it has no text, or a space in its name")
            continue
        name = free_name(name, found, files.of_plugin.get(path, ""))
        first = next((line.strip("# ") for line in body.splitlines() if line.strip()), "")
        found.setdefault(
            name,
            CommandFile(
                name=name, description=" ".join(str(front.get("description") or first).split())[:200],
                arguments=str(front.get("argument-hint") or ""), prompt=body.strip(), file=path,
            ),
        )  # fmt: skip
    return tuple(found.values()), tuple(notes)


def trusted_with(path: Path, workspace: Path) -> list[Path]:
    """The files that are trusted together with a folder or file: all that counts in it, and what its hooks run.

    Raises:
        ConfigError: there is nothing there that could be trusted.
    """
    if path.is_dir():
        files = [path / name for name in HOOK_FILES if _names_hooks(path / name)]
        for pattern in (
            "plugins/*/hooks/hooks.json",
            "skills/*/SKILL.md",
            "agents/**/*.md",
            "commands/**/*.md",
            "SKILL.md",
        ):
            files += sorted(islice(path.glob(pattern), MAX_FILES))
        if not files:
            raise ConfigError(f"{path} holds no hooks, skills, agents or slash commands")
    else:
        files = [path]
    for file in tuple(files):
        if file.name in HOOK_FILES:
            files += _scripts(file, workspace)
    return list(dict.fromkeys(files))


def _trusts(trust: Trust, file: Path, workspace: Path) -> bool:
    try:
        files = [file, *(_scripts(file, workspace) if file.name in HOOK_FILES else ())]
        return all(trust.trusts(one) for one in files)
    except OSError:
        return False


def _names_hooks(file: Path) -> bool:
    try:
        return file.is_file() and (file.name == "hooks.json" or b'"hooks"' in file.read_bytes()[:MAX_BYTES])
    except OSError:
        return False


def _scripts(file: Path, workspace: Path) -> list[Path]:
    from pegboard.config.hooks import read_hooks, scripts_of

    try:
        return scripts_of(read_hooks(file, own=False).hooks, workspace)
    except ConfigError:
        return []


def _kind(path: Path) -> str:
    if path.name in HOOK_FILES:
        return "hooks file"
    if path.name == "SKILL.md":
        return "skill"
    return "agent" if "agents" in path.parts[-3:-1] else "slash command"


def _read(files: Iterable[Path], notes: list[str]) -> Iterator[tuple[Path, Mapping[str, Any], str]]:
    from pegboard.interop.skills import front_matter

    for path in files:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise ToolError(f"it has more than {MAX_BYTES} bytes")
            yield path, *front_matter(data.decode("utf-8", "replace"))
        except (OSError, ToolError, BuildError) as error:
            notes.append(f"{path} is ignored: {getattr(error, 'strerror', None) or error}")


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        # A comma inside brackets belongs to a pattern: `Bash(git add, git commit)`.
        return [w.strip() for w in re.split(r",(?![^(]*\))", value) if w.strip()]
    return [str(one) for one in cast("list[Any]", value)] if isinstance(value, list) else []


def _words(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
