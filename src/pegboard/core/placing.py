"""placed: a function that opens its paths itself opens the very files that were authorised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.effects import Effect
from pegboard.core.parameters import Parameter

PATH_KINDS: Final = frozenset({"read", "write", "delete"})
"""The effects whose targets are paths."""

MANY: Final = (list, tuple, set, frozenset)
"""What a marked parameter with several targets holds."""


def placed(
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
    given = [(p, out[p.name]) for p in markers if p.marker is not None and out.get(p.name) is not None]
    count = sum(len(cast("list[Any]", value)) if isinstance(value, MANY) else 1 for _, value in given)
    targets = iter(effects[len(effects) - count :])
    for parameter, value in given:
        several = isinstance(value, MANY)
        found = [next(targets) for _ in (cast("Sequence[Any]", value) if several else (value,))]
        if found and found[0].kind in PATH_KINDS:
            paths = [str(workspace / one.target) for one in found]
            kind = cast("Callable[[list[str]], Any]", type(value))
            out[parameter.name] = kind(paths) if several else paths[0]
    return out
