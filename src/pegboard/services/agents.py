"""Agents: those that can be started by name, and the subagents that were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pegboard.core.errors import ConfigError
from pegboard.ports.subagents import AgentSpec, Child
from pegboard.runtime.subagents import log_lines
from pegboard.services.history import History
from pegboard.services.runtime import Runtime
from pegboard.store.children import Children
from pegboard.store.runs import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNode:
    """A subagent, the latest run of its session (empty: it has none yet), and the subagents that it has started."""

    child: Child
    run: str
    agents: tuple[AgentNode, ...] = ()


class Agents:
    """The agents of the settings, and the subagents of this machine's sessions.

    Args:
        runtime: has the settings.
        history: where sessions are kept.
    """

    def __init__(self, runtime: Runtime, history: History) -> None:
        self._runtime = runtime
        self._history = history

    def list(self) -> Sequence[AgentSpec]:
        """The agents that can be started by name."""
        return self._runtime.config.all_agents()

    async def children(self, *, session: str | None = None) -> Sequence[Child]:
        """The subagents that were started, oldest first; `session`: by this one only."""
        children = Children(self._history.store)
        return await (children.all() if session is None else children.of(session))

    async def tree(self, row: RunRow) -> Sequence[AgentNode]:
        """The subagents that a run has started, oldest first, each with those that it has started itself."""
        below: dict[str, list[Child]] = {}
        for child in await self.children():
            below.setdefault(child.parent, []).append(child)
        return [
            await self._node(child, below)
            for child in below.get(row.stream, ())
            if child.parent_run in ("", row.id)
        ]

    async def _node(self, child: Child, below: Mapping[str, Sequence[Child]]) -> AgentNode:
        runs = await self._history.runs(session=child.session, limit=1)
        nodes = [await self._node(one, below) for one in below.get(child.session, ())]
        return AgentNode(child=child, run=runs[0].id if runs else "", agents=tuple(nodes))

    async def child(self, prefix: str) -> Child:
        """A subagent by its id or the unique start of one.

        Raises:
            ConfigError: there is none, or several start so.
        """
        found = [c for c in await self.children() if c.id.startswith(prefix)]
        if len(found) != 1:
            count = f"{len(found)} subagents start with" if found else "no subagent with ID"
            raise ConfigError(f"{count} {prefix!r}; see: pegboard agents")
        return found[0]

    async def log(self, child: Child) -> Sequence[str]:
        """What a subagent has said and called, one line each."""
        return log_lines(await self._history.events(child.session))
