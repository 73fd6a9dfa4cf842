"""ToolSource: something whose tools are known only once it is running: a foreign server, a plug-in host."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, tools_of

_LONGEST = 64


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
    A source with a method `collided(name) -> bool` may have such a tool left out instead (ledger X-39, raw).
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
