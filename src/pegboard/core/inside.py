"""Inside: the context that a call's own code sees, while it plans and while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pegboard.core.context import Context
from pegboard.core.events import CallUpdate, DestinationTried
from pegboard.core.tool import Tool

if TYPE_CHECKING:
    from pegboard.core.pipeline import Pipeline


def within(line: Pipeline, context: Context, call_id: str, tool: Tool) -> Context:
    """The context that the function sees."""
    # Built by hand: dataclasses.replace costs more than everything else on the path of a call.
    return Context(
        session=context.session,
        agent=context.agent,
        run=context.run,
        call_id=call_id,
        model=context.model,
        origin=context.origin,
        workspace=context.workspace,
        depth=context.depth,
        deadline=context.deadline,
        cancelled=context.cancelled if tool.is_async else context.cancelled or asyncio.Event(),
        emit=partial(_update, line, context.emit, call_id, tool.name),
        labels=context.labels,
        ports=line.provide,
        tool=tool.name,
    )


def _update(line: Pipeline, emit: Callable[[Any], None], call_id: str, tool: str, value: Any) -> None:
    if isinstance(value, DestinationTried):
        # No update for a reader: the session's record of where a command went.
        line.recorder.record(replace(value, call_id=call_id, tool=tool))
        return
    value = line.shaper.redacted(value)
    line.recorder.record(CallUpdate(call_id=call_id, tool=tool, update=value))
    emit(value)
