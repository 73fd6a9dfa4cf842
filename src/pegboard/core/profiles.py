"""Naming profiles: the canonical tool names, every document's spelling of them, and how a kit takes them on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field

from pegboard.core.errors import BuildError, InvalidArguments, check_text
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, EffectMarker
from pegboard.core.schema.decode import Decoded, make_decoded, read_object
from pegboard.core.schema.numerals import as_sent
from pegboard.core.schema.problems import Problem, raise_invalid
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Level, RenderFunction, Tool, ToolLimits
from pegboard.core.toolkit import import_object

_FRESHNESS: Final = {
    "pd": "day",
    "pw": "week",
    "pm": "month",
    "py": "year",
    "nolimit": "any",
    "oneday": "day",
    "oneweek": "week",
    "onemonth": "month",
    "oneyear": "year",
}
_PERIODS: Final = ("any", "day", "week", "month", "year")
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_RANGE: Final = re.compile(f"({_DAY})(?:to|\\.\\.)({_DAY})")


def _freshness(value: Any) -> Any:
    """One of `any`, `day`, `week`, `month`, `year`, or a range of days as `2026-01-01..2026-01-31`."""
    from datetime import date

    if not isinstance(value, str):
        return value  # For the type to refuse.
    word = value.strip()
    known = _FRESHNESS.get(word.lower(), word.lower())
    if known in _PERIODS:
        return known
    days = _RANGE.fullmatch(word)
    if days is None:
        raise ValueError(f"must be one of {', '.join(_PERIODS)} or a range of days as 2026-01-01..2026-01-31")
    first, last = sorted(date.fromisoformat(day) for day in days.groups())
    return f"{first}..{last}"


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


SearchCount: TypeAlias = Annotated[
    int, Field(ge=1, le=50, description="How many results, 1 to 50."), Alias("max_results")
]
"""How many results a search gives."""

Freshness: TypeAlias = Annotated[
    str,
    BeforeValidator(_freshness),
    Field(description="How recent: any, day, week, month, year, or 2026-01-01..2026-01-31."),
]
"""How recent what is found must be; comes as `any`, `day`, `week`, `month`, `year` or `DAY..DAY`."""

ExtractMode: TypeAlias = Annotated[Literal["markdown", "text"], Field(description="What a page becomes.")]
"""What a page is turned into."""

MaxChars: TypeAlias = Annotated[int, Field(ge=100, description="Longest text, in characters.")]
"""The longest text of a page."""

MessageText: TypeAlias = Annotated[str, Field(description="What to say."), Alias("message")]
"""The text of a message."""

ChatId: TypeAlias = Annotated[str, EffectMarker("send", "The chat that it goes to.", ("target", "to"))]
"""The chat that a message goes to; effect `send`."""

MediaPaths: TypeAlias = Annotated[
    list[str], BeforeValidator(_listed), Field(description="Paths of files to send along.")
]
"""Files that go with a message; one may come without its list."""

JobText: TypeAlias = Annotated[
    str, Field(description="What is to be done or said then."), Alias("prompt", "task")
]
"""What a scheduled job says."""

JobId: TypeAlias = Annotated[str, Field(description="The job."), Alias("id")]
"""Which job."""


LOCALES: Final = ("en", "zh")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileParameter:
    """One parameter as a profile advertises it.

    Attributes:
        name: its advertised name.
        schema: its JSON Schema, description included.
        to: the canonical parameter that it fills; empty = the same name, None = accepted and dropped.
        required: whether it must be given.
    """

    name: str
    schema: Mapping[str, Any]
    canonical: str | None = ""
    required: bool = False

    @property
    def target(self) -> str | None:
        """The canonical parameter, None where it is dropped."""
        return self.name if self.canonical == "" else self.canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProfile:
    """One tool as a profile advertises it.

    Attributes:
        name: its advertised name.
        tool: the canonical tool behind it.
        description: what the model reads; empty = the tool's own.
        zh: the same in Chinese; empty = `description`.
        parameters: in the advertised order; None = the tool's own schema.
        fixed: canonical arguments that are always given so.
        adapt: a last change of the canonical arguments, where names alone do not say it.
        render: words results.
        max_chars: characters of its results, where the profile's texts promise another number.
        level: whether each call asks first, where the profile's texts promise that; None = as the tool itself.
    """

    name: str
    tool: str
    description: str = ""
    zh: str = ""
    parameters: tuple[ProfileParameter, ...] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    render: RenderFunction | None = None
    max_chars: int | None = None
    level: Level | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one system names things.

    Attributes:
        name: as `Toolkit.profile` takes it.
        rows: its tools; several may stand for one canonical tool.
        words: words the results of tools without a `render` of their own.
    """

    name: str
    rows: tuple[ToolProfile, ...]
    words: RenderFunction | None = None


def with_profile(kit: Any, name: str, *, locale: str = "en") -> list[Tool]:
    """The tools of a kit under a profile; a tool that the profile does not know stays as it is.

    Raises:
        BuildError: no such profile or locale.
    """
    profile = find(name)
    if locale not in LOCALES:
        raise BuildError(f"unknown locale {locale!r}; use {' or '.join(LOCALES)}")
    rows: dict[str, list[ToolProfile]] = {}
    for row in profile.rows:
        rows.setdefault(row.tool, []).append(row)
    return list(_tools(kit, profile, rows, locale))


def find(name: str) -> Profile:
    """The profile of this name; `_` may stand for `-`.

    Raises:
        BuildError: there is none.
    """
    known = cast("Mapping[str, Profile]", import_object("pegboard.compat.profiles:PROFILES"))
    profile = known.get(check_text(name, "a profile", meant="a name").lower().replace("_", "-"))
    if profile is None:
        raise BuildError(f"unknown profile {name!r}; known are {', '.join(known)}")
    return profile


def _tools(kit: Any, profile: Profile, rows: Mapping[str, list[ToolProfile]], locale: str) -> Iterator[Tool]:
    chinese: Mapping[str, str] = {}
    voice: RenderFunction | None = None
    if locale == "zh":
        chinese, voice = (
            import_object("pegboard.compat.locale:DESCRIPTIONS"),
            import_object("pegboard.compat.locale:render_zh"),
        )
    for tool in cast("list[Tool]", list(kit)):
        found = rows.get(tool.name)
        for row in found or (ToolProfile(name=tool.name, tool=tool.name),):
            text = row.description
            if locale == "zh":
                text = row.zh or chinese.get(tool.name, "") or text
            render = _both(row.render or profile.words if found else None, voice)
            yield apply_profile(tool, row, description=text, render=render, alone=len(found or ()) == 1)


def apply_profile(
    tool: Tool,
    row: ToolProfile,
    *,
    description: str = "",
    render: RenderFunction | None = None,
    alone: bool = True,
) -> Tool:
    """One tool as a row advertises it. Plan, effects, injection and function stay the tool's own."""
    changes: dict[str, Any] = {"name": row.name, "canonical": tool.canonical or tool.name}
    if description:
        changes["_description"] = description
    if render is not None:
        changes["render"] = render if tool.render is None else _both(tool.render, render)
    if row.parameters is not None or row.fixed or row.adapt:
        changes["signature"] = ProfileSignature.of_row(tool.signature, row)
        changes["example"] = None
    if row.level is not None:
        changes["level"] = row.level
    if row.max_chars is not None:
        changes["limits"] = ToolLimits(timeout_s=tool.limits.timeout_s, max_chars=row.max_chars)
    if alone and tool.name != row.name:
        # What a model learned elsewhere in the same conversation still resolves.
        changes["aliases"] = (*tool.aliases, tool.name)
    return tool.copy(**changes)


def _both(first: RenderFunction | None, second: RenderFunction | None) -> RenderFunction | None:
    if first is None or second is None:
        return first or second

    def render(result: ToolResult, arguments: Mapping[str, Any]) -> ToolResult:
        return second(first(result, arguments), arguments)

    return render


class ProfileSignature(Signature):
    """A tool's signature under other names: shows the profile's schema, decodes by the tool's own."""

    __slots__ = ("_base", "_row", "_shown", "_spellings")

    _base: Signature
    _row: ToolProfile
    _shown: Mapping[str, Any]
    _spellings: dict[str, str]

    @classmethod
    def of_row(cls, base: Signature, row: ToolProfile) -> ProfileSignature:
        """The signature of a canonical tool as a row advertises it."""
        self = cls.__new__(cls)
        for slot in Signature.__slots__:
            setattr(self, slot, getattr(base, slot))
        self._base, self._row = base, row
        self.name = row.name
        given = row.parameters or ()
        # From the canonical name back to the one that the model knows, for error texts.
        self._spellings = {p.target: p.name for p in given if p.target and p.target != p.name}
        self._shown = (
            base.schema
            if row.parameters is None
            else {
                "type": "object",
                "properties": {p.name: dict(p.schema) for p in given},
                "required": [p.name for p in given if p.required],
            }
        )
        return self

    @property
    def schema(self) -> Mapping[str, Any]:
        """The profile's schema."""
        return self._shown

    def check(self) -> None:
        """See Signature."""
        self._base.check()

    def reader(self) -> Callable[[str | Mapping[str, Any] | None], Decoded]:
        """See Signature."""
        return self.decode

    def decode(self, arguments: str | Mapping[str, Any] | None) -> Decoded:
        """See Signature; the profile's names and the tool's own are both read."""
        given, notes = read_object(arguments, name=self.name, halves=True)
        missing = [
            Problem(f".{p.name}", "is required but missing")
            for p in self._row.parameters or ()
            if p.required and p.target is None and p.name not in given
        ]
        if missing:
            raise_invalid(missing, name=self.name)
        canonical = self._canonical(given)
        try:
            inner = self._base.decode(as_sent(canonical))
        except InvalidArguments as error:
            raise_invalid(
                [Problem(self._spelled(e["path"]), e["message"]) for e in error.details["errors"]],
                name=self.name,
            )
        return make_decoded(inner.arguments, (*notes, *inner.repairs), inner.sent)

    def _canonical(self, given: Mapping[str, Any]) -> dict[str, Any]:
        targets = {p.name: p.target for p in self._row.parameters or ()}
        out: dict[str, Any] = {}
        for key, value in given.items():
            target = targets.get(key, key)
            if target is not None:
                out.setdefault(target, value)
        if self._row.adapt is not None:
            out = self._row.adapt(out)
        return {**out, **self._row.fixed}

    def _spelled(self, path: str) -> str:
        head, dot, rest = path[1:].partition(".")
        name, bracket, index = head.partition("[")
        if path.startswith(".") and name in self._spellings:
            return f".{self._spellings[name]}{bracket}{index}{dot}{rest}"
        return path


__all__ = [
    "LOCALES",
    "Profile",
    "ProfileParameter",
    "ProfileSignature",
    "ToolProfile",
    "apply_profile",
    "find",
    "with_profile",
]
