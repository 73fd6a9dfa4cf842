"""Toolkit: an immutable set of tools with unique names, and its algebra."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Final, Protocol, TypeGuard, cast, runtime_checkable

from pegboard.core.content import ToolCall
from pegboard.core.errors import BuildError, ToolNotFoundError, check_text, format_value
from pegboard.core.schema.problems import did_you_mean, nearest, short_name
from pegboard.core.tool import Tool


def import_object(path: str) -> Any:
    """The object behind `package.module:name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


_LONGEST = 64

RUN_CODE: Final = "run_code"
"""The tool that runs programs; a kit that has it is in code mode (`pegboard.core.code_mode`)."""


class ToolSource(Protocol):
    """Opened by the Executor at its first call or run, ended with it.

    Attributes:
        revision: grows whenever `tools` would give another list.
    """

    revision: int

    async def tools(self) -> list[Tool]:
        """Its tools; starts what is needed first.

        Raises:
            ToolError: it cannot be started; the message names it.
        """
        ...

    async def aclose(self) -> None:
        """End what was started."""
        ...


@runtime_checkable
class PendingSource(Protocol):
    """A ToolSource that has no tools while it is still starting: a call of one of them waits for it."""

    async def wait_ready(self, name: str) -> None:
        """Wait until the start that is under way has ended, if a tool of this name could come of it."""
        ...


@runtime_checkable
class ChangingSource(Protocol):
    """A ToolSource that hears of changes before it has taken them in."""

    async def settled(self) -> None:
        """Wait until every change that it has heard of is in `tools`."""
        ...


def is_source(thing: object) -> TypeGuard[ToolSource]:
    """Whether something is a ToolSource and no tool, kit or function."""
    return (
        not isinstance(thing, Tool | Toolkit | type)
        and inspect.iscoroutinefunction(getattr(thing, "tools", None))
        and inspect.iscoroutinefunction(getattr(thing, "aclose", None))
    )


def split_sources(things: Any) -> tuple[list[Any], list[ToolSource]]:
    """Tools and the like apart from sources, both in order; lists are looked through."""
    if isinstance(things, Toolkit):
        return [things], []
    plain: list[Any] = []
    sources: list[ToolSource] = []
    for one in tools_of(things):
        if is_source(one):
            sources.append(one)
        elif isinstance(one, list | tuple):
            inner, found = split_sources(one)
            plain += inner
            sources += found
        else:
            plain.append(one)
    return plain, sources


def add_sources(
    toolkit: Toolkit, found: Sequence[Sequence[Tool]], sources: Sequence[ToolSource | None] = ()
) -> Toolkit:
    """The kit with the sources' tools behind it; a name that is taken gets a digest of what it is.

    The kit's own tools and those of earlier sources keep their names, so adding a source renames nothing.
    A source with a method `collided(name) -> bool` may have such a tool left out instead.
    """
    taken = {t.name for t in toolkit}
    out: list[Tool] = []
    for number, tools in enumerate(found):
        for tool in tools:
            name = tool.name
            if name in taken:
                refuses = getattr(sources[number], "collided", None) if number < len(sources) else None
                if refuses is not None and refuses(name):
                    continue
                import hashlib

                digest = hashlib.sha256(f"{number}\0{name}\0{tool.description}".encode()).hexdigest()[:8]
                name = f"{name[: _LONGEST - 9]}_{digest}"
            taken.add(name)
            out.append(tool if name == tool.name else tool.copy(name=name))
    return Toolkit([*toolkit, *out])


_NOISE: Final = re.compile(r"^(?:functions|function|tools|tool|default_api)[.:/]")

TOOL_ALIASES: Final[dict[str, str]] = {
    "read": "read_file",
    "write": "write_file",
    "edit": "edit_file",
    "bash": "exec",
    "find_files": "glob",
    "schedule_task": "cron",
}
"""The spellings of the documents alone: what is merely like a name, or a name of other
systems, may mean something else there. They resolve only where the target is in the toolkit and the
alias itself is no tool of the kit."""


class Toolkit:
    """Tools by unique name, in a stable order.

    Args:
        tools: Tool objects, functions with typed parameters, toolkits or lists of these.

    Raises:
        BuildError: two tools share a name, or something is no tool.
    """

    __slots__ = ("_aliases", "_folded", "_rendered", "_tools")

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for one in _flatten(tools_of(tools)):
            if one.name in self._tools:
                raise BuildError(
                    f"two tools are called {one.name!r}; rename one with .renamed({{{one.name!r}: …}}) "
                    f"or take one out with .without({one.name!r})"
                )
            self._tools[one.name] = one
        self._aliases: dict[str, str] | None = None
        self._folded: dict[str, list[str]] | None = None
        self._rendered: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._tools

    def __getitem__(self, name: str) -> Tool:
        check_text(name, "toolkit[…]", meant="one tool's name")
        try:
            return self._tools[name]
        except KeyError:
            raise ToolNotFoundError(_missing(name, self._tools)) from None

    def __add__(self, other: Any) -> Toolkit:
        return Toolkit([*self, *_flatten([other])])

    def __radd__(self, other: Any) -> Toolkit:
        return Toolkit([*_flatten([other]), *self])

    def __repr__(self) -> str:
        return f"Toolkit({', '.join(self._tools)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of exactly that name, or None."""
        return self._tools.get(name)

    def keep(self, *patterns: str) -> Toolkit:
        """Only the tools whose names match any of the shell patterns; an exact name must exist."""
        self._require(patterns)
        return Toolkit(t for t in self if any(fnmatchcase(t.name, p) for p in patterns))

    def without(self, *patterns: str) -> Toolkit:
        """All but the tools whose names match; an exact name must exist."""
        self._require(patterns)
        return Toolkit(t for t in self if not any(fnmatchcase(t.name, p) for p in patterns))

    def prefixed(self, prefix: str) -> Toolkit:
        """The same tools with `prefix` before each name."""
        before = check_text(prefix, "prefixed(…)")
        return Toolkit(t.copy(name=before + t.name) for t in self)

    def renamed(self, names: Mapping[str, str]) -> Toolkit:
        """The same tools, some under new names (`{old: new}`)."""
        if not isinstance(cast(object, names), Mapping):
            raise BuildError(f"renamed(…) takes {{old name: new name}}, got {format_value(names)}")
        self._require(names)
        return Toolkit(t.copy(name=names[t.name]) if t.name in names else t for t in self)

    def profile(self, name: str, *, locale: str = "en") -> Toolkit:
        """The same tools under the names, schemas and texts of another system.

        Args:
            name: nanobot, nanobot-net, moltbot, artifactflow or claude-code.
            locale: `zh` gives the documents' Chinese texts.

        Raises:
            BuildError: no such profile or locale, or two tools would share a name.
        """
        return Toolkit(import_object("pegboard.core.profiles:with_profile")(self, name, locale=locale))

    def check(self) -> Toolkit:
        """Build every schema now, so that a wrong one is found at start and not at the first call.

        Raises:
            BuildError: all wrong tools at once, one line each.
        """
        wrong: list[str] = []
        for one in self:
            try:
                one.signature.check()
            except BuildError as error:
                wrong.append(f"{one.name}: {error}")
        if wrong:
            raise BuildError("\n".join(wrong))
        return self

    def schemas(self, dialect: str = "openai-chat") -> Any:
        """The tools as one provider wants them: a list of dicts, for `xml` a text.

        Raises:
            BuildError: an unknown dialect, or a schema that cannot be built.
        """
        rendered = self._rendered.get(check_text(dialect, "schemas(…)", meant="a dialect's name"))
        if rendered is None:
            find = cast(Callable[[str], Any], import_object("pegboard.dialects:dialect"))
            rendered = self._rendered[dialect] = find(dialect).render_tools(self.advertised())
        return list(cast(list[Any], rendered)) if isinstance(rendered, list) else rendered

    def advertised(self) -> Toolkit:
        """What a model is shown of it: all of it, or what `deferred` leaves."""
        return self

    def unwrap_call(self, call: ToolCall) -> ToolCall:
        """The call that a call means: itself, or the one inside a `call_tool` (see `deferred`)."""
        return call

    def resolve(self, name: str) -> Tool | None:
        """The tool that a model means by `name`: exact, without name noise, or by an alias.

        Noise is case, surrounding blanks, a `functions.` prefix and how words are joined (`read-file`,
        `readFile`), and only where one single tool fits. A merely similar name never resolves.
        """
        if not isinstance(cast(object, name), str):
            return None
        found = self._tools.get(name)
        if found is not None:
            return found
        key = _fold(name)
        if self._folded is None or self._aliases is None:
            self._index()
        folded = cast(dict[str, list[str]], self._folded).get(key, ())
        if len(folded) == 1:
            return self._tools[folded[0]]
        target = cast(dict[str, str], self._aliases).get(key)
        return self._tools[target] if target and not folded else None

    def nearest(self, name: str, *, count: int = 3) -> list[str]:
        """The names most similar to `name`, best first."""
        return nearest(_plain(name), self._tools, count=count, cutoff=0.5)

    def _index(self) -> None:
        folded: dict[str, list[str]] = {}
        for name in self._tools:
            folded.setdefault(_fold(name), []).append(name)
        aliases = {_fold(a): t for a, t in TOOL_ALIASES.items() if t in self._tools}
        for one in self:
            aliases.update({_fold(a): one.name for a in one.aliases})
        self._folded, self._aliases = folded, aliases

    def _require(self, names: Iterable[str]) -> None:
        for name in names:
            check_text(name, "a toolkit", meant="tool names, each an argument of its own")
            if not any(c in name for c in "*?[") and name not in self._tools:
                raise ToolNotFoundError(_missing(name, self._tools))


def as_tool(thing: Any) -> Tool:
    """A Tool from a Tool, a Tool subclass without arguments, a typed function, or a tool in the class
    style of another system (see `pegboard.core.adapters`).

    Raises:
        BuildError: it is none of these.
    """
    if isinstance(thing, Tool):
        return thing
    if isinstance(thing, type) and issubclass(thing, Tool):
        return thing()
    other = cast(Any, thing)
    to_tool = getattr(other, "to_tool", None)
    if to_tool is not None and not isinstance(thing, type):
        return as_tool(to_tool())
    from pegboard.core.adapters import looks_like_tool

    if to_tool is not None or looks_like_tool(other):
        return _foreign(other)
    if callable(other) and not isinstance(thing, type):
        return Tool(other)
    raise BuildError(
        f"{thing!r} is not a tool: pass a function with typed parameters, a Tool, or a Toolkit "
        "(other systems' tool classes: pegboard.compat)"
    )


def _foreign(thing: Any) -> Tool:
    from pegboard.core.adapters import adapt

    made = adapt(thing) if not isinstance(thing, type) else _instance(cast("type[Any]", thing))
    return made if isinstance(made, Tool) else as_tool(made)


def _instance(kind: type[Any]) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise BuildError(
            f"class {kind.__name__} cannot be made without arguments ({error}); give an instance instead"
        ) from error


def tools_of(things: object) -> Iterable[Any]:
    """The things of a list, or the one thing: a tool alone is as good as a list of one."""
    if isinstance(things, Iterable) and not isinstance(things, str | bytes | Mapping):
        return cast("Iterable[Any]", things)
    return [things]


def _flatten(things: Iterable[Any]) -> Iterator[Tool]:
    for thing in things:
        if isinstance(thing, Toolkit):
            yield from thing
        elif isinstance(thing, list | tuple):
            yield from _flatten(cast(Iterable[Any], thing))
        else:
            yield as_tool(thing)


def _plain(name: str) -> str:
    return _NOISE.sub("", name.strip().lower()).replace("-", "_").replace(" ", "_")


def _fold(name: str) -> str:
    return _plain(name).replace("_", "") or name


def _missing(name: str, known: Iterable[str]) -> str:
    check_text(name, "a toolkit", meant="a tool's name")
    meant = did_you_mean(name, known, otherwise=f"; there are: {', '.join(known) or 'none'}.")
    return f"Tool {short_name(name)} not registered{meant}"


class Registry:
    """Tools by unique name. Each registry has its own."""

    def __init__(self, tools: list[Any] | Toolkit | None = None) -> None:
        self._tools: dict[str, Tool] = {}
        for one in Toolkit([] if tools is None else tools):
            self._tools[one.name] = one

    def register(self, tool: Any) -> Tool:
        """Add a tool or typed function; one of the same name is replaced."""
        made = as_tool(tool)
        self._tools[made.name] = made
        return made

    def unregister(self, name: str) -> bool:
        """Take a tool out; False where there was none."""
        return self._tools.pop(name, None) is not None

    def get(self, name: str) -> Tool | None:
        """The tool, or None."""
        return self._tools.get(name)

    def require(self, name: str) -> Tool:
        """The tool.

        Raises:
            ToolNotFoundError: `Tool '{name}' not registered` and the nearest name.
        """
        return self.toolkit()[name]

    __getitem__ = require

    def has(self, name: str) -> bool:
        """Whether there is one of that name."""
        return name in self._tools

    @property
    def tool_names(self) -> list[str]:
        """The names in order of registration."""
        return list(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def toolkit(self, *names: str, strict: bool = True) -> Toolkit:
        """The named tools, or all, as a Toolkit; an unknown name is an error unless `strict=False`."""
        if not names:
            return Toolkit(self._tools.values())
        kit = Toolkit(self._tools.values())
        return Toolkit([kit[n] for n in names if strict or n in kit])

    def schemas(self, dialect: str = "openai-chat") -> Any:
        """All tools as one provider wants them."""
        return self.toolkit().schemas(dialect)

    def get_definitions(self) -> list[dict[str, Any]]:
        """All tools in OpenAI form."""
        return [t.to_schema() for t in self]

    def list_schemas(self) -> list[dict[str, Any]]:
        """The same as `get_definitions`."""
        return self.get_definitions()

    def list_tools(self) -> list[Tool]:
        """The tools."""
        return list(self)

    def add(self, toolkit: Toolkit) -> None:
        """Register every tool of a kit.

        Raises:
            BuildError: a name is taken.
        """
        for one in toolkit:
            if one.name in self._tools:
                raise BuildError(f"a tool called {one.name!r} is registered already")
            self._tools[one.name] = one
