"""Every run of every test is replayed, and every provider would take its transcript (issue 3, done means)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pegboard.core.codec import event_from_dict, event_to_dict
from pegboard.core.events import Event, RunStarted


@pytest.fixture(autouse=True)
def replayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what each run records; behind the test replay it from its stored form and validate it."""
    from pegboard.app.agent import Agent

    kept: list[tuple[list[Event], Any]] = []
    alone = Agent._exclusive

    async def watched(self: Agent, task: str, tee: Any, *rest: Any, **named: Any) -> Any:
        before = list(tee.before())
        try:
            return await alone(self, task, tee, *rest, **named)
        finally:
            kept.append(([*before, *tee.mine], self))

    monkeypatch.setattr(Agent, "_exclusive", watched)
    yield
    for events, agent in kept:
        again(events, agent)


def again(events: list[Event], agent: Any = None) -> None:
    """The last run of some events, replayed and validated; its calls are planned and decided again."""
    from pegboard.runtime.fold import fold, interrupted_results
    from pegboard.runtime.replanning import Replanner
    from pegboard.runtime.replay import replay
    from tests.runtime.transcripts import valid

    stored = [event_from_dict(event_to_dict(e)) for e in events]
    started = [e for e in stored if isinstance(e, RunStarted)]
    if not started:
        return
    history = fold(stored)
    valid([*history.messages, *([interrupted_results(history)] if history.open_calls else [])])
    loop = asyncio.new_event_loop()
    try:
        detail = started[-1].detail
        planner = None
        folder = None if agent is None else agent.executor.context.workspace
        # `pegboard replay` plans nothing either where the workspace is gone.
        if agent is not None and (folder is None or folder.is_dir()):
            availability = getattr(agent._offer, "__self__", None)
            planner = Replanner(
                pipeline=agent.executor.pipeline,
                offers=None if availability is None else availability.allows,
                policy=detail.get("policy", {}).get("revision", ""),
                then=detail.get("workspace") or None,
                workspace=agent.executor.context.workspace,
            )
        loop.run_until_complete(replay(stored, started[-1].run, planner=planner))
    finally:
        loop.close()
