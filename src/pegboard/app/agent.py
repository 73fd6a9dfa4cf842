"""Agent: a model with tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pegboard.app.builtins import run_sync
from pegboard.app.executor import Executor
from pegboard.core.deferral import BEYOND, deferred
from pegboard.core.events import TRANSIENT, Event, Recorder, RunFinished, RunStarted
from pegboard.core.limits import Limits
from pegboard.core.pipeline import new_id
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import Usage, UserMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a run.

    Attributes:
        answer: the final text.
        output: the typed output where the agent has an `output` type, else None.
        status: done, suspended, limit or failed.
        pending: what a suspended run waits for.
        run_id: the run's id.
        usage: tokens and money.
        events: what happened, in order.
        error: why it failed, or which limit ended it; empty where it is done.
    """

    answer: str
    output: Any
    status: str
    pending: tuple[Mapping[str, Any], ...]
    run_id: str
    usage: Usage
    events: tuple[Event, ...] = field(repr=False)
    error: str = ""

    def __str__(self) -> str:
        return self.answer


class Agent:
    """A model with tools.

    Args:
        instructions: the system prompt.
        tools: tools, functions and toolkits.
        model: a Model, or a name as `--model` takes it (`openai:gpt-5`, `local`); None = the first found.
        output: a type; the final answer is read into it.
        provide: objects that fill `Inject[T]`.
        limits: what ends a run.
        name: the agent's id.
        Further arguments are the Executor's.
    """

    def __init__(
        self,
        *,
        instructions: str = "",
        tools: Toolkit | Iterable[Any] = (),
        model: Any = None,
        output: Any = None,
        provide: Iterable[Any] = (),
        limits: Limits | None = None,
        name: str = "main",
        executor: Executor | None = None,
        defer_beyond: int = BEYOND,
        **options: Any,
    ) -> None:
        self.instructions = instructions
        self.name = name
        self.limits = limits or Limits()
        kit = deferred(tools if isinstance(tools, Toolkit) else Toolkit(tools), beyond=defer_beyond)
        self.executor = executor or Executor(kit, provide=provide, agent=name, **options)
        self._model = model
        self._output = output
        self._talks: dict[str, list[Event]] = {}
        self._busy: dict[str, Any] = {}

    async def run(self, task: str, *, session: str | None = None, recorder: Recorder | None = None) -> Answer:
        """Run a task to its end.

        Args:
            task: what to do.
            session: a key; runs of one session share their conversation. None = a fresh one.
            recorder: receives every event beside the session's own record.

        Raises:
            ModelError: no model could be found or opened. What happens later is told by the status.
        """
        tee = _Tee(self._history(session), recorder)
        finished = await self._loop(task, tee, session)
        return _answer(finished, tee.mine)

    def run_sync(self, task: str, *, session: str | None = None) -> Answer:
        """`run` from code that is not async."""
        return run_sync(self.run(task, session=session))

    def remember(self, session: str, events: Iterable[Event]) -> None:
        """Take a session's earlier events, so that its next run goes on from there."""
        self._talks[session] = list(events)

    async def resume(
        self, run: str, events: Iterable[Event], *, recorder: Recorder | None = None
    ) -> AsyncIterator[Event]:
        """Take up an unfinished run from its session's events (ledger G-10, G-17).

        Calls that had begun and are not idempotent are reported to the model as interrupted; calls
        that had not begun run now. Nothing is done twice.
        """
        known = list(events)
        session = next(
            (e.session for e in reversed(known) if isinstance(e, RunStarted) and e.run == run), run
        )
        self.remember(session, known)
        async for event in self._streamed("", session, recorder, run=run):
            yield event

    async def stream(
        self, task: str, *, session: str | None = None, recorder: Recorder | None = None
    ) -> AsyncIterator[Event]:
        """The run's events as they happen; the last is RunFinished. Leaving the loop cancels the run."""
        async for event in self._streamed(task, session, recorder):
            yield event

    async def _streamed(
        self, task: str, session: str | None, recorder: Recorder | None, run: str | None = None
    ) -> AsyncIterator[Event]:
        waiting: asyncio.Queue[Event | None] = asyncio.Queue()
        tee = _Tee(self._history(session), recorder, waiting.put_nowait)
        work = asyncio.ensure_future(self._loop(task, tee, session, run))
        work.add_done_callback(lambda _: waiting.put_nowait(None))
        try:
            while (event := await waiting.get()) is not None:
                yield event
            await work
        finally:
            if not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work

    def tell(self, text: str, *, session: str) -> bool:
        """Give a running session another user message; it is read before the next model turn (K-52).

        Returns False where no run of that session is going on.
        """
        state = self._busy.get(session)
        if state is None:
            return False
        state.inbox.append(UserMessage.of(text))
        return True

    async def aclose(self) -> None:
        """End the model and what the executor started."""
        if self._model is not None and not isinstance(self._model, str):
            await self._model.aclose()
        await self.executor.aclose()

    def model(self) -> Any:
        """The model, found and opened at the first use.

        Raises:
            ModelError: none was named and none was found; the message lists the ways.
        """
        if self._model is None or isinstance(self._model, str):
            self._model = self.executor.wiring.model(self._model)
        return self._model

    def _history(self, session: str | None) -> list[Event]:
        return [] if session is None else self._talks.setdefault(session, [])

    async def _loop(self, task: str, tee: _Tee, session: str | None, run: str | None = None) -> RunFinished:
        from pegboard.runtime.output import OutputReader
        from pegboard.runtime.run import Loop, RunState
        from pegboard.runtime.transcripts import fold

        model = self.model()
        reader = None if self._output is None else OutputReader(self._output)
        state = RunState(id=run or new_id("run"), session=session or new_id("session"))
        loop = Loop(
            model=model,
            executor=self.executor.recording(tee),
            instructions=self.instructions if reader is None else reader.instructions(self.instructions),
            recorder=tee,
            limits=self.limits,
            output_schema=None if reader is None else reader.schema,
            read_output=None if reader is None else reader.read,
            price=self.executor.wiring.price,
        )
        history = fold(tee.before) if tee.before else None
        if session is not None:
            self._busy[session] = state
        try:
            return await loop.run(
                task, state=state, context=replace(self.executor.context, model=model.name), history=history
            )
        finally:
            if session is not None:
                self._busy.pop(session, None)


class _Tee:
    """Hands each event to the session's list, another recorder and a listener."""

    def __init__(
        self, kept: list[Event], other: Recorder | None, listener: Callable[[Event], None] | None = None
    ) -> None:
        self.before = tuple(kept)
        self.mine: list[Event] = []
        self._kept = kept
        self._others = [r for r in (other.record if other else None, listener) if r is not None]
        self._other = other

    def record(self, event: Event) -> None:
        """See Recorder."""
        if event.type not in TRANSIENT:
            self.mine.append(event)
            self._kept.append(event)
        for other in self._others:
            other(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder."""
        if self._other is not None:
            await self._other.flush(power_loss=power_loss)


def _answer(finished: RunFinished, events: list[Event]) -> Answer:
    return Answer(
        answer=finished.answer,
        output=finished.output,
        status=finished.status,
        pending=finished.pending,
        run_id=finished.run,
        usage=finished.usage,
        events=tuple(events),
        error=finished.error,
    )
