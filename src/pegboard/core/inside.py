"""Inside: the context that a call's own code sees, while it plans and while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pegboard.core.context import Context
from pegboard.core.effects import Effect
from pegboard.core.events import CallUpdate, DestinationTried
from pegboard.core.tool import Tool
from pegboard.core.values import blank

if TYPE_CHECKING:
    from pegboard.core.pipeline import Pipeline


def call_context(
    pipeline: Pipeline, context: Context, call_id: str, tool: Tool, effects: tuple[Effect, ...] | None = None
) -> Context:
    """The context that the function sees; `effects` once it runs, None while it plans."""
    # Field by field: a class packs thirteen keywords into a dict and unpacks them, at twice the price.
    inner = blank(Context)
    inner.session = context.session
    inner.agent = context.agent
    inner.run = context.run
    inner.call_id = call_id
    inner.model = context.model
    inner.origin = context.origin
    inner.workspace = context.workspace
    inner.depth = context.depth
    inner.deadline = context.deadline
    inner.cancelled = context.cancelled if tool.is_async else context.cancelled or asyncio.Event()
    inner.emit = UpdateEmitter(pipeline, context.emit, call_id, tool.name)
    inner.labels = context.labels
    inner.ports = pipeline.provide
    inner.tool = tool.name
    inner.effects = effects
    return inner


class UpdateEmitter:
    """`emit` of one call's context: redacted, recorded under the call, and passed on."""

    __slots__ = ("_call_id", "_emit", "_line", "_tool")

    def __init__(self, pipeline: Pipeline, emit: Callable[[Any], None], call_id: str, tool: str) -> None:
        self._line = pipeline
        self._emit = emit
        self._call_id = call_id
        self._tool = tool

    def __call__(self, value: Any) -> None:
        recorder = self._line.recorder
        if isinstance(value, DestinationTried):
            # No update for a reader: the session's record of where a command went.
            recorder.record(replace(value, call_id=self._call_id, tool=self._tool))
            return
        value = self._line.shaper.redacted(value)
        recorder.record(CallUpdate(call_id=self._call_id, tool=self._tool, update=value))
        self._emit(value)
