"""Background commands of one session."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pegboard.core.errors import Conflict, NotFound, TooLarge
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.secrets.clip import BEFORE, clip
from pegboard.ports.processes import Process, ProcessOutput, State
from pegboard.ports.shell import ExecOutcome, ExecRequest
from pegboard.ports.snapshot import Snapshot
from pegboard.process.output import (
    HeadTailBuffer,
    decode_output,
    joined,
    open_bytes,
    plain_text,
    trim_to_characters,
    without_open_end,
)
from pegboard.shell.exec import STOPPED_ITSELF, CommandShell, RunningCommand
from pegboard.shell.pty import PASTE_END, PASTE_START, key_bytes, open_terminal

_POLITE_S: Final = 3.0
_STOPPED_S: Final = 0.25
_ORDER: Final[dict[State, int]] = {"running": 0, "exited": 1, "killed": 1}
_OPEN_ESCAPE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*)?\Z")


@dataclass(slots=True)
class _BackgroundCommand:
    process_id: str
    running: RunningCommand
    description: str
    started: float
    terminal: bool
    rings: list[HeadTailBuffer]
    polled: list[int]
    written: list[int]
    looked: list[int]
    snapshot: Snapshot | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    watcher: asyncio.Task[None] | None = None
    state: State = "running"
    ended_after_s: float | None = None

    def process(self) -> Process:
        """The job as its users see it."""
        duration = self.ended_after_s
        return Process(
            process_id=self.process_id,
            command=self.running.request.command,
            description=self.description,
            state=self.state,
            exit_code=self.running.child.exit_code if self.state != "running" else None,
            started=self.started,
            duration_s=time.monotonic() - self.running.started if duration is None else duration,
            output_bytes=sum(ring.total for ring in self.rings),
            terminal=self.terminal,
            pid=self.running.child.pid,
            notes=tuple(self.running.notes),
        )


class BackgroundCommands:
    """Starts, lists, feeds and ends background commands; implements `Processes`.

    Args:
        shell: how commands are confined and started; children that outlive a call are adopted.
        on_end: told when a command ends, so that the session can tell the agent.
        max_running: commands at one time.
        keep_ended: ended commands that stay readable.
        clock: for start times.

    `close` ends everything; the session that owns this must call it.
    """

    def __init__(
        self,
        shell: CommandShell,
        *,
        on_end: Callable[[Process], None] | None = None,
        max_running: int = 16,
        keep_ended: int = 32,
        clock: Clock | None = None,
    ) -> None:
        self._shell = shell
        self._on_end = on_end
        self._max_running = max_running
        self._keep_ended = keep_ended
        self._clock = clock or SystemClock()
        self._jobs: dict[str, _BackgroundCommand] = {}
        self._closed = False
        self._count = 0
        shell.adopter = self

    async def start(
        self, request: ExecRequest, *, description: str = "", terminal: bool = False, yield_s: float = 0.0
    ) -> Process | ExecOutcome:
        """Start a command; its outcome when it ends within `yield_s` seconds, else the running command.

        `request.timeout_s` bounds the whole run, in the background too; 0 = until the session ends.

        Raises:
            TooLarge: as many commands run already as may.
            NotFound, InvalidArguments, Unavailable: as `CommandShell.run`.
        """
        self._check_room()
        snapshot = await self._shell.snapshot(request)
        running = await self._begin(request, terminal, merged=yield_s <= 0)
        try:
            if yield_s > 0:
                outcome = await self._within(running, snapshot, yield_s)
                if outcome is not None:
                    return outcome
            job = self._add(running, description, terminal=terminal)
            job.snapshot = snapshot
            await self._note_undo(job, snapshot)
        except BaseException:
            # Cancelled while it was still this call's own: nobody else would end it.
            await asyncio.shield(asyncio.ensure_future(running.end()))
            raise
        return job.process()

    async def _within(
        self, running: RunningCommand, snapshot: Snapshot | None, yield_s: float
    ) -> ExecOutcome | None:
        """The outcome of a command that ends or times out within `yield_s` seconds, else None."""
        limit = running.request.timeout_s
        in_time = await running.child.wait(min(yield_s, limit) if limit > 0 else yield_s)
        if not in_time and (limit <= 0 or yield_s < limit):
            return None
        return await self._shell.conclude(running, snapshot, in_time=in_time)

    def adopt(self, running: RunningCommand) -> str:
        """Own a command that has ended while children of it run on."""
        rings = _rings(running)
        # What was held back of the outcome comes with the first poll.
        seen = [ring.total - open_bytes(b"".join(ring.parts())) for ring in rings]
        job = self._add(running, "left running by an ended command", terminal=False)
        job.polled, job.written, job.looked = seen, list(seen), [ring.total for ring in rings]
        return job.process_id

    def list(self) -> tuple[Process, ...]:
        """All that are known, running ones first, then the newest."""
        return tuple(
            job.process()
            for job in sorted(self._jobs.values(), key=lambda job: (_ORDER[job.state], -job.started))
        )

    async def poll(self, process_id: str, *, wait_s: float = 0.0) -> ProcessOutput:
        """What was written since the last poll; waits up to `wait_s` seconds for something new."""
        job = self._job(process_id)
        await asyncio.sleep(0)  # Whoever polls in a loop must not keep the output from being read.
        deadline = time.monotonic() + wait_s
        while job.state == "running" and not self._has_news(job):
            if not await self._changed(job, deadline - time.monotonic()):
                break
        text, lost = await self._take(job)
        return ProcessOutput(process=job.process(), text=text, lost_bytes=lost)

    async def log(self, process_id: str, *, offset: int = 0, limit: int = 0) -> ProcessOutput:
        """The kept output by line; negative `offset` counts from the end, `limit` 0 = all."""
        job = self._job(process_id)
        lines = (await self._shell.without_keys(self._text(job))).splitlines()
        start = max(0, len(lines) + offset) if offset < 0 else offset
        end = start + limit if limit > 0 else len(lines)
        lost = sum(ring.dropped for ring in job.rings)
        return ProcessOutput(process=job.process(), text="\n".join(lines[start:end]), lost_bytes=lost)

    async def send(
        self,
        process_id: str,
        text: str = "",
        *,
        keys: Sequence[str] = (),
        paste: bool = False,
        end: bool = False,
    ) -> Process:
        """Give it input: `text` (as one paste), then `keys`, then end of file (on a terminal: ^D).

        Raises:
            Conflict: it has ended, or its input is closed.
            InvalidArguments: there is no such key.
        """
        job = self._job(process_id)
        data = text.encode()
        if paste and job.terminal:
            data = PASTE_START + data + PASTE_END
        data += b"".join(key_bytes(key) for key in keys)
        if not job.terminal:
            # A pipe has no line discipline to turn the Enter key into a line end.
            data = data.replace(b"\r", b"\n")
        elif end:
            data, end = data + b"\x04", False
        job.written = [ring.total for ring in job.rings]
        if job.state != "running" or not job.running.child.write(data, end=end):
            raise Conflict(
                f"background command {process_id} takes no input: "
                + ("it has ended" if job.state != "running" else "its standard input is closed"),
                hint="Start it again with background to give it input.",
            )
        return job.process()

    async def wait_for(self, process_id: str, text: str, *, timeout_s: float = 30.0) -> ProcessOutput:
        """Wait until `text` stands in its output, or it ends, or `timeout_s` seconds have passed.

        Looks at everything that was written since the last input to it (since its start where
        there was none), so text that came before the call counts.
        """
        job = self._job(process_id)
        deadline = time.monotonic() + timeout_s
        while not (matched := text in self._text_since(job, job.written)) and job.state == "running":
            if not await self._changed(job, deadline - time.monotonic()):
                break
        shown, lost = await self._take(job)
        return ProcessOutput(process=job.process(), text=shown, lost_bytes=lost, matched=matched)

    async def stop(self, process_id: str, *, force: bool = False, forget: bool = False) -> Process:
        """End it with its children: SIGTERM, after 3 seconds SIGKILL; `force` at once; then `forget` it."""
        job = self._job(process_id)
        if job.state == "running":
            child = job.running.child
            if not force and child.signal(signal.SIGTERM):
                await child.wait_gone(_POLITE_S)
            await self._end(job, "killed")
        if forget:
            self._jobs.pop(process_id, None)
        return job.process()

    async def close(self) -> tuple[Process, ...]:
        """End everything; nothing can be started afterwards. Returns the commands that were still running."""
        self._closed = True
        running = [job for job in self._jobs.values() if job.state == "running"]
        await asyncio.gather(*(self._end(job, "killed") for job in running))
        return tuple(job.process() for job in running)

    async def _begin(self, request: ExecRequest, terminal: bool, *, merged: bool) -> RunningCommand:
        held = -1
        master: tuple[int, str] | None = None
        if terminal:
            fd, path, held = open_terminal()
            master = (fd, path)
        try:
            running = await self._shell.begin(
                request,
                terminal=master,
                keep_stdin=request.stdin is None and merged,
                merged=merged,
            )
        finally:
            if held >= 0:
                os.close(held)
        if terminal and request.stdin:
            running.child.write(request.stdin)
        return running

    def _add(self, running: RunningCommand, description: str, *, terminal: bool) -> _BackgroundCommand:
        rings = _rings(running)
        self._count += 1
        job = _BackgroundCommand(
            process_id=f"p{self._count}-{secrets.token_hex(2)}",
            running=running,
            description=description,
            started=self._clock.now(),
            terminal=terminal,
            rings=rings,
            polled=[0] * len(rings),
            written=[0] * len(rings),
            looked=[0] * len(rings),
        )
        running.stop_live()
        running.child.on_output = job.changed.set
        self._jobs[job.process_id] = job
        job.watcher = asyncio.create_task(self._watch(job), name=f"pegboard {job.process_id}")
        return job

    async def _watch(self, job: _BackgroundCommand) -> None:
        """Wait for the end of the command with all its children, then free what it held."""
        child = job.running.child
        limit = job.running.request.timeout_s
        left = limit - (time.monotonic() - job.running.started) if limit > 0 else None
        try:
            async with asyncio.timeout(left):
                await child.wait()
                if await child.is_stopped(_STOPPED_S):
                    job.running.notes.append(STOPPED_ITSELF)
                    await self._end(job, "killed", watched=True)
                    return
                await child.wait_drained()
                await child.wait_gone()
        except TimeoutError:
            job.running.notes.append(f"ended after its limit of {limit:g} seconds")
            await self._end(job, "killed", watched=True)
            return
        except asyncio.CancelledError:
            # The event loop ends and nobody has called close(): what we own still ends with it.
            await self._end(job, "killed", watched=True)
            raise
        await self._end(job, "exited", watched=True)

    async def _end(self, job: _BackgroundCommand, state: State, *, watched: bool = False) -> None:
        if job.state != "running":
            return
        job.state = state
        job.ended_after_s = time.monotonic() - job.running.started
        if not watched and job.watcher is not None:
            job.watcher.cancel()
        await job.running.end()
        if job.snapshot is not None:
            job.running.notes += await job.running.prepared.clean(await job.snapshot.made_since())
        job.changed.set()
        self._forget_old()
        if self._on_end is not None and not self._closed:
            self._on_end(job.process())

    async def _note_undo(self, job: _BackgroundCommand, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            return
        captured = await snapshot.changes()
        job.running.notes.extend(f"not undoable: {reason}" for reason in captured.not_captured)
        job.running.notes.append("not undoable: later changes made in the background")

    async def _changed(self, job: _BackgroundCommand, within_s: float) -> bool:
        if within_s <= 0:
            return False
        job.changed.clear()
        try:
            async with asyncio.timeout(within_s):
                await job.changed.wait()
        except TimeoutError:
            return False
        return True

    def _has_news(self, job: _BackgroundCommand) -> bool:
        # Not `polled`: half a character that waits there is no news.
        return any(ring.total > seen for ring, seen in zip(job.rings, job.looked, strict=True))

    async def _take(self, job: _BackgroundCommand) -> tuple[str, int]:
        """New text since the last poll. A character, escape or secret that is not complete yet waits."""
        texts: list[str] = []
        lost = 0
        for number, ring in enumerate(job.rings):
            data, gone = ring.since(job.polled[number])
            before = ring.before(job.polled[number])
            seen = ring.total
            if job.state == "running":
                whole = trim_to_characters(data, end=True)
                whole = _OPEN_ESCAPE.sub(b"", whole)
                whole = whole[: max(0, len(whole) - open_bytes((before + whole)[-BEFORE:]))]
                seen -= len(data) - len(whole)
                data = whole
            lost += gone
            job.polled[number], job.looked[number] = seen, ring.total
            ahead = plain_text(decode_output(before, fallbacks=self._shell.fallbacks))
            text = ahead + plain_text(decode_output(data, fallbacks=self._shell.fallbacks))
            if job.state == "killed" and data:
                text = without_open_end(text, len(ahead))
            texts.append(clip(text, len(ahead)))
        return await self._shell.without_keys("".join(texts)), lost

    def _text(self, job: _BackgroundCommand) -> str:
        """The kept output, each line without its part of a secret."""
        texts = (joined(*ring.parts(), ring.dropped, fallbacks=self._shell.fallbacks) for ring in job.rings)
        return "".join(clip(text if job.state == "exited" else without_open_end(text)) for text in texts)

    def _text_since(self, job: _BackgroundCommand, positions: list[int]) -> str:
        data = b"".join(ring.since(start)[0] for ring, start in zip(job.rings, positions, strict=True))
        return plain_text(decode_output(data, fallbacks=self._shell.fallbacks))

    def _job(self, process_id: str) -> _BackgroundCommand:
        job = self._jobs.get(process_id)
        if job is None:
            known = ", ".join(self._jobs) or "none"
            raise NotFound(
                f"no background command with ID {process_id!r}; known: {known}",
                hint="Background commands end with the session and with the program that started them.",
            )
        return job

    def _check_room(self) -> None:
        if self._closed:
            raise Conflict("the session has ended; no background command can be started")
        running = [job.process_id for job in self._jobs.values() if job.state == "running"]
        if len(running) >= self._max_running:
            raise TooLarge(
                f"{len(running)} background commands run already, the limit: {', '.join(running)}",
                hint="Stop one with the process tool first.",
            )

    def _forget_old(self) -> None:
        ended = sorted(
            (job for job in self._jobs.values() if job.state != "running"), key=lambda j: j.started
        )
        for job in ended[: max(0, len(ended) - self._keep_ended)]:
            self._jobs.pop(job.process_id, None)


def _rings(running: RunningCommand) -> list[HeadTailBuffer]:
    return [running.stdout] if running.stderr is running.stdout else [running.stdout, running.stderr]
