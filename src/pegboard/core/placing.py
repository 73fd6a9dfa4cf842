"""placed: a function that opens its paths itself opens the very files that were authorised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import join
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.core.effects import Effect

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.core.parameters import Parameter

PATH_KINDS: Final = frozenset({"read", "write", "delete"})
"""The effects whose targets are paths."""

MANY: Final = (list, tuple, set, frozenset)
"""What a marked parameter with several targets holds."""


def resolve_path_arguments(
    arguments: dict[str, Any], markers: Sequence[Parameter], effects: Sequence[Effect], workspace: Path
) -> dict[str, Any]:
    """The arguments with each marked path as the absolute one that its effect names.

    A relative path means the workspace. A function that calls `open(path)` would take the current
    folder of the process: another file than the one that was judged.

    Args:
        arguments: decoded; stay as they are.
        markers: the tool's marked parameters.
        effects: what they gave, one each value, in their order; other effects may stand before them.
        workspace: the folder that relative targets mean.
    """
    out = dict(arguments)
    folder = str(workspace)
    end = len(effects)
    # From the last one back: other effects stand before them.
    for parameter in reversed(markers):
        value = out.get(parameter.name)
        if parameter.marker is None or value is None:
            continue
        several = isinstance(value, MANY)
        begin = end - (len(cast("Sequence[Any]", value)) if several else 1)
        if parameter.marker.kind in PATH_KINDS:
            paths = [_absolute(folder, one.target) for one in effects[begin:end]]
            kind = cast("Callable[[list[str]], Any]", type(value))
            out[parameter.name] = kind(paths) if several else paths[0]
        end = begin
    return out


def _absolute(folder: str, target: str) -> str:
    return folder if target == "." else join(folder, target)
