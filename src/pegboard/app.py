"""app: the composition root: thin constructors that join the parts (decisions 20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from pegboard.core.approval import Approver
from pegboard.core.call import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import BuildError, ToolExecutionDenied
from pegboard.core.events import Event, MemoryRecorder, Recorder, RunFinished
from pegboard.core.executor import TurnExecutor, TurnHook
from pegboard.core.families import load
from pegboard.core.limits import Limits
from pegboard.core.pipeline import Middleware, Pipeline, Preview, new_id
from pegboard.core.policy import Policy
from pegboard.core.result import ToolResult
from pegboard.core.rules import Rule
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import Usage, UserMessage
from pegboard.wiring import Wiring

T = TypeVar("T")


def builtin(*names: str) -> Toolkit:
    """Built-in tools by name, or the default set.

    Raises:
        BuildError: an unknown name; the message has the nearest.
    """
    from pegboard.tools import DEFAULT, TOOLS

    unknown = [n for n in names if n not in TOOLS]
    if unknown:
        import difflib

        near = difflib.get_close_matches(unknown[0], list(TOOLS), n=1)
        meant = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(TOOLS)}."
        raise BuildError(f"no built-in tool is called {unknown[0]!r}{meant} See: pegboard tools")
    return Toolkit(load(TOOLS[name]) for name in names or DEFAULT)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine to its end from code that is not async.

    Raises:
        RuntimeError: an event loop runs here already; await the coroutine instead.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise RuntimeError("run_sync was called inside a running event loop; await the coroutine there instead")


class Executor:
    """The one door to tools: every call is decoded, authorised, run, shaped and recorded.

    Args:
        tools: a Toolkit, or a list of tools, functions and toolkits.
        workspace: the folder that file tools and commands work in; None = the current folder, taken
            only when a tool needs one.
        mode: read-only, ask, workspace (default) or full; None = the policy's.
        policy: a Policy, or rule lines; None = the shipped rules.
        approver: answers where the policy asks; None = everything that asks is denied.
        provide: objects that fill `Inject[T]`, by their type.
        middleware: around every authorised run, outermost first.
        hooks: see all calls of a turn before any runs.
        recorder: where events go; None = the last 1,000 are kept in memory.
        threads: how many blocking functions run at once.
        timeout_s: wall seconds of a call whose tool sets none; None = no deadline.
        session, agent: how the calls' context names them.

    Raises:
        BuildError: a tool cannot be built, or needs something that nothing provides.
        ConfigError: a bad mode, rule or workspace.
    """

    def __init__(
        self,
        tools: Toolkit | Iterable[Any],
        *,
        workspace: str | Path | None = None,
        mode: str | None = None,
        policy: Policy | Iterable[str | Rule] | None = None,
        approver: Approver | None = None,
        provide: Iterable[Any] = (),
        middleware: Sequence[Middleware] = (),
        hooks: Sequence[TurnHook] = (),
        recorder: Recorder | None = None,
        threads: int = 64,
        timeout_s: float | None = 600.0,
        session: str = "local",
        agent: str = "main",
        wiring: Wiring | None = None,
    ) -> None:
        kit = tools if isinstance(tools, Toolkit) else Toolkit(tools)
        self.wiring = wiring or Wiring.of(kit, workspace=workspace, mode=mode, policy=policy, provide=provide)
        self.toolkit = kit
        self.pipeline = Pipeline(
            kit,
            policy=self.wiring.policy,
            approver=approver,
            recorder=recorder or MemoryRecorder(),
            shaper=self.wiring.shaper,
            provide=self.wiring.provided,
            middleware=middleware,
            grants=self.wiring.grants,
            threads=threads,
            timeout_s=timeout_s,
        )
        self._hooks = tuple(hooks)
        self._turns = TurnExecutor(self.pipeline, hooks=self._hooks)
        self.context = Context(session=session, agent=agent, workspace=self.wiring.workspace)

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self.pipeline.policy

    @property
    def events(self) -> Sequence[Event]:
        """The last events, where the recorder keeps them."""
        return tuple(getattr(self.pipeline.recorder, "events", ()))

    async def call(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        raise_errors: bool = False,
    ) -> ToolResult:
        """Call one tool; the result says whether it worked.

        Args:
            name: the tool's name, or an alias.
            arguments: a dict, or JSON text as a model sends it.
            id: the call's id; one is made where there is none.
            raise_errors: raise the ToolError of a failed call, ToolExecutionDenied for a denied one.
        """
        result = await self.pipeline.call(ToolCall(id, name, arguments), self.context)
        if raise_errors and result.error is not None:
            if result.error.code == "permission_denied":
                raise ToolExecutionDenied(str(result.error)) from result.error
            raise result.error
        return result

    async def turn(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Carry out the calls of one model turn; results in call order, one for each distinct id."""
        return list(await self._turns.turn(calls, self.context))

    async def preview(self, name: str, arguments: str | Mapping[str, Any] | None = None) -> Preview:
        """What the call would do: effects, changes with diffs, decision. Changes nothing."""
        return await self.pipeline.preview(ToolCall(None, name, arguments), self.context)

    def recording(self, recorder: Recorder) -> TurnExecutor:
        """An executor of turns whose events go to `recorder`; for one run."""
        return TurnExecutor(self.pipeline.recording(recorder), hooks=self._hooks)

    async def aclose(self) -> None:
        """End what was started: background commands, threads."""
        await self.wiring.aclose()
        self.pipeline.close()

    async def __aenter__(self) -> Executor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


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
        **options: Any,
    ) -> None:
        self.instructions = instructions
        self.name = name
        self.limits = limits or Limits()
        self.executor = executor or Executor(tools, provide=provide, agent=name, **options)
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

    async def stream(self, task: str, *, session: str | None = None) -> AsyncIterator[Event]:
        """The run's events as they happen; the last is RunFinished. Leaving the loop cancels the run."""
        waiting: asyncio.Queue[Event | None] = asyncio.Queue()
        tee = _Tee(self._history(session), None, waiting.put_nowait)
        work = asyncio.ensure_future(self._loop(task, tee, session))
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
            self._model = self.executor.wiring.model(cast("str | None", self._model))
        return self._model

    def _history(self, session: str | None) -> list[Event]:
        return [] if session is None else self._talks.setdefault(session, [])

    async def _loop(self, task: str, tee: _Tee, session: str | None) -> RunFinished:
        from pegboard.runtime.output import OutputReader
        from pegboard.runtime.run import Loop, RunState
        from pegboard.runtime.transcripts import fold

        model = self.model()
        reader = None if self._output is None else OutputReader(self._output)
        state = RunState(id=new_id("run"), session=session or new_id("session"))
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
                task, state=state, context=_context(self.executor.context, model.name), history=history
            )
        finally:
            if session is not None:
                self._busy.pop(session, None)


class _Tee:
    """Hands each event to the session's list, another recorder and a listener."""

    def __init__(
        self, kept: list[Event], other: Recorder | None, listener: Callable[[Event], None] | None = None
    ) -> None:
        from pegboard.core.events import TRANSIENT

        self.before = tuple(kept)
        self.mine: list[Event] = []
        self._kept = kept
        self._others = [r for r in (other.record if other else None, listener) if r is not None]
        self._other = other
        self._transient = TRANSIENT

    def record(self, event: Event) -> None:
        """See Recorder."""
        if event.type not in self._transient:
            self.mine.append(event)
            self._kept.append(event)
        for other in self._others:
            other(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder."""
        if self._other is not None:
            await self._other.flush(power_loss=power_loss)


def _context(base: Context, model: str) -> Context:
    from dataclasses import replace

    return replace(base, model=model)


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
