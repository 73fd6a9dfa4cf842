"""Agent Skills: folders with a SKILL.md, told by name first and read only when needed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.effects import PURE
from pegboard.core.errors import (
    BuildError,
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    TooLarge,
    ToolError,
)
from pegboard.core.result import Notes, ToolResult
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit

MAX_BYTES: Final = 200_000
"""Bytes of one file of a skill that are read."""

MAX_DESCRIPTION: Final = 1024
"""Characters of a description, as the Agent Skills format has it; it stands in every prompt."""

MAX_FILES: Final = 200
"""Files of a skill that are listed."""

_SKILL: Final = "SKILL.md"
_NAME: Final = re.compile(r"\w[\w .-]{0,63}")
_LINE: Final = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*)$", re.MULTILINE)

StillTrusted = Callable[[Path], "bool | None"]
"""Whether a file is still the one that the user trusted; None = it needs no trust."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill.

    Attributes:
        name, description: from its front matter; all that a model sees at first.
        folder: where it lies.
        allowed_tools: tools that it names; they are never granted by it.
        plugin: the plug-in that it comes from, if any.
    """

    name: str
    description: str
    folder: Path
    allowed_tools: tuple[str, ...] = ()
    plugin: str = ""

    def body(self) -> str:
        """SKILL.md without its front matter."""
        return front_matter(_text(_inside(self.folder, _SKILL, self.name)))[1]

    def stamp(self) -> tuple[int, int]:
        """Time and size of its SKILL.md, other ones once that is another file."""
        there = (self.folder / _SKILL).stat()
        return there.st_mtime_ns, there.st_size

    def files(self) -> list[str]:
        """The other files, relative to the folder; MAX_FILES and a line that there are more."""
        found: list[str] = []
        for here, folders, names in os.walk(self.folder, followlinks=False):
            folders[:] = sorted(d for d in folders if not d.startswith("."))
            found += [str((Path(here) / n).relative_to(self.folder)) for n in sorted(names)]
            if len(found) > MAX_FILES + 1:
                break
        found = [f for f in found if f != _SKILL]
        return found if len(found) <= MAX_FILES else [*found[:MAX_FILES], "… and more"]

    def read(self, path: str) -> str:
        """One of its files.

        Raises:
            OutsideWorkspace: the path leaves the skill's folder, by a link too.
            NotFound: there is none.
            TooLarge: it is over MAX_BYTES.
        """
        target = _inside(self.folder, path, self.name)
        if not target.is_file():
            raise NotFound(
                f"the skill {self.name} has no file {path}", hint=f"It has: {', '.join(self.files())}"
            )
        return _text(target)


class Skills:
    """The skills below some folders; only names and descriptions are read at first.

    Args:
        folders: each is a skill, or holds skills. A folder of the project counts only when it is trusted:
            whoever calls this decides.
        trusted: asked each time that a SKILL.md is read, since a trusted one may be another by then.
        found: further folders that nobody named: of these the first of a name counts, and a wrong one is left out.
        of_plugin: the plug-in that such a folder comes from: its skill is called `PLUGIN:NAME` if the name is taken.
        on_warning: is told of a skill that cannot be read, which is then left out; None = it is an error.

    Raises:
        BuildError: a SKILL.md without name or description, or two skills of one name.
    """

    def __init__(
        self,
        folders: Iterable[str | Path],
        *,
        trusted: StillTrusted | None = None,
        found: Iterable[Path] = (),
        of_plugin: Mapping[Path, str] | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self._trusted: StillTrusted = trusted or (lambda _: None)
        self.skills: dict[str, Skill] = {}
        for folder in folders:
            for path in _found(Path(folder).expanduser()):
                try:
                    skill = read_skill(path)
                except (BuildError, OSError) as error:
                    if on_warning is None:
                        raise
                    on_warning(f"the skill {path} is left out: {error}")
                    continue
                if skill.name in self.skills:
                    raise BuildError(
                        f"two skills are called {skill.name!r}: {self.skills[skill.name].folder} and {path}"
                    )
                self.skills[skill.name] = skill
        for folder in found:
            for skill in there_now([folder]):
                plugin = (of_plugin or {}).get(folder, "")
                name = f"{plugin}:{skill.name}" if plugin and skill.name in self.skills else skill.name
                self.skills.setdefault(name, replace(skill, name=name, plugin=plugin))

    def __len__(self) -> int:
        return len(self.skills)

    def prompt(self) -> str:
        """What a system prompt says about them: one line each; empty without skills."""
        if not self.skills:
            return ""
        lines = [f"- {s.name}: {s.description}" for s in self.skills.values()]
        return "\n".join(["Skills, to be read with read_skill before a task that they fit:", *lines])

    def trusts(self, skill: Skill) -> bool:
        """Whether its SKILL.md is still the one that the user trusted, or needs no trust."""
        return self._trusted(skill.folder / _SKILL) is not False

    def toolkit(self) -> Toolkit:
        """`list_skills` and `read_skill`.

        Both read only what the operator gave as skills, as much a part of the kit as a tool's description;
        so they have no effects.
        """

        async def list_skills() -> ToolResult:
            rows = [{"name": s.name, "description": s.description} for s in self.skills.values()]
            text = "\n".join(f"{r['name']}: {r['description']}" for r in rows) or "There are no skills."
            return ToolResult.from_text(text, data={"skills": rows})

        async def read_one(name: str, file: str | None = None) -> ToolResult:
            skill = self._get(name)
            own = self._trusted(skill.folder / _SKILL)
            if own is False:
                look = f"look at it and run: pegboard trust {skill.folder / _SKILL}"
                raise PermissionDenied(
                    f"the skill {name} has changed since the user trusted it",
                    hint=f"Ask the user to {'run: pegboard plugins list' if skill.plugin else look}",
                )
            if file:
                # Trust speaks of SKILL.md; its neighbours in the workspace are as trustworthy as any file there.
                notes = Notes() if own is None else Notes(labels=("untrusted",))
                data = {"name": name, "file": file}
                return replace(ToolResult.from_text(skill.read(file), data=data), notes=notes)
            more = skill.files()
            tail = "\n\nFiles of this skill (read_skill with file=…):\n" + "\n".join(more) if more else ""
            return ToolResult.from_text(skill.body() + tail, data={"name": name, "files": more})

        return Toolkit([
            Tool(list_skills, name="list_skills", effects=PURE, idempotent=True,
                 description="List the skills: instructions for kinds of tasks. Read one before a task it fits."),
            Tool(read_one, name="read_skill", effects=PURE, idempotent=True, max_chars=60_000,
                 description="Read a skill's instructions, or with `file` one of its files."),
        ])  # fmt: skip

    def _get(self, name: str) -> Skill:
        skill = self.skills.get(name)
        if skill is None:
            raise InvalidArguments(
                f"no skill is called {name!r}", hint=f"There are: {', '.join(self.skills) or 'none'}."
            )
        return skill


def read_skill(folder: Path) -> Skill:
    """Name and description of the skill in a folder.

    Raises:
        BuildError: no SKILL.md, or front matter that lacks name or description.
    """
    path = folder / _SKILL
    if not path.is_file():
        raise BuildError(f"{folder} has no {_SKILL}")
    try:
        front, _ = front_matter(_text(_inside(folder, _SKILL, folder.name)))
    except ToolError as error:
        raise BuildError(f"{path}: {error.message}") from error
    name, description = front.get("name") or folder.name, front.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not description.strip():
        raise BuildError(f"{path}: the front matter needs name and description as texts")
    if _NAME.fullmatch(name) is None or len(description) > MAX_DESCRIPTION:
        # Both stand in the system prompt: a name of several lines could say anything there.
        raise BuildError(
            f"{path}: the name must be one line of at most 64 letters, digits, dots, dashes and spaces, and "
            f"the description at most {MAX_DESCRIPTION} characters"
        )
    listed: Any = front.get("allowed-tools") or front.get("allowed_tools") or ()
    tools = listed.replace(",", " ").split() if isinstance(listed, str) else [str(t) for t in listed]
    return Skill(
        name=name, description=" ".join(description.split()), folder=folder, allowed_tools=tuple(tools)
    )


def there_now(folders: Iterable[Path]) -> list[Skill]:
    """The skills below some folders at this moment, the first of a name; what cannot be read is left out."""
    out: dict[str, Skill] = {}
    for folder in folders:
        with suppress(BuildError, OSError):
            for path in _found(folder):
                with suppress(BuildError, OSError):
                    skill = read_skill(path)
                    out.setdefault(skill.name, skill)
    return list(out.values())


def _found(folder: Path) -> list[Path]:
    if (folder / _SKILL).is_file():
        return [folder]
    if not folder.is_dir():
        raise BuildError(f"the skills folder {folder} does not exist")
    return sorted(p for p in folder.iterdir() if (p / _SKILL).is_file())


def _inside(folder: Path, path: str, name: str) -> Path:
    """A path below a skill's folder, links followed."""
    root = folder.resolve()
    target = (root / path).resolve()
    if target != root and root not in target.parents:
        raise OutsideWorkspace(
            f"{path} is outside the skill {name}", hint="Name a file that read_skill listed."
        )
    return target


def _text(path: Path) -> str:
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise TooLarge(
            f"{path.name} has {size} bytes; at most {MAX_BYTES} are read", hint="Split it into files."
        )
    return path.read_text(encoding="utf-8", errors="replace")


def front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """The YAML front matter of a Markdown text, and its body.

    Front matter that is no YAML is read line by line as `key: text`: in many files a description holds a colon.
    """
    import yaml

    if not text.startswith("---"):
        return {}, text
    head, mark, rest = text[3:].partition("\n---")
    if not mark:
        return {}, text
    body = rest.partition("\n")[2].lstrip()
    try:
        front: Any = yaml.safe_load(head)
    except yaml.YAMLError:
        front = {m[1]: m[2].strip() for m in _LINE.finditer(head)}
    return (cast("Mapping[str, Any]", front) if isinstance(front, Mapping) else {}), body
