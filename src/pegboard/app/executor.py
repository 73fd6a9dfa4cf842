"""Executor: the one public door to tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pegboard.app.wiring import Wiring
from pegboard.core.approval import Approver
from pegboard.core.call import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import ToolExecutionDenied
from pegboard.core.events import Event, MemoryRecorder, Recorder
from pegboard.core.executor import TurnExecutor, TurnHook
from pegboard.core.pipeline import Middleware, Pipeline, Preview, situation
from pegboard.core.policy import Policy, explain
from pegboard.core.result import ToolResult
from pegboard.core.rules import Rule
from pegboard.core.toolkit import Toolkit


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

    async def explain(self, name: str, arguments: str | Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The policy's answer with every rule that was tried: `{decision, rule, reason, effects}` (G-08).

        A call that cannot be planned gives `{error: {code, message, hint, retryable}}`.
        """
        preview = await self.preview(name, arguments)
        tool = self.toolkit.resolve(name)
        if preview.error is not None or tool is None:
            return {"error": {} if preview.error is None else preview.error.to_dict()}
        return explain(self.policy, preview.effects, situation(tool, self.context), tool.level)

    def recording(
        self,
        recorder: Recorder,
        *,
        approver: Approver | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> TurnExecutor:
        """An executor of turns whose events go to `recorder`; see Pipeline.recording."""
        pipeline = self.pipeline.recording(recorder, approver=approver, middleware=middleware)
        return TurnExecutor(pipeline, hooks=self._hooks)

    async def aclose(self) -> None:
        """End what was started: background commands, threads."""
        await self.wiring.aclose()
        self.pipeline.close()

    async def __aenter__(self) -> Executor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
