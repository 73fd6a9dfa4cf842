"""Plug-ins: tools of installed packages, loaded by name and only where the config allows them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, cast

from pegboard.core.errors import BuildError
from pegboard.core.toolkit import Toolkit

GROUPS: Final = (
    "pegboard.tools", "pegboard.dialects", "pegboard.channels", "pegboard.sandboxes", "pegboard.stores",
    "pegboard.search", "pegboard.models",
)  # fmt: skip
"""Groups of entry points that packages may use."""


def available(group: str = "pegboard.tools") -> dict[str, str]:
    """Installed plug-ins of a group: `name` → `distribution version`. Nothing is imported."""
    return {e.name: _from(e) for e in entry_points(group=group)}


def load_plugin(name: str, *, allowed: Iterable[str], group: str = "pegboard.tools") -> Any:
    """One plug-in's object.

    Args:
        name: the entry point's name.
        allowed: the names that the config allows; a plug-in runs as you, so nothing else is imported.
        group: one of GROUPS.

    Raises:
        BuildError: it is not allowed, not installed, or cannot be imported.
    """
    if group not in GROUPS:
        raise BuildError(f"unknown plug-in group {group!r}; known are {', '.join(GROUPS)}")
    if name not in set(allowed):
        raise BuildError(
            f"the plug-in {name!r} is not allowed; name it in the config under plugins.allow to load it"
        )
    found = [e for e in entry_points(group=group) if e.name == name]
    if not found:
        raise BuildError(f"no installed package has the plug-in {name!r} in {group}")
    if len(found) > 1:
        raise BuildError(
            f"several packages have a plug-in {name!r}: {', '.join(_from(e) for e in found)}; remove all but one"
        )
    try:
        return found[0].load()
    except (
        Exception
    ) as error:  # A stranger's module runs here: whatever it raises is told with the plug-in's name.
        raise BuildError(f"the plug-in {name!r} of {_from(found[0])} cannot be loaded: {error}") from error


def plugin_tools(allowed: Iterable[str]) -> Toolkit:
    """The tools of all allowed plug-ins that are installed, in the order of `allowed`.

    A plug-in may be a tool, a list of tools, a Toolkit, or a function without arguments that gives one.

    Raises:
        BuildError: an allowed one is missing or broken, or two tools share a name.
    """
    # One that brings something else, such as a channel, brings no tools.
    others = {name for group in GROUPS if group != "pegboard.tools" for name in available(group)}
    names = [n for n in dict.fromkeys(allowed) if n not in others or n in available()]
    return Toolkit([_tools(load_plugin(name, allowed=names), name) for name in names])


def _tools(made: Any, name: str) -> Any:
    import inspect

    if inspect.isfunction(made) and not inspect.signature(made).parameters:
        made = made()
    if made is None:
        return []
    try:
        many = isinstance(made, (list, tuple, Toolkit))
        return Toolkit(cast("Iterable[Any]", made) if many else [made])
    except BuildError as error:
        raise BuildError(f"plug-in {name!r}: {error}") from error


def _from(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
