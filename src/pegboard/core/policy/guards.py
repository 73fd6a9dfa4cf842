"""Safeguards: what a pipeline keeps an eye on beside the policy."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from pegboard.core.effects import Effect
from pegboard.core.values import record

if TYPE_CHECKING:
    from pegboard.core.policy.budgets import Meter
    from pegboard.core.policy.taint import TaintTracker
    from pegboard.core.secrets.handles import Placeholders, SecretHandles

_WORDS: Final = {
    "connect": "host", "send": "recipient", "call": "MCP tool", "control": "target", "spawn": "agent",
    "write": "folder", "delete": "deleting in",
}  # fmt: skip


class FirstUses(Protocol):
    """What was done before, by workspace."""

    def unseen(self, workspace: str, things: Iterable[str]) -> tuple[str, ...]:
        """Those of `things` that were never done there."""
        ...

    def remember(self, workspace: str, things: Iterable[str]) -> None:
        """These are done now."""
        ...


def use_keys(tool: str, effects: Iterable[Effect]) -> tuple[str, ...]:
    """What is looked for: the tool, the hosts, programs, recipients, and folders that are written; each once.

    Folders and not files: nearly every write is the first of its file.
    """
    out = {f"tool {tool}": None}
    for effect in effects:
        match effect.kind:
            case "exec":
                if effect.argv:
                    out[f"program {posixpath.basename(effect.argv[0])}"] = None
            case "write" | "delete":
                folder = posixpath.dirname(effect.target.rstrip("/")) or "."
                out[f"{_WORDS[effect.kind]} {folder}"] = None
            case kind if kind in _WORDS:
                out[f"{_WORDS[kind]} {effect.target}"] = None
            case _:
                pass
    return tuple(out)


@record(kw_only=True)
class Guards:
    """The parts; each may be missing.

    Attributes:
        taints: what sessions hold, and what may follow.
        secrets: what `secret://NAME` stands for.
        placeholders: what confined commands see instead of a secret's value; None where no egress proxy
            could put the value in.
        meter: budgets.
        novelty: what was done before in the workspace; None = questions do not say.
        environment: the sandbox's backend and the names of the variables that commands see; part of
            what an approval is bound to (decisions 5).
    """

    taints: TaintTracker | None = None
    secrets: SecretHandles | None = None
    placeholders: Placeholders | None = None
    meter: Meter | None = None
    novelty: FirstUses | None = None
    environment: tuple[str, ...] = ()


NO_SAFEGUARDS: Final = Guards()
