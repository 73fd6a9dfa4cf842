"""What streams is forwarded at once, and a run may be cancelled anywhere (ledger K-14, K-15, K-49, K-52, M-44)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, current_context, tool
from pegboard.core.content import Text
from pegboard.core.effects import PURE
from pegboard.core.events import CallFinished, CallUpdate, TextPiece
from pegboard.core.transcript import AssistantMessage
from pegboard.models import ScriptedModel
from pegboard.ports.model import TextDelta, TurnEnd
from tests.ledger import owes
from tests.waiting import soon


class Gated:
    """A model whose second piece comes only after somebody has seen the first."""

    name = "gated"
    destination = "nowhere"

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def converse(self, **_: Any) -> Gated:
        return self

    def append(self, message: Any) -> None:
        """Nothing."""

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[Any]:
        yield TextDelta("first")
        await asyncio.wait_for(self.seen.wait(), 5)
        yield TextDelta(" second")
        yield TurnEnd(AssistantMessage(content=(Text("first second"),)))

    async def aclose(self) -> None:
        """Nothing."""


async def test_the_first_piece_is_forwarded_before_the_second_comes() -> None:
    model = Gated()
    pieces: list[str] = []

    async for event in Agent(model=model).stream("go"):
        if isinstance(event, TextPiece):
            pieces.append(event.text)
            model.seen.set()

    assert pieces == ["first", " second"]


@owes("M-44", "K-14")
async def test_a_tools_updates_reach_the_listener_while_it_runs() -> None:
    seen = asyncio.Event()

    @tool(effects=PURE)
    async def long() -> str:
        """Work."""
        current_context().emit({"done": 0.5})
        await asyncio.wait_for(seen.wait(), 5)
        return "all"

    model = ScriptedModel([{"calls": [{"name": "long", "arguments": {}}]}, {"text": "x"}])
    updates: list[Any] = []

    async for event in Agent(tools=[long], model=model).stream("go"):
        if isinstance(event, CallUpdate):
            updates.append((event.call_id, event.tool, event.update))
            seen.set()

    assert updates == [("call_1_1", "long", {"done": 0.5})]


@pytest.mark.slow
@owes("K-15")
async def test_a_cancelled_run_leaves_no_process_behind(tmp_path: Path) -> None:
    from pegboard import builtin

    # As many seconds as nobody else sleeps: so that it can be found among the processes.
    mark = str(random.randrange(10**6, 10**7))
    command = f"touch up && sleep {mark}"
    model = ScriptedModel([{"calls": [{"name": "exec", "arguments": {"command": command}}]}])
    agent = Agent(tools=builtin("exec"), model=model, workspace=tmp_path, mode="full")
    work = asyncio.ensure_future(agent.run("go"))
    await soon(lambda: (tmp_path / "up").exists() or work.done(), "the command has begun")
    assert (tmp_path / "up").exists(), work

    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await agent.aclose()

    left = [p for p in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(p)]
    assert left == []


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


@owes("agents-10")
async def test_sessions_that_interleave_at_every_await_keep_their_own_context() -> None:
    chance = random.Random(10)
    wrong: list[str] = []

    @tool(effects=PURE)
    async def where(expected: str) -> str:
        """Look where the call runs."""
        for _ in range(chance.randint(0, 5)):
            await asyncio.sleep(0)
            if current_context().session != expected:
                wrong.append(expected)
        return current_context().session

    async def one(number: int) -> None:
        calls = [{"name": "where", "arguments": {"expected": f"chat:{number}"}}] * 2
        calls = [{**c, "id": f"c{n}"} for n, c in enumerate(calls)]
        agent = Agent(tools=[where], model=ScriptedModel([{"calls": calls}, {"text": "x"}]))
        answer = await agent.run("go", session=f"chat:{number}")
        seen = [e.result.text for e in answer.events if isinstance(e, CallFinished)]
        assert seen == [f"chat:{number}"] * 2

    await asyncio.gather(*(one(n) for n in range(200)))
    assert wrong == []
