"""Subject: a tool under check, and what its calls go through."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pegboard.core.call.call import Preview
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.runtime.checks.report import Status


class ToolCaller(Protocol):
    """What calls go through: an Executor."""

    @property
    def toolkit(self) -> Toolkit:
        """Its tools."""
        ...

    async def call(self, name: str, arguments: Any = None, *, id: str | None = None) -> ToolResult:
        """One call, one result."""
        ...

    async def preview(self, name: str, arguments: Any = None) -> Preview:
        """What the call would do."""
        ...


Opener = Callable[[Toolkit], Any]
"""Opens an Executor over a kit; called once for the tool and once for its shortened twin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A tool under check.

    Attributes:
        tool, door: the tool and the executor that holds it.
        open: opens an executor over another kit.
        rng: where random values come from.
        sample: arguments that fit.
        runs: whether the sample may run here.
        why: why not.
        effects: what the sample would do.
        consent: calls that ask may run.
    """

    tool: Tool
    door: ToolCaller
    open: Opener
    rng: random.Random
    sample: Mapping[str, Any]
    runs: bool
    why: str
    effects: frozenset[str] = frozenset()
    consent: bool = False

    @property
    def is_foreign(self) -> bool:
        """Whether another process answers, so that its faults can be provoked only through calls."""
        return "call" in self.tool.kinds()


Outcome = tuple[Status, str]
Check = Callable[[Subject], Any]
