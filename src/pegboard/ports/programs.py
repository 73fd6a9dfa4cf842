"""Programs: Python that a model writes, run where it can do nothing but call tools."""

from __future__ import annotations

from typing import Protocol

from pegboard.core.policy.approval import Waiting
from pegboard.core.result import ToolResult


class Programs(Protocol):
    """Runs programs whose functions are the tools of the executor that runs the call."""

    async def run(self, code: str) -> ToolResult | Waiting:
        """Run a program to its end, or go on with one that waited.

        The result holds what it printed and the value of its last expression. One that fails has a result that says
        where and why. `Waiting` if a call of it waits for a person: its state is kept, and the same call goes on with it.

        Raises:
            Unavailable: there is no interpreter, or it broke.
            Conflict: its state cannot be kept, or is not the one that was kept.
        """
        ...
