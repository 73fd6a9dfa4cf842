"""A worker that is killed and followed by others, as a program of its own: `killed_worker.py FOLDER COUNT SEED`.

Three jobs are due at once. Each runs a command, starts a subagent that runs another, asks a person, and runs a third
command. Workers are killed with SIGKILL after random times, and between two of them the person answers what was asked,
until nothing is left to do. Prints one JSON line for each scenario: what the world and the history say.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pegboard.app.app import App
from pegboard.core.content import Text, ToolCall
from pegboard.core.events import CallFinished, UserSaid
from pegboard.core.policy.approval import AllowOnce
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.dialects import dialect
from pegboard.models import MODELS
from pegboard.ports.model import TurnEnd
from pegboard.ports.schedules import JobRequest
from pegboard.runtime.fold import fold
from pegboard.services.runtime import Interaction
from pegboard.store.children import Children
from pegboard.store.inbox import Inbox
from tests.transcript import assert_valid_transcript

JOBS = 3
MOST = 200
"""Workers of one scenario."""
KILLS = 8
"""How many of them are killed."""


class Brain:
    """A model whose next turn depends on the transcript alone, as a real one's does."""

    name = "brain:b"
    destination = "nowhere"

    @classmethod
    def open_named(cls, name: str, sources: object) -> Brain:
        return cls()

    def converse(self, **_: Any) -> Talk:
        return Talk()

    async def aclose(self) -> None:
        """Nothing."""


class Talk:
    def __init__(self) -> None:
        self._task = ""
        self._results = 0

    def append(self, message: Any) -> None:
        if isinstance(message, UserMessage) and message.text.startswith(("job ", "sub ")):
            self._task, self._results = message.text, 0
        elif isinstance(message, ResultsMessage):
            self._results += len(message.results)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[Any]:
        kind, _, number = self._task.partition(" ")
        steps = {
            "sub": [echo(f"sub-{number}")],
            "job": [
                echo(f"first-{number}"),
                ("spawn", {"task": f"sub {number}"}),
                ("ask_user", {"question": f"Shall {number} go on?"}),
                echo(f"last-{number}"),
            ],
        }[kind]
        if self._results >= len(steps):
            yield TurnEnd(AssistantMessage(content=(Text(f"{self._task} is over"),)))
            return
        tool, arguments = steps[self._results]
        call = ToolCall(f"{kind}{number}-{self._results}", tool, arguments)
        yield TurnEnd(AssistantMessage(content=(call,), stop="tools"))


def echo(word: str) -> tuple[str, dict[str, Any]]:
    return "exec", {"command": f"echo {word} >> world.txt"}


def opened(folder: Path) -> App:
    return App.open(workspace=folder / "w", mode="full", config=folder / "pegboard.toml")


async def begin(folder: Path) -> None:
    with opened(folder) as app:
        for number in range(JOBS):
            soon = datetime.now(UTC) + timedelta(seconds=1)
            await app.schedules.add(
                JobRequest(message=f"job {number}", schedule=soon.isoformat(), isolated=True, delivery="none")
            )


async def work(folder: Path) -> None:
    with opened(folder) as app:
        await app.store.connect()
        worker = app.worker(Interaction(approver=AllowOnce()), model="brain:b")
        await worker.work(until_idle=True)


async def answer(folder: Path) -> bool:
    """Answer every question; whether all jobs are over."""
    with opened(folder) as app:
        await app.store.connect()
        for row in await app.runs.list(status="suspended"):
            for pending in await app.approvals.pending(row.id):
                await app.approvals.answer(pending.key, "yes")
        over = [r for r in await app.runs.list(status="done") if r.task.startswith("job ")]
        return len(over) == JOBS


async def report(folder: Path) -> dict[str, Any]:
    """What is there in the end; raises where a transcript is not valid."""
    world = (folder / "w" / "world.txt").read_text().split()
    with opened(folder) as app:
        await app.store.connect()
        rows = await app.runs.list(limit=None)
        ended = [r for r in rows if r.agent != "cli"]
        children = await Children(app.store).all()
        reports: list[str] = []
        ok: list[str] = []
        for session in {r.stream for r in ended}:
            events = await app.history.events(session)
            transcript = [
                m for message in fold(events).messages for m in dialect("openai-chat").encode(message)
            ]
            assert_valid_transcript(transcript)
            for event in events:
                if isinstance(event, UserSaid) and event.by == "subagent":
                    reports.append(event.message.text)
                if isinstance(event, CallFinished) and event.result.tool == "exec" and event.result.ok:
                    ok.append(event.result.call_id)
        faults = [str(fault) for found in (await app.audit.verify()).values() for fault in found]
        return {
            "world": world, "ok": ok, "runs": sorted(r.status for r in ended), "tasks": sorted(r.task for r in ended),
            "children": sorted(c.status for c in children), "reports": len(reports),
            "inbox": len(await Inbox(app.store).all()), "faults": faults,
            "fired": len(await app.schedules.runs()),
        }  # fmt: skip


def forked(act: Any, folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(act(folder))
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  (the child tells whatever it was)
            print(json.dumps({"crash": repr(error)}), flush=True)
            os._exit(1)
    return pid


def once(folder: Path, chance: random.Random) -> dict[str, Any]:
    (folder / "w").mkdir(parents=True)
    (folder / "home").mkdir()
    os.environ["HOME"] = str(folder / "home")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    (folder / "pegboard.toml").write_text('tools = ["exec", "spawn", "ask_user"]\n')
    os.waitpid(forked(begin, folder), 0)
    kills = 0
    points: list[float] = []
    for _ in range(MOST):
        pid = forked(work, folder)
        if kills < KILLS:
            points.append(round(chance.uniform(0.01, 0.6), 3))
            until = time.monotonic() + points[-1]
            while time.monotonic() < until and os.waitpid(pid, os.WNOHANG) == (0, 0):
                time.sleep(0.005)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pid = 0
        if pid:
            try:
                _, status = os.waitpid(pid, 0)
                kills += os.WIFSIGNALED(status)
            except ChildProcessError:
                status = 0
        if asyncio.run(answer(folder)):
            break
    return {"folder": str(folder), "kills": kills, "points": points, **asyncio.run(report(folder))}


def main() -> None:
    MODELS["brain"] = "tests.runtime.killed_worker:Brain"  # type: ignore[index]
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    for number in range(count):
        print(json.dumps(once(folder / str(number), chance)), flush=True)


if __name__ == "__main__":
    main()
