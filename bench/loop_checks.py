"""The loop's own figures beside b06: CPU a turn over the SQLite stream, first token, opening a long run.

Ratios are taken within this one run; the floor of the stream is the same events encoded and nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from pathlib import Path
from typing import Any

from pegboard import PURE, Agent, Limits, tool
from pegboard.core.content import Text
from pegboard.core.events import MemoryRecorder, TextPiece
from pegboard.core.transcript import AssistantMessage
from pegboard.models import ScriptedModel
from pegboard.ports.model import TextDelta, TurnEnd
from pegboard.runtime.fold import fold
from pegboard.store import Store, open_store
from pegboard.store.chain import Chain
from pegboard.store.encoding import encode
from pegboard.store.log import Log, decode_events, history

TURNS = 500
ROUNDS = 7
EARLY, LATE = (2, 42), (TURNS - 42, TURNS - 2)
"""The turns around the 10th and the last, by whose costs growth is told."""
BARS = {
    "us_turn_memory": 120.0,
    "us_turn_sqlite": 1200.0,  # two steps, each on disk before the next begins
    "x_turn_500_over_turn_10_memory": 1.15,
    "x_turn_500_over_turn_10_sqlite": 1.15,
    "ms_open_10000_events_to_go_on": 50.0,
    "us_piece_forwarded_p95": 1000.0,
}
"""What a figure may be at most (issue 3): CPU a turn, growth, opening a long run, a streamed piece on its way."""


@tool(effects=PURE)
async def step(n: int) -> int:
    """One step."""
    return n + 1


async def run(turns: int, recorder: Any, settled: Container[int] = ()) -> list[float]:
    """CPU stamps of a run; before the `settled` turns all that was recorded so far is written.

    A log writes behind the run, many turns at once: what a turn costs shows only over some turns whose records
    are written within them.
    """
    stamps: list[float] = []

    def turn(n: int) -> Any:
        def answer(_: Any) -> dict[str, Any]:
            stamps.append(time.process_time())
            return {"text": "end"} if n == turns else {"calls": [{"name": "step", "arguments": {"n": n}}]}

        return answer

    model = ScriptedModel([turn(n) for n in range(turns + 1)])
    agent = Agent(
        tools=[step], model=Settling(model, recorder, settled) if settled else model, limits=Limits(turns=turns + 5)
    )  # fmt: skip
    await agent.run("go", recorder=recorder)
    await recorder.flush()
    stamps.append(time.process_time())
    return stamps


class Settling:
    """A model that flushes the recorder before some of its turns."""

    name = "settling"
    destination = "nowhere"

    def __init__(self, model: ScriptedModel, recorder: Any, settled: Container[int]) -> None:
        self.model, self.recorder, self.settled = model, recorder, settled
        self.turn = -1

    def converse(self, **options: Any) -> Settling:
        """The one conversation."""
        self.conversation = self.model.converse(**options)
        self.append = self.conversation.append
        return self

    async def reply(self, **options: Any) -> AsyncIterator[Any]:
        """The scripted turn."""
        self.turn += 1
        if self.turn in self.settled:
            await self.recorder.flush()
        async for piece in self.conversation.reply(**options):
            yield piece

    async def aclose(self) -> None:
        """Nothing."""


class Streaming:
    """A model that says when each piece left it."""

    name = "streaming"
    destination = "nowhere"
    left = 0.0

    def converse(self, **_: Any) -> Streaming:
        """The one conversation."""
        return self

    def append(self, message: Any) -> None:
        """Nothing."""

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[Any]:
        """Two hundred pieces, a millisecond apart."""
        for _ in range(200):
            await asyncio.sleep(0.001)
            self.left = time.perf_counter()
            yield TextDelta("x")
        yield TurnEnd(AssistantMessage(content=(Text("x" * 200),)))

    async def aclose(self) -> None:
        """Nothing."""


async def forwarded() -> list[float]:
    """Seconds from a piece's leaving the model to its listener."""
    model = Streaming()
    return [
        time.perf_counter() - model.left
        async for event in Agent(model=model).stream("go")
        if isinstance(event, TextPiece)
    ]


def least(work: Callable[[], object], rounds: int = 7) -> float:
    """Milliseconds of CPU of the quickest of some rounds; the others met the rest of the machine."""
    taken: list[float] = []
    for _ in range(rounds):
        gc.collect()
        begun = time.process_time()
        held = work()
        taken.append(time.process_time() - begun)
        del held
    return min(taken) * 1e3


def emit(metric: str, value: float, unit: str) -> None:
    """One figure as a JSON line, with its bar where it has one."""
    row: dict[str, Any] = {
        "bench": "loop",
        "subject": "pegboard",
        "metric": metric,
        "value": value,
        "unit": unit,
    }
    if metric in BARS:
        row |= {"most": BARS[metric], "met": value <= BARS[metric]}
    sys.stdout.write(json.dumps(row) + "\n")


async def turns(kind: str, recorder: Callable[[], Awaitable[Any]]) -> None:
    """CPU a turn, and turn 500 over turn 10, least of some rounds."""
    whole: list[float] = []
    early: list[float] = []
    late: list[float] = []
    for _ in range(ROUNDS):
        stamps = await run(TURNS, await recorder())
        whole.append((stamps[-1] - stamps[0]) / TURNS)
        gc.collect()
        stamps = await run(TURNS, await recorder(), {*EARLY, *LATE})
        early.append((stamps[EARLY[1]] - stamps[EARLY[0]]) / (EARLY[1] - EARLY[0]))
        late.append((stamps[LATE[1]] - stamps[LATE[0]]) / (LATE[1] - LATE[0]))
    emit(f"us_turn_{kind}", min(whole) * 1e6, "us")
    emit(f"x_turn_500_over_turn_10_{kind}", min(late) / min(early), "x")


async def memory() -> None:
    """What each turn leaves in memory, in its early and its late part; the same where nothing grows beside it."""
    marks: dict[int, int] = {}

    def turn(n: int) -> Any:
        def answer(_: Any) -> dict[str, Any]:
            if n in (100, 300, TURNS):
                gc.collect()
                marks[n] = tracemalloc.get_traced_memory()[0]
            return {"text": "end"} if n == TURNS else {"calls": [{"name": "step", "arguments": {"n": n}}]}

        return answer

    model = ScriptedModel([turn(n) for n in range(TURNS + 1)])
    tracemalloc.start()
    agent = Agent(tools=[step], model=model, limits=Limits(turns=TURNS + 5))
    await agent.run("go", recorder=MemoryRecorder(keep=None))
    tracemalloc.stop()
    early, late = (marks[300] - marks[100]) / 200, (marks[TURNS] - marks[300]) / (TURNS - 300)
    emit("bytes_turn_kept", late, "bytes")
    emit("x_bytes_turn_late_over_early", late / early, "x")


async def opening(store: Store, chain: Chain) -> None:
    """Reading a run of 10,000 events: its first page, all of it, and all of it to go on; beside the bare JSON."""
    log = await Log.open(store, "s", chain=chain)
    await run(3333, log)
    await log.close()
    first = await store.read("s", limit=256)
    emit("ms_open_10000_events_first_page", least(lambda: decode_events(first)), "ms")
    whole: list[float] = []
    going: list[float] = []
    floors: list[float] = []
    # One after the other in each round: ours and the floor meet the same machine.
    for _ in range(ROUNDS):
        gc.collect()
        begun = time.process_time()
        parsed = [json.loads(record.body or b"null") for record in await store.read("s")]
        floors.append(time.process_time() - begun)
        del parsed
        begun = time.process_time()
        events = await history(store, "s")
        whole.append(time.process_time() - begun)
        fold(events)
        going.append(time.process_time() - begun)
        del events
    emit("ms_open_10000_events_whole", min(whole) * 1e3, "ms")
    emit("ms_open_10000_events_to_go_on", min(going) * 1e3, "ms")
    emit("x_open_10000_events_whole_over_json_loads", min(whole) / min(floors), "x")
    emit("x_open_10000_events_to_go_on_over_json_loads", min(going) / min(floors), "x")


async def main() -> None:
    """Print the figures."""

    async def in_memory() -> MemoryRecorder:
        return MemoryRecorder(keep=None)

    await run(20, MemoryRecorder(keep=None))
    await turns("memory", in_memory)
    await memory()
    kept = MemoryRecorder(keep=None)
    await run(TURNS, kept)
    begun = time.process_time()
    for event in kept.events:
        encode(event)
    emit("us_turn_encoding_floor", (time.process_time() - begun) / TURNS * 1e6, "us")
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(Path(folder) / "h.sqlite")
        chain = Chain(key=b"k" * 32, heads=Path(folder) / "heads")
        names = (f"t{n}" for n in itertools.count())

        async def on_disk() -> Log:
            return await Log.open(store, next(names), chain=chain)

        await turns("sqlite", on_disk)
        await opening(store, chain)
        await store.close()
    delays = sorted(await forwarded())
    emit("us_piece_forwarded_median", statistics.median(delays) * 1e6, "us")
    emit("us_piece_forwarded_p95", delays[int(len(delays) * 0.95)] * 1e6, "us")


if __name__ == "__main__":
    asyncio.run(main())
