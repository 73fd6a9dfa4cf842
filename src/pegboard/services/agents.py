"""Agents: those that can be started by name, and the subagents that were."""

from __future__ import annotations

from collections.abc import Sequence

from pegboard.core.errors import ConfigError
from pegboard.ports.subagents import AgentSpec, Child
from pegboard.runtime.subagents import log_lines
from pegboard.services.history import History
from pegboard.services.runtime import Runtime
from pegboard.store.children import Children


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
        return self._runtime.config.agents

    async def children(self, *, session: str | None = None) -> Sequence[Child]:
        """The subagents that were started, oldest first; `session`: by this one only."""
        children = Children(self._history.store)
        return await (children.all() if session is None else children.of(session))

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
