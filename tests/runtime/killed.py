"""A run that is killed and taken up again, as a program of its own: `killed.py FOLDER COUNT SEED KIND`.

For each of COUNT kill points: a child process runs a scripted agent over the SQLite stream and is
killed with SIGKILL; further children take the run up, killed again, until one ends it. Prints one JSON
line for each: what the world and the stream say.

Kinds: `anywhere` is killed after a random time; the others kill themselves at, or some microseconds behind, a
moment: `compaction` when the conversation is shortened, `approval` when somebody is asked and answers, `told` when
somebody says something to the run that goes on, `budget` when its turns are used up and it has a last word,
`fallback` when its first model fails and another answers, `parallel` when several calls run side by side.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from pegboard import Agent, Limits, Toolkit, tool
from pegboard.core.content import Text, ToolCall
from pegboard.core.effects import PURE, Effect
from pegboard.core.errors import ModelError
from pegboard.core.events import Event, RunFinished
from pegboard.core.policy.approval import Approved, Waiting
from pegboard.core.transcript import AssistantMessage
from pegboard.ports.model import TurnEnd
from pegboard.store import open_store
from pegboard.store.chain import Chain
from pegboard.store.log import Log, decode_events
from tests.sync_store import open_sqlite

TURNS = {"anywhere": 6, "compaction": 24, "approval": 6, "told": 6, "budget": 4, "fallback": 6, "parallel": 3}
PARTS = 6
"""Calls that run side by side in each turn of `parallel`."""
MOMENTS = {
    "compaction": ("context.compacted", "model.replied", "call.finished"),
    "approval": ("permission.request", "call.started", "call.finished", "run.finished"),
    "told": ("message.told", "message.user", "call.finished", "model.replied"),
    "budget": ("notice", "message.user", "model.replied", "run.finished"),
    "fallback": ("model.replied", "call.started", "call.finished"),
    "parallel": ("call.started", "call.finished", "model.replied"),
}
"""Types of events at which a child ends itself."""
SELDOM = {"notice": 1, "run.finished": 1, "message.user": 2}
"""How many of a type a run has; of the others at least four."""
SESSION = "killed"
KEY = b"k" * 32


class Counting:
    """A model whose next turn depends on the transcript alone, as a real one's does."""

    destination = "nowhere"

    def __init__(
        self, last: int, *, name: str = "counting", parts: int = 0, fails_at: int | None = None
    ) -> None:
        self.name = name
        self._talk = (last, parts, fails_at)

    def converse(self, **_: Any) -> CountingTalk:
        return CountingTalk(*self._talk)

    async def aclose(self) -> None:
        """Nothing."""


class CountingTalk:
    def __init__(self, last: int, parts: int, fails_at: int | None) -> None:
        self.turns = 0
        self._last = last
        self._parts = parts
        self._fails_at = fails_at

    def append(self, message: Any) -> None:
        # By the ids of its calls: how many turns there were cannot be seen in a shortened conversation.
        if isinstance(message, AssistantMessage) and message.calls:
            self.turns = int((message.calls[0].id or "")[1:]) + 1

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[Any]:
        n = self.turns
        await asyncio.sleep(0)
        if self._fails_at is not None and n >= self._fails_at:
            raise ModelError("overloaded", retryable=True)
        if not allow_tools:
            yield TurnEnd(AssistantMessage(content=(Text("all I have"),)))
            return
        if n >= self._last:
            yield TurnEnd(AssistantMessage(content=(Text("all done"),)))
            return
        calls = [ToolCall(f"w{n}", "note", {"text": f"w{n}"}), ToolCall(f"r{n}", "look", {})]
        if n % 2:
            calls.append(ToolCall(f"s{n}", "send", {"text": f"s{n}"}))
        calls += [
            ToolCall(f"p{n}-{part}", f"part{part}", {"text": f"p{n}-{part}"}) for part in range(self._parts)
        ]
        yield TurnEnd(AssistantMessage(content=tuple(calls), stop="tools"))


class Ann:
    """Somebody who takes a moment to say yes; what would be sent is put aside for later."""

    async def decide(self, request: Any) -> Any:
        await asyncio.sleep(0.0005)
        if request.tool == "send":
            return Waiting("approval", request.id)
        return Approved(by="ann")


class Trap(Log):
    """A log that ends its process at some moment.

    Args:
        moment: type of event, which of them, and seconds behind it; None = never.
    """

    moment: tuple[str, int, float] | None = None

    def record(self, event: Event) -> None:
        super().record(event)
        if self.moment is None or event.type != self.moment[0]:
            return
        kind, left, behind = self.moment
        self.moment = (kind, left - 1, behind) if left else None
        if left:
            return
        if behind:
            threading.Timer(behind, os.kill, (os.getpid(), signal.SIGKILL)).start()
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def kit(world: Path, filler: str = "", say: Callable[[str], Awaitable[None]] | None = None) -> Toolkit:
    def put(line: str) -> None:
        with open(world, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()

    @tool(effects=[Effect("write", "world.txt")])
    async def note(text: str) -> str:
        """Write a line."""
        put(text)
        if say is not None:
            await say(f"mind {text}")
        await asyncio.sleep(0.001)
        return f"noted {text} {filler}"

    @tool(effects=[Effect("send", "test:1")])
    async def send(text: str) -> str:
        """Send a line."""
        put(text)
        return f"sent {text}"

    @tool(effects=PURE, idempotent=True)
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0.001)
        return "seen"

    def part(number: int) -> Any:
        @tool(name=f"part{number}", effects=[Effect("write", f"part{number}.txt")])
        async def writes(text: str) -> str:
            """Write a line beside others."""
            await asyncio.sleep(0.0005 * number)
            put(text)
            await asyncio.sleep(0.0005)
            return f"wrote {text}"

        return writes

    return Toolkit([note, send, look, *map(part, range(PARTS))])


def models(kind: str) -> Any:
    match kind:
        case "budget":
            return Counting(99)
        case "fallback":
            return [Counting(99, fails_at=2), Counting(TURNS[kind], name="other:m")]
        case _:
            return Counting(TURNS[kind], parts=PARTS if kind == "parallel" else 0)


async def work(folder: Path, run: str | None, kind: str, moment: tuple[str, int, float] | None) -> None:
    store = await open_store(folder / "history.sqlite")
    log = await Trap.open(store, SESSION, chain=Chain(key=KEY, heads=folder / "heads"), run=run or "")
    assert isinstance(log, Trap)
    log.moment = moment
    limits = Limits(
        turns=TURNS["budget"] if kind == "budget" else 99,
        context_tokens=1500 if kind == "compaction" else None,
    )

    async def say(text: str) -> None:
        assert agent.tell(text, session=SESSION)
        await log.flush()
        # What is here was safe before.
        with open(folder / "told.txt", "a", encoding="utf-8") as file:
            file.write(text + "\n")

    filler = "and so on " * (60 if kind == "compaction" else 0)
    agent = Agent(
        tools=kit(folder / "world.txt", filler, say if kind == "told" else None),
        model=models(kind), mode="ask" if kind == "approval" else "full", limits=limits, approver=Ann(),
        store="memory",
    )  # fmt: skip
    if run is None:
        await agent.run("go", session=SESSION, recorder=log)
    else:
        events = decode_events(await store.read(SESSION))
        last = next((e for e in reversed(events) if isinstance(e, RunFinished)), None)
        answers = {str(p["pending"]): Approved(by="bob") for p in (last.pending if last else ())}
        async for _ in agent.resume_events(run, events, recorder=log, answers=answers, approver=Ann()):
            pass
    await log.close()
    await store.close()


def child(folder: Path, run: str | None, kind: str, moment: tuple[str, int, float] | None) -> int:
    """Fork a worker; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(work(folder, run, kind, moment))
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  (the child tells whatever it was)
            print(json.dumps({"crash": repr(error)}), flush=True)
            os._exit(1)
    return pid


def once(folder: Path, chance: random.Random, kind: str) -> dict[str, Any]:
    folder.mkdir()
    points: list[Any] = []
    run: str | None = None
    kills = 0
    for attempt in range(20):
        moment: tuple[str, int, float] | None = None
        if kind != "anywhere" and attempt < 4:
            behind = chance.choice((0.0, chance.uniform(0.0, 0.002)))
            at = chance.choice(MOMENTS[kind])
            moment = (at, chance.randrange(SELDOM.get(at, 4)), behind)
            points.append(moment)
        pid = child(folder, run, kind, moment)
        if kind == "anywhere" and attempt < 3:
            points.append(chance.uniform(0.0, 0.06))
            time.sleep(points[-1])
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        kills += os.WIFSIGNALED(status)
        store = open_sqlite(folder / "history.sqlite")
        rows = store.runs(limit=-1)
        store.close()
        run = rows[0].id if rows else None
        if rows and rows[0].status in ("done", "limit"):
            break
    return {"folder": str(folder), "kills": kills, "points": points, "run": run, "rows": len(rows),
            "status": rows[0].status if rows else "none", "kind": kind}  # fmt: skip


def main() -> None:
    folder, count, seed, kind = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    chance = random.Random(seed)
    for number in range(count):
        print(json.dumps(once(folder / str(number), chance, kind)), flush=True)


if __name__ == "__main__":
    main()
