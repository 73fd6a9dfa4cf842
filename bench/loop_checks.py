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
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Container
from pathlib import Path
from typing import Any

from pegboard.store.blocking import BlockingStore, open_sqlite
from pegboard.store.logs import SessionLog, history

from pegboard import PURE, Agent, Limits, tool
from pegboard.core.content import Text
from pegboard.core.events import MemoryRecorder, TextPiece
from pegboard.core.transcript import AssistantMessage
from pegboard.models import ScriptedModel
from pegboard.ports.model import TextDelta, TurnEnd
from pegboard.runtime.transcripts import fold
from pegboard.store.encoding import encode
from pegboard.store.log import decode_events

TURNS = 500
ROUNDS = 7
EARLY, LATE = (2, 42), (TURNS - 42, TURNS - 2)
"""The turns around the 10th and the last, by whose costs growth is told."""
BARS = {
    "us_turn_memory": 150.0,
    "us_turn_sqlite": 800.0,
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

    The log's thread writes behind the loop, many turns at once: what a turn costs can only be told over
    some turns whose records are written within them.
    """
    stamps: list[float] = []

    def turn(n: int) -> Any:
        def answer(_: Any) -> dict[str, Any]:
            if n in settled:
                # On a thread of its own: this one stands in the loop that would have to wait.
                waiting = threading.Thread(target=asyncio.run, args=(recorder.flush(),))
                waiting.start()
                waiting.join()
            stamps.append(time.process_time())
            return {"text": "end"} if n == turns else {"calls": [{"name": "step", "arguments": {"n": n}}]}

        return answer

    model = ScriptedModel([turn(n) for n in range(turns + 1)])
    await Agent(tools=[step], model=model, limits=Limits(turns=turns + 5)).run("go", recorder=recorder)
    await recorder.flush()
    stamps.append(time.process_time())
    return stamps


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


def floor(store: BlockingStore, run: str) -> list[Any]:
    """The same rows read and parsed one by one by the standard library, and nothing made of them."""
    return [json.loads(body or b"null") for _, body in store.bodies("s", run=run)]


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


def turns(kind: str, recorder: Callable[[], Any]) -> None:
    """CPU a turn, and turn 500 over turn 10, least of some rounds."""
    whole: list[float] = []
    early: list[float] = []
    late: list[float] = []
    for _ in range(ROUNDS):
        stamps = asyncio.run(run(TURNS, recorder()))
        whole.append((stamps[-1] - stamps[0]) / TURNS)
        gc.collect()
        stamps = asyncio.run(run(TURNS, recorder(), {*EARLY, *LATE}))
        early.append((stamps[EARLY[1]] - stamps[EARLY[0]]) / (EARLY[1] - EARLY[0]))
        late.append((stamps[LATE[1]] - stamps[LATE[0]]) / (LATE[1] - LATE[0]))
    emit(f"us_turn_{kind}", min(whole) * 1e6, "us")
    emit(f"x_turn_500_over_turn_10_{kind}", min(late) / min(early), "x")


def memory() -> None:
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
    asyncio.run(agent.run("go", session="s"))
    tracemalloc.stop()
    early, late = (marks[300] - marks[100]) / 200, (marks[TURNS] - marks[300]) / (TURNS - 300)
    emit("bytes_turn_kept", late, "bytes")
    emit("x_bytes_turn_late_over_early", late / early, "x")


def main() -> None:
    """Print the figures."""
    asyncio.run(run(20, MemoryRecorder(keep=None)))
    turns("memory", lambda: MemoryRecorder(keep=None))
    memory()
    kept = MemoryRecorder(keep=None)
    asyncio.run(run(TURNS, kept))
    begun = time.process_time()
    for event in kept.events:
        encode(event)
    emit("us_turn_encoding_floor", (time.process_time() - begun) / TURNS * 1e6, "us")
    with tempfile.TemporaryDirectory() as folder:
        store = open_sqlite(Path(folder) / "h.sqlite")
        names = (f"t{n}" for n in itertools.count())
        logs: list[SessionLog] = []

        def opened() -> SessionLog:
            log = SessionLog(store, next(names), key=b"k" * 32, heads=Path(folder) / "head.json")
            logs.append(log)
            return log

        turns("sqlite", opened)
        log = SessionLog(store, "s", key=b"k" * 32, heads=Path(folder) / "head.json")
        logs.append(log)
        asyncio.run(run(3333, log))
        for one in logs:
            one.close()
        row = store.runs(limit=1)[0]
        emit(
            "ms_open_10000_events_first_page",
            least(lambda: decode_events(store.read("s", run=row.id, limit=256))),
            "ms",
        )
        # One after the other in each round: ours and the floor meet the same machine.
        whole, going, floors = [], [], []
        for _ in range(ROUNDS):
            floors.append(least(lambda: floor(store, row.id), 1))
            whole.append(least(lambda: history(store, "s"), 1))
            going.append(least(lambda: fold(history(store, "s")), 1))
        emit("ms_open_10000_events_whole", min(whole), "ms")
        emit("ms_open_10000_events_to_go_on", min(going), "ms")
        emit("x_open_10000_events_whole_over_json_loads", min(whole) / min(floors), "x")
        emit("x_open_10000_events_to_go_on_over_json_loads", min(going) / min(floors), "x")
        store.close()
    delays = sorted(asyncio.run(forwarded()))
    emit("us_piece_forwarded_median", statistics.median(delays) * 1e6, "us")
    emit("us_piece_forwarded_p95", delays[int(len(delays) * 0.95)] * 1e6, "us")


if __name__ == "__main__":
    main()
