"""app: the composition root: thin constructors that join the parts (decisions 20)."""

from __future__ import annotations

from pegboard.app.agent import Agent, Answer
from pegboard.app.builtins import builtin, run_sync
from pegboard.app.executor import Executor

__all__ = ["Agent", "Answer", "Executor", "builtin", "run_sync"]
