"""Programs: Python in the Monty interpreter, whose only way out is a call of a tool."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast

from pegboard.core.call.inner import InnerCalls
from pegboard.core.code_mode import arguments_of, functions_of, returns_data
from pegboard.core.codec import result_from_dict, result_to_dict
from pegboard.core.content import Text, ToolCall
from pegboard.core.errors import Conflict, InvalidArguments, ToolError, Unavailable, Unsupported
from pegboard.core.policy.approval import Waiting, sha256_of
from pegboard.core.result import SOURCE, ToolResult, to_jsonable
from pegboard.core.tool import Tool
from pegboard.ports.store import Store
from pegboard.runtime.answers import answered_result
from pegboard.store.programs import SavedProgram, SavedPrograms

WORKERS: Final = 16
"""Programs that run at once in one executor; a further one waits for its turn."""

MAX_PRINTED: Final = 200_000
"""Characters of what a program prints that are kept."""

_SUSPENSIONS: Final = 20
"""Steps of the interpreter that one call may take: the lookup of its name, the call and the wait for it, with room."""

_EXCEPTIONS: Final[Mapping[str, str]] = {
    "not_found": "FileNotFoundError",
    "permission_denied": "PermissionError",
    "outside_workspace": "PermissionError",
    "budget_exceeded": "PermissionError",
    "invalid_arguments": "ValueError",
    "timeout": "TimeoutError",
}
"""By a ToolError's code, the exception that a program sees; RuntimeError for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """What one program may use.

    Attributes:
        time_s: seconds of its own computing; the time of its calls does not count.
        memory_bytes: of its values.
        calls: how many calls it may make.
    """

    time_s: float = 30.0
    memory_bytes: int = 128 * 2**20
    calls: int = 500


@dataclass(slots=True)
class _Progress:
    """How far a program has come.

    Attributes:
        made: how many calls it has made.
        names: the tools of the calls that have their result.
        open: the calls that it waits for, by the interpreter's number, with the results that are there.
        printed: what it has printed.
        unawaited: calls that it has begun and not waited for, by the interpreter's number.
    """

    made: int = 0
    names: list[str] = field(default_factory=list[str])
    open: dict[int, tuple[ToolCall, ToolResult | None]] = field(
        default_factory=dict[int, tuple[ToolCall, "ToolResult | None"]]
    )
    printed: list[str] = field(default_factory=list[str])
    length: int = 0

    def print(self, _stream: str, text: str) -> None:
        """Take in what it prints."""
        if self.length < MAX_PRINTED:
            self.printed.append(text[: MAX_PRINTED - self.length])
        self.length += len(text)


class MontyPrograms:
    """The Programs port over a pool of Monty's worker processes, which is opened by the first program.

    Args:
        store: gives the store that keeps what goes with a session.
        limits: what one program may use.
    """

    def __init__(
        self, store: Callable[[str], Awaitable[Store]], *, limits: ProgramLimits | None = None
    ) -> None:
        self._store = store
        self._limits = limits or ProgramLimits()
        self._pool: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._free = asyncio.Semaphore(WORKERS)
        self._threads = ThreadPoolExecutor(WORKERS, "program")

    async def run(self, code: str) -> ToolResult | Waiting:
        """See Programs."""
        calls = InnerCalls.current()
        monty = _monty()
        functions = functions_of(calls.toolkit)
        progress = _Progress()

        def go_on(act: Callable[[], Any]) -> Any:
            """Take a step and those after it, until the program waits for its calls or ends; blocks."""
            step = act()
            while isinstance(step, monty.FunctionSnapshot | monty.NameLookupSnapshot):
                if isinstance(step, monty.NameLookupSnapshot):
                    step = _look_up(step, functions)
                else:
                    step = self._begin(step, calls, functions, progress)
            return step

        try:
            async with self._session() as worker:
                first = await self._first(worker.session, calls, functions, code, progress)
                step = await worker.blocking(go_on, first)
                while not isinstance(step, monty.MontyComplete):
                    numbers = sorted(step.pending_call_ids)
                    if waiting := await self._answer(calls, progress, numbers):
                        return await self._kept(worker, step, calls, code, progress, waiting)
                    settled = {number: _settled(functions, *progress.open.pop(number)) for number in numbers}
                    step = await worker.blocking(go_on, partial(step.resume, settled))
                return _finished(step.output, calls, progress)
        except monty.MontyCrashedError as error:
            raise Unavailable(
                f"the interpreter of the program ended by itself: {error}",
                hint="Check what its calls have changed before running it again, with less data at a time.",
            ) from error
        except monty.MontyError as error:
            return _failed(_error_of(monty, error), calls, progress)

    async def aclose(self) -> None:
        """End the worker processes."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await asyncio.to_thread(pool.__exit__, None, None, None)

    # -- calls --------------------------------------------------------------------------------

    def _begin(self, step: Any, calls: InnerCalls, functions: Mapping[str, Tool], progress: _Progress) -> Any:
        """Take down a call; it is made when the program waits for it."""
        name = str(step.function_name)
        if step.is_os_function and name.endswith("sleep"):
            return step.resume({"exc_type": "NotImplementedError", "message": "programs cannot sleep"})
        if step.is_os_function:
            return step.resume_not_handled()
        tool = functions.get(name)
        if tool is None:
            return step.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        if progress.made >= self._limits.calls:
            message = f"a program makes at most {self._limits.calls} calls; do the rest in another one"
            return step.resume({"exc_type": "RuntimeError", "message": message})
        try:
            arguments = arguments_of(tool, map(to_jsonable, step.args), to_jsonable(step.kwargs))
        except TypeError as error:
            return step.resume({"exc_type": "TypeError", "message": str(error)})
        progress.made += 1
        progress.open[step.call_id] = (ToolCall(calls.id(progress.made), tool.name, arguments), None)
        return step.resume({"future": ...})

    async def _answer(
        self, calls: InnerCalls, progress: _Progress, numbers: Sequence[int]
    ) -> list[ToolResult]:
        """Make the calls that the program waits for; those of them that wait for a person."""
        wanted: list[ToolCall] = []
        done: dict[str, ToolResult] = {}
        for number in numbers:
            call, result = progress.open[number]
            if result is None or _waits_for(result) == "approval":
                wanted.append(call)
            elif (key := _key(result)) is not None and key in calls.answers:
                done[call.id or ""] = answered = answered_result(call.id or "", call.name, calls.answers[key])
                calls.settle(answered)
        if wanted:
            done |= await calls.turn(wanted)
        waiting: list[ToolResult] = []
        for number in numbers:
            call, result = progress.open[number]
            result = done.get(call.id or "", result)
            progress.open[number] = (call, result)
            if result is not None and _key(result) is not None:
                waiting.append(result)
        progress.names += [r.tool for r in done.values() if _key(r) is None]
        return waiting

    # -- state --------------------------------------------------------------------------------

    async def _kept(
        self,
        worker: _Worker,
        step: Any,
        calls: InnerCalls,
        code: str,
        progress: _Progress,
        waiting: list[ToolResult],
    ) -> Waiting:
        """Keep the state of a program whose calls wait for a person."""
        outer = calls.outer
        if outer.parts.shaper.redacted(code) != code:
            raise Conflict(
                "the program holds a secret, so its state is not kept while it waits for a person",
                hint="Write secret://NAME in place of the secret, or make the call that waits by itself.",
            )
        saved = SavedProgram(
            code=sha256_of(code),
            snapshot=await worker.blocking(step.dump),
            made=progress.made,
            names=tuple(progress.names),
            printed="".join(progress.printed),
            labels=tuple(sorted(calls.labels)),
            sources=tuple(calls.sources),
            open=tuple(
                (number, call.id or "", call.name, cast("dict[str, Any]", call.arguments), None if r is None else result_to_dict(r))
                for number, (call, r) in progress.open.items()
            ),
        )  # fmt: skip
        digest = await (await self._programs(calls)).put(_place(calls), saved)
        inner: list[dict[str, Any]] = []
        for result in waiting:
            assert result.error is not None
            inner.append({**result.error.details, "call_id": result.call_id, "tool": result.tool})
        kind = "approval" if any(one["kind"] == "approval" for one in inner) else str(inner[0]["kind"])
        how = f"The program waits for {', '.join(r.tool for r in waiting)}; it goes on once it is answered."
        return Waiting(
            kind, str(inner[0]["pending"]), None, {"how": how, "inner": inner, "program": digest}
        )  # fmt: skip

    async def _first(
        self, session: Any, calls: InnerCalls, functions: Mapping[str, Tool], code: str, progress: _Progress
    ) -> Callable[[], Any]:
        """What begins a program, or goes on with one that waited: the very state that the record names, and the code."""
        if "program" not in calls.waited:
            inputs = _named_like_builtins(functions)
            return partial(session.feed_start, code, inputs=inputs, print_callback=progress.print)
        programs = await self._programs(calls)
        saved = await programs.take(_place(calls), str(calls.waited["program"]))
        if saved is None or saved.code != sha256_of(code):
            raise Conflict(
                "the program cannot go on: its state is gone, or is not the one that was kept when it began to wait",
                hint="Check what its calls have changed, and run what is left as a new program.",
            )
        progress.made, progress.names = saved.made, list(saved.names)
        progress.print("", saved.printed)
        calls.labels.update(saved.labels)
        calls.sources += saved.sources
        for number, id, name, arguments, result in saved.open:
            progress.open[number] = (
                ToolCall(id, name, arguments), None if result is None else result_from_dict(result)
            )  # fmt: skip
        return partial(session.load_snapshot, saved.snapshot, print_callback=progress.print)

    async def _programs(self, calls: InnerCalls) -> SavedPrograms:
        return SavedPrograms(await self._store(calls.outer.outer.session))

    # -- the interpreter ----------------------------------------------------------------------

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[_Worker]:
        """A worker process for one program."""
        limits = self._limits
        pool = await self._workers()
        checkout = pool.checkout(
            script_name="program.py",
            os_policy={"sleep": "call_host"},
            limits={
                "max_feed_duration_secs": limits.time_s,
                "max_memory": limits.memory_bytes,
                "max_suspensions": limits.calls * _SUSPENSIONS,
            },
        )
        async with self._free:
            worker = _Worker(checkout, self._threads)
            await worker.blocking(checkout.__enter__)
            worker.pid = checkout.worker_pid
            try:
                yield worker
            finally:
                worker.pid = None  # From here on the process may be another program's.
                await worker.blocking(checkout.__exit__, None, None, None)

    async def _workers(self) -> Any:
        async with self._opening:
            loop = asyncio.get_running_loop()
            if self._pool is None or self._loop is not loop:
                # Another event loop than before: an executor may be used in several, one after the other.
                await self.aclose()
                self._pool = await asyncio.to_thread(_monty().Monty(max_processes=WORKERS).__enter__)
                self._loop, self._free = loop, asyncio.Semaphore(WORKERS)
            return self._pool


class _Worker:
    """One program's process. Its steps block a thread of their own: one way there and back for several of them,
    where the interpreter's own asynchronous sessions take one for each.
    """

    def __init__(self, session: Any, threads: ThreadPoolExecutor) -> None:
        self.session = session
        self.pid: int | None = None
        self._threads = threads

    async def blocking(self, act: Callable[..., Any], *args: Any) -> Any:
        """What an act returns. Where nobody waits for it any more, the process ends, and with it the act."""
        work = self._threads.submit(act, *args)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if self.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            await asyncio.wait([asyncio.wrap_future(work)])
            raise


def _monty() -> Any:
    try:
        import pydantic_monty
    except ImportError as error:
        raise Unavailable(
            "programs need the interpreter pydantic-monty, which is not installed",
            hint="Call the tools directly. The user installs it with: pip install 'pegboard[code]'",
        ) from error
    return pydantic_monty


def _look_up(step: Any, functions: Mapping[str, Tool]) -> Any:
    """A name that the program does not define: one of the functions as a value, or none."""
    name = step.variable_name
    return step.resume(value=_function(name)) if name in functions else step.resume()


def _named_like_builtins(functions: Mapping[str, Tool]) -> dict[str, Any]:
    """The functions that would else be the interpreter's own, such as `exec`."""
    return {name: _function(name) for name in functions if hasattr(builtins, name)}


def _function(name: str) -> Callable[[], None]:
    """What the interpreter takes for a function of ours: it looks at the name alone."""

    def function() -> None: ...

    function.__name__ = name
    return function


def _settled(functions: Mapping[str, Tool], call: ToolCall, result: ToolResult | None) -> dict[str, Any]:
    """A result as the value or the exception that the program sees."""
    assert result is not None
    if (error := result.error) is not None:
        message = f"{error.message} {error.hint}".strip()
        return {"exc_type": _EXCEPTIONS.get(error.code, "RuntimeError"), "message": message}
    tool = next((t for t in functions.values() if t.name == call.name), None)
    if tool is not None and returns_data(tool) and result.data is not None:
        return {"return_value": to_jsonable(result.data)}
    return {"return_value": result.text}


def _key(result: ToolResult) -> str | None:
    """The key under which the answer to a waiting call comes, None if it does not wait."""
    if result.error is None or result.error.code != "suspended":
        return None
    return str(result.error.details.get("pending"))


def _waits_for(result: ToolResult) -> str:
    return "" if _key(result) is None or result.error is None else str(result.error.details.get("kind"))


def _place(calls: InnerCalls) -> str:
    outer = calls.outer.outer
    return f"{outer.session}\x1f{outer.run}\x1f{calls.outer.id}"


def _finished(output: Any, calls: InnerCalls, progress: _Progress) -> ToolResult:
    text = "".join(progress.printed)
    if progress.length > MAX_PRINTED:
        text += f"\n[{progress.length - MAX_PRINTED} more characters were printed]\n"
    value = None
    if forgotten := [call.name for call, result in progress.open.values() if result is None]:
        text += f"[not run, because the program did not await it: {_counted(forgotten)}]\n"
    if output is not None and not str(output).startswith("<coroutine"):
        value = to_jsonable(output)
        text += value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return _labelled(ToolResult(content=(Text(text),) if text else (), data=value), calls)


def _labelled(result: ToolResult, calls: InnerCalls) -> ToolResult:
    """The result with the labels and the sources of everything that the program has read."""
    extra = dict(result.notes.extra)
    if calls.sources:
        extra[SOURCE] = ", ".join(calls.sources)
    labels = tuple(sorted({*result.notes.labels, *calls.labels}))
    return replace(result, notes=replace(result.notes, labels=labels, extra=extra))


def _failed(error: ToolError, calls: InnerCalls, progress: _Progress) -> ToolResult:
    if progress.names:
        error.hint = f"{error.hint} Calls that were made before it: {_counted(progress.names)}.".strip()
    failed = ToolResult.failed(error)
    if text := "".join(progress.printed):
        failed = replace(failed, content=(Text(f"{text.rstrip()}\n\n"), *failed.content))
    return _labelled(failed, calls)


def _counted(names: Sequence[str]) -> str:
    """Each name once, with how often it stands there."""
    return ", ".join(name if n == 1 else f"{name} ({n} times)" for name, n in Counter(names).items())


def _error_of(monty: Any, error: Any) -> ToolError:
    """Why a program ended, with the line."""
    frames: list[Any] = error.traceback() if hasattr(error, "traceback") else []
    where = f"line {frames[-1].line}: " if frames else ""
    line = str(frames[-1].source_line or "").strip() if frames else ""
    shown = f"\n  {line}" if line else ""
    if isinstance(error, monty.MontySyntaxError):
        return InvalidArguments(
            f"the program is not valid Python: {where}{error}{shown}", hint="Correct that line."
        )
    inner = error.exception() if hasattr(error, "exception") else error
    if isinstance(inner, NotImplementedError | ModuleNotFoundError):
        return Unsupported(
            f"the interpreter does not support this: {where}{error}{shown}",
            hint="It runs a part of Python: write that line another way.",
        )
    return ToolError(
        f"the program failed at {where}{error}{shown}" if where else f"the program failed: {error}",
        code="program_failed",
        hint="Correct the program.",
    )
