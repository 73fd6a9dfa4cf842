"""Guards: what a pipeline watches beside the policy: taint, secrets, budgets, first uses."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pegboard.core.effects import Effect

if TYPE_CHECKING:
    from pegboard.core.policy.auto import Judge
    from pegboard.core.policy.budgets import Meter
    from pegboard.core.policy.taint import TaintTracker
    from pegboard.core.secrets.handles import Placeholders, SecretHandles

_WORDS: Final = {
    "connect": "host", "send": "recipient", "call": "MCP tool", "control": "target", "spawn": "agent",
    "write": "folder", "delete": "deleting in",
}  # fmt: skip


class StoredState(Protocol):
    """State of a guard that is kept in a store: read before a decision, written after it."""

    async def refresh(self, workspace: str) -> None:
        """Read what other processes have changed."""
        ...

    async def save(self) -> None:
        """Write what has changed here."""
        ...


class FirstUses(Protocol):
    """What was done before, by workspace."""

    def unseen(self, workspace: str, things: Iterable[str]) -> tuple[str, ...]:
        """Those of `things` that were never done there."""
        ...

    def remember(self, workspace: str, things: Iterable[str]) -> None:
        """These are done now."""
        ...


class UndoCoverage(Protocol):
    """What undo can restore."""

    async def loss(self, target: str) -> str:
        """Why undo could not restore all of what is deleted at a target; empty where it can."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The parts; each may be missing.

    Attributes:
        taints: what sessions hold, and what may follow.
        secrets: what `secret://NAME` stands for.
        placeholders: what confined commands see instead of a secret's value; None where no egress proxy
            could put the value in.
        meter: budgets.
        novelty: what was done before in the workspace; None = questions do not say.
        undo: what undo can restore; None = every deletion by a tool of its own asks.
        judge: gives the second model that mode `auto` asks before a person; None = there is none.
        environment: the sandbox's backend and the names of the variables that commands see; part of
            what an approval is bound to.
        stored: the state of these that is kept in a store; so that policy and guards stay synchronous.
    """

    taints: TaintTracker | None = None
    secrets: SecretHandles | None = None
    placeholders: Placeholders | None = None
    meter: Meter | None = None
    novelty: FirstUses | None = None
    undo: UndoCoverage | None = None
    judge: Callable[[], Judge] | None = None
    environment: tuple[str, ...] = ()
    stored: tuple[StoredState, ...] = ()

    async def refresh(self, workspace: str) -> None:
        """Read stored state again, before a decision."""
        for state in self.stored:
            await state.refresh(workspace)

    async def save(self) -> None:
        """Write stored state that has changed, before a call is over."""
        for state in self.stored:
            await state.save()


NO_GUARDS: Final = Guards()
