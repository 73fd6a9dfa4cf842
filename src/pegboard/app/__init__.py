"""app: the composition root: thin constructors that join the parts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pegboard.app.agent import Agent, Answer
    from pegboard.app.builtins import builtin, run_sync
    from pegboard.app.executor import Executor

# By need: an Executor alone should not load the agent loop.
_MODULE = {
    "Agent": "agent",
    "Answer": "agent",
    "Executor": "executor",
    "builtin": "builtins",
    "run_sync": "builtins",
}

__all__ = ["Agent", "Answer", "Executor", "builtin", "run_sync"]


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'pegboard.app' has no attribute {name!r}")
    return getattr(import_module(f"pegboard.app.{module}"), name)
