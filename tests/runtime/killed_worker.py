"""Workers that are killed and followed by others, as a program of its own: `killed_worker.py FOLDER KILLS SEED [STORE]`.

Three jobs are due at once. Each runs a command, sends a message to a webhook and one to a file, starts a subagent that
runs another command, asks a person, and runs a third command; its answer goes to the file too. Workers are killed with
SIGKILL after random times, and between two of them the person answers what was asked, until nothing is left to do.
Without STORE one worker runs at a time, on SQLite. With the URL of a PostgreSQL database two share DBOS's queue; both
may be killed. Runs scenarios until there were so many kills. Prints one JSON line for each: what the world and the
history say.
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
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pegboard.app.app import App
from pegboard.core.content import Text, ToolCall
from pegboard.core.events import CallFinished, UserSaid
from pegboard.core.policy.approval import AllowOnce
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.dialects import dialect
from pegboard.models import MODELS
from pegboard.ports.messages import Destination
from pegboard.ports.model import TurnEnd
from pegboard.ports.schedules import JobRequest
from pegboard.runtime.fold import fold
from pegboard.services.runtime import Interaction
from pegboard.store.children import Children
from pegboard.store.inbox import Inbox
from pegboard.store.outbox import Outbox
from tests.transcript import assert_valid_transcript

JOBS = 3
MOST = 200
"""Workers of one scenario."""
KILLS = 8
"""How many of them are killed, at most."""
ANSWER_S = 0.15
"""Seconds that the receiver of the webhook takes, so that some workers are killed while they send."""
store = ""
"""URL of the scenario's store; empty = a SQLite file."""


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
                ("message", {"content": f"hook {number}", "channel": "hook"}),
                ("message", {"content": f"file {number}", "channel": "log"}),
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
    return App.open(workspace=folder / "w", mode="full", config=folder / "pegboard.toml", store=store or None)


async def begin(folder: Path) -> None:
    with opened(folder) as app:
        for number in range(JOBS):
            soon = datetime.now(UTC) + timedelta(seconds=1)
            await app.schedules.add(
                JobRequest(
                    message=f"job {number}", schedule=soon.isoformat(), isolated=True, delivery="channel",
                    to=Destination(channel="log"),
                )
            )  # fmt: skip


async def work(folder: Path) -> None:
    with opened(folder) as app:
        await app.store.connect()
        engine = "dbos" if store else "local"
        worker = app.worker(Interaction(approver=AllowOnce()), model="brain:b", engine=engine)
        await worker.work(until_idle=True)


async def answer(folder: Path) -> None:
    """Answer every question; the file `over` says that all jobs are over."""
    with opened(folder) as app:
        await app.store.connect()
        for row in await app.runs.list(status="suspended"):
            for pending in await app.approvals.pending(row.id):
                await app.approvals.answer(pending.key, "yes")
        over = [r for r in await app.runs.list(status="done") if r.task.startswith("job ")]
        sent = await Outbox(app.store).list(status="sent")
        if len(over) == JOBS and len(sent) == 3 * JOBS:
            (folder / "over").touch()


async def report(folder: Path) -> None:
    """Write what is there in the end into `report.json`; raises where a transcript is not valid."""
    world = (folder / "w" / "world.txt").read_text().split()
    posts = [json.loads(line) for line in (folder / "hook.jsonl").read_text().splitlines()]
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
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
        found = {
            "world": world, "ok": ok, "runs": sorted(r.status for r in ended), "tasks": sorted(r.task for r in ended),
            "children": sorted(c.status for c in children), "reports": len(reports),
            "inbox": len(await Inbox(app.store).all()), "faults": faults,
            "fired": len(await app.schedules.runs()),
            # A receiver that remembers keys has seen each of these once.
            "hook": sorted({(post["content"], post["key"]) for post in posts}), "posts": len(posts),
            "file": sorted(line["content"] for line in lines),
            "outbox": sorted(item.status for item in await Outbox(app.store).list()),
        }  # fmt: skip
        (folder / "report.json").write_text(json.dumps(found))


def forked(act: Any, folder: Path) -> int:
    """Do something with the store in a process of its own: this one has no threads, so that it can fork safely."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(act(folder))
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  (the child tells whatever it was)
            print(json.dumps({"crash": repr(error)}), flush=True)
            os._exit(1)
    return pid


def receive(folder: Path) -> tuple[int, int]:
    """Start a program that keeps what is posted to it, in hook.jsonl; its process and its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            post = {"key": self.headers["idempotency-key"], "content": body["content"]}
            with (folder / "hook.jsonl").open("a") as file:
                file.write(json.dumps(post) + "\n")
            time.sleep(ANSWER_S)
            try:
                self.send_response(204)
                self.end_headers()
            except OSError:
                pass  # The worker was killed.

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pid = os.fork()
    if pid == 0:
        server.serve_forever()
    server.server_close()
    return pid, server.server_port


def wait(pid: int, within_s: float) -> bool:
    """Wait for a child to end; whether it has."""
    until = time.monotonic() + within_s
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def killed(pids: list[int], chance: random.Random) -> list[float]:
    """Kill the workers one after the other, each after a random time; the times at which one still ran."""
    points: list[float] = []
    for pid in pids:
        # A queue takes a second to open, and some more before it sees that a worker has ended.
        after_s = chance.uniform(0.5, 4) if store else chance.uniform(0.01, 0.7)
        if not wait(pid, after_s):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            points.append(round(after_s, 3))
    return points


def once(folder: Path, chance: random.Random) -> dict[str, Any]:
    (folder / "w").mkdir(parents=True)
    (folder / "home").mkdir()
    os.environ["HOME"] = str(folder / "home")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    receiver, port = receive(folder)
    (folder / "pegboard.toml").write_text(
        'tools = ["exec", "spawn", "ask_user", "message"]\n'
        f'[channels.log]\nkind = "file"\npath = "{folder / "log.jsonl"}"\n'
        f'[channels.hook]\nkind = "webhook"\nurl = "http://127.0.0.1:{port}/"\n'
        f'[network]\nallow_hosts = ["127.0.0.1:{port}"]\n'
    )
    os.waitpid(forked(begin, folder), 0)
    points: list[float] = []
    try:
        for _ in range(MOST):
            pids = [forked(work, folder) for _ in range(2 if store else 1)]
            if len(points) < KILLS:
                # Of two, the other goes on with what the first was killed in, every other time to the end.
                points += killed(pids[:1] if chance.random() < 0.5 else pids, chance)
            for pid in pids:
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            os.waitpid(forked(answer, folder), 0)
            if (folder / "over").exists():
                break
        os.waitpid(forked(report, folder), 0)
        said = json.loads((folder / "report.json").read_text())
    finally:
        os.kill(receiver, signal.SIGKILL)
        os.waitpid(receiver, 0)
    return {"folder": str(folder), "kills": len(points), "points": points, **said}


def main() -> None:
    MODELS["brain"] = "tests.runtime.killed_worker:Brain"  # type: ignore[index]
    global store
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    number = 0
    while kills > 0:
        store = f"{sys.argv[4]}?schema=killed_{seed}_{number}" if len(sys.argv) > 4 else ""
        line = once(folder / str(number), chance)
        print(json.dumps(line), flush=True)
        kills -= line["kills"]
        number += 1


if __name__ == "__main__":
    main()
