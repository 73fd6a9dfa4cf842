"""Declared: a running call changes only the files that it said it would (ledger D-52, DESIGN 1).

Effects are what was shown, judged and approved. A tool that declares that it reads, and writes through its
port all the same, would do what nobody was asked about.
"""

from __future__ import annotations

from typing import Final

from pegboard.core.context import current_context
from pegboard.core.effects import ChangeSet, Effect
from pegboard.core.errors import PermissionDenied

_CHANGING: Final = frozenset({"write", "delete"})
_ANYTHING: Final = frozenset({"exec", "call", "control", "spawn"})
"""Effects of which nobody can say beforehand which files they touch; they were judged as that."""


def refuse_undeclared(changes: ChangeSet) -> None:
    """Let pass what the call that runs here was authorised to change; outside a call, everything.

    Raises:
        PermissionDenied: a file of `changes` lies under no declared write or delete.
    """
    try:
        context = current_context()
    except LookupError:
        return
    effects = context.effects
    if effects is None or any(e.kind in _ANYTHING and not e.read_only for e in effects):
        return
    for change in changes.changes:
        for path in (change.path, change.moved_to):
            if path is not None and not any(_covers(e, path) for e in effects):
                declared = ", ".join(map(str, effects)) or "none"
                raise PermissionDenied(
                    f"{context.tool} tried to change {path}, which is none of its declared effects ({declared})",
                    hint="Nothing was changed. This tool is not made for that; use one that writes.",
                    details={"rule": "declared effects", "decision": "deny"},
                )


def _covers(effect: Effect, path: str) -> bool:
    if effect.kind not in _CHANGING:
        return False
    target = effect.target.rstrip("/")
    return target == path or path.startswith(f"{target}/") or (target == "." and not path.startswith("/"))
