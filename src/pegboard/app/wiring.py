"""Wiring: which real parts stand behind the ports of one executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.app.keeping import LazyArtifactSaver
from pegboard.app.late import lazy_shaper
from pegboard.core.call.call import PATH_RESOLVER
from pegboard.core.call.provide import Provided
from pegboard.core.content import KEEPER
from pegboard.core.errors import ConfigError, format_value
from pegboard.core.policy.grants import MemoryGrants
from pegboard.core.policy.guards import Guards
from pegboard.core.policy.policy import MODES, Policy
from pegboard.core.policy.rules import Rule
from pegboard.core.policy.taint import TaintTracker
from pegboard.core.result import Shaper, Spills
from pegboard.core.toolkit import Toolkit

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.core.transcript import AssistantMessage

PRICED: Final = frozenset({"openai", "openai-responses", "anthropic", "gemini"})
"""Families of models whose prices are looked up; the table is large, so others never load it."""


@dataclass(slots=True, kw_only=True)
class Wiring:
    """The parts of one executor.

    Attributes:
        workspace: the workspace's real path, None where no tool needs one.
        policy, provided, shaper, grants, safeguards: what the pipeline takes.
        banner: what people should know before a run (no sandbox works here); may be empty.
        closers: end what was started, in reverse order.
        listeners: hear what an agent should be told between its turns (ledger K-46).
    """

    workspace: Path | None
    policy: Policy
    provided: Provided
    shaper: Shaper
    grants: MemoryGrants | None = None
    safeguards: Guards = field(default_factory=lambda: Guards(taints=TaintTracker()))
    banner: str = ""
    closers: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])
    listeners: list[Callable[[str], None]] = field(default_factory=list[Callable[[str], None]])

    @classmethod
    def of(
        cls,
        toolkit: Toolkit,
        *,
        workspace: str | Path | None = None,
        mode: str | None = None,
        policy: Policy | str | Path | Iterable[str | Rule] | None = None,
        provide: Iterable[Any] = (),
    ) -> Wiring:
        """The usual parts for a kit: only what its tools ask for is built or imported.

        Raises:
            ConfigError: a bad mode, rule or workspace.
        """
        decided = _at_home(_policy(policy, mode))
        book = decided.grants if isinstance(decided.grants, MemoryGrants) else MemoryGrants()
        if decided.grants is None:
            decided = replace(decided, grants=book)
        provided = Provided(objects=provide)
        provided[KEEPER] = LazyArtifactSaver(provided)
        wiring = cls(workspace=None, policy=decided, provided=provided, shaper=lazy_shaper(), grants=book)
        needs = needs_of(toolkit, provided)
        if needs or workspace is not None:
            wiring._build(needs, workspace)
        return wiring

    def model(self, name: str | None) -> Any:
        """Open a model by name, or the first that is found (decisions 11)."""
        from pegboard.config.models import open_model

        return open_model(name)

    def price(self, model: str, message: AssistantMessage) -> float | None:
        """Dollars of one turn by the model that was asked, None where no price is known."""
        if model.partition(":")[0] not in PRICED and message.model.partition(":")[0] not in PRICED:
            return None
        from pegboard.app.pricing import price

        return price(model, message.model, message.usage)

    def window(self, model: str) -> int | None:
        """Tokens of a model's window, None where it is not known."""
        if model.partition(":")[0] not in PRICED:
            return None
        from pegboard.app.pricing import window_tokens

        return window_tokens(model)

    async def aclose(self) -> None:
        """End what was started, last first."""
        for close in reversed(self.closers):
            done = close()
            if hasattr(done, "__await__"):
                await done
        self.closers.clear()

    def _build(self, needs: set[str], workspace: str | Path | None) -> None:
        from pathlib import Path

        from pegboard.config.paths import current_folder

        if workspace is not None and (
            not isinstance(cast(object, workspace), str | os.PathLike) or not str(workspace)
        ):
            # An empty text is most often a variable that was never set, and would mean the current folder.
            raise ConfigError(f"workspace=… takes the path of a folder, got {format_value(workspace)}")
        root = current_folder() if workspace is None else Path(workspace).expanduser()
        if not root.is_dir():
            raise ConfigError(
                f"the workspace {root} does not exist or is not a folder; create it, or choose another"
            )
        from pegboard.app.assembly import assemble

        assemble(self, needs, root.resolve(), implicit=workspace is None)


def _policy(policy: Policy | str | Path | Iterable[str | Rule] | None, mode: str | None) -> Policy:
    if mode is not None and mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; use {', '.join(MODES)}")
    if policy is None:
        return Policy(mode=mode or "workspace")
    if isinstance(policy, Policy):
        return policy if mode is None else replace(policy, mode=mode)
    if isinstance(policy, str):
        # One rule, or several lines as they stand in a file.
        policy = [line for line in policy.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    elif hasattr(policy, "__fspath__"):
        from pegboard.config.load import read_rules

        policy = read_rules(cast("Path", policy))
    return Policy.of(cast("Iterable[str | Rule]", policy), mode=mode or "workspace")


def _at_home(policy: Policy) -> Policy:
    """The policy with the home folder that `~` in its rules means; found only where one says `~`."""
    if policy.home or not any(t.startswith("~") for r in policy.rules for t in (r.target, *r.unless)):
        return policy
    from pegboard.config.paths import Paths

    return replace(policy, home=str(Paths.of().home.resolve()))


def needs_of(toolkit: Toolkit, provided: Provided) -> set[str]:
    """Names of the ports that the kit's tools inject and nobody gave, and `paths` for path effects.

    The catalogue of the kit's own tools is provided here, since only here the kit is known.
    """
    out: set[str] = set()
    for tool in toolkit:
        for port in tool.signature.inject.values():
            if provided.find(port) is None:
                out.add(getattr(port, "__name__", ""))
        if any(p.marker is not None and p.marker.kind in ("read", "write", "delete") for p in tool.markers):
            out.add("Files")
    if PATH_RESOLVER in provided:
        out.discard("paths")
    if "ToolSearch" in out:
        # Not a part of the world outside: a view of the kit itself, so no folder is needed for it.
        from pegboard.core.tool_search import ToolIndex
        from pegboard.ports.tool_search import ToolSearch

        provided[ToolSearch] = ToolIndex(toolkit)
    return out - {"Plan", "Context", "ToolSearch"}


__all__ = ["Spills", "Wiring"]
