"""Executor: the one public door to tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pegboard.app.parts import hooks_of
from pegboard.app.wiring import Wiring
from pegboard.core.call.call import Middleware, Preview, TurnHook
from pegboard.core.call.pipeline import Pipeline, TurnExecutor
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import (
    BuildError,
    PegboardError,
    ToolExecutionDenied,
    format_value,
)
from pegboard.core.events import Event, MemoryRecorder, Recorder
from pegboard.core.policy.approval import ApprovalRequest, Approver, approver_of
from pegboard.core.policy.guards import Guards
from pegboard.core.policy.policy import Policy, explain
from pegboard.core.policy.rules import Rule
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.core.toolkit import (
    RUN_CODE,
    ChangingSource,
    PendingSource,
    Toolkit,
    ToolSource,
    add_sources,
    split_sources,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.files.undo import UndoReport
    from pegboard.files.workspace import Workspace
    from pegboard.interop.hooks import Hook, Hooks


class Executor:
    """The one door to tools: every call is decoded, authorised, run, shaped and recorded.

    Args:
        tools: a Toolkit, or a list of tools, functions, toolkits and tool sources (MCP servers); sources
            are opened at the first call.
        workspace: the folder that file tools and commands work in; None = the current folder, taken
            only when a tool needs one.
        mode: read-only, plan, ask, workspace (default), auto or full; None = the policy's.
        policy: a Policy, rule lines, or the path of a file with rules; None = the shipped rules.
        approver: answers where the policy asks: an object with `decide(request)`, or a function; None =
            everything that asks is denied.
        provide: objects that fill `Inject[T]`, by their type.
        middleware: around every authorised run, outermost first.
        hooks: functions that see all calls of a turn before any runs; a Hook, or the path of a `hooks.json`, for
            what runs at events.
        recorder: where events go; None = the last 1,000 are kept in memory.
        threads: how many blocking functions run at once.
        timeout_s: wall seconds of a call whose tool sets none; None = no deadline.
        session, agent: how the calls' context names them.
        safeguards: taint, secrets and budgets; None = taint alone, with the shipped rules.
        defer_beyond: with more tools than this a model is shown some, and finds the others by
            `search_tools`; None = it is shown all.
        auto_model: the second model of mode auto, a Model or a name as `--model` takes it; None = the agent's own.

    Attributes:
        toolkit: the tools that are offered now.
        context: what calls here see as theirs.
        turn_hooks, hooks: the functions among the hooks, and those of events (None = there are none).
        tell: is given a sentence where a tool source could not be opened; as it is made, a warning to `logging`.

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
        policy: Policy | str | Path | Iterable[str | Rule] | None = None,
        approver: Approver | Callable[[ApprovalRequest], Any] | None = None,
        provide: Iterable[Any] = (),
        middleware: Sequence[Middleware] = (),
        hooks: Sequence[TurnHook | Hook | Hooks | str | Path] = (),
        recorder: Recorder | None = None,
        threads: int = 64,
        timeout_s: float | None = 600.0,
        session: str = "local",
        agent: str = "main",
        defer_beyond: int | None = None,
        wiring: Wiring | None = None,
        safeguards: Guards | None = None,
        auto_model: Any = None,
    ) -> None:
        plain, sources = split_sources(tools)
        kit = tools if isinstance(tools, Toolkit) else Toolkit(plain)
        own = kit
        kit = _shown(kit, defer_beyond)
        self.wiring = wiring or Wiring.of(kit, workspace=workspace, mode=mode, policy=policy, provide=provide)
        if safeguards is not None:
            built = self.wiring.safeguards
            undo = safeguards.undo or built.undo
            self.wiring.safeguards = replace(safeguards, environment=built.environment, undo=undo)
        if auto_model is not None:
            self.wiring.auto_model = auto_model
        if self.wiring.safeguards.judge is None:
            self.wiring.safeguards = replace(self.wiring.safeguards, judge=self.wiring.judge)
        self.toolkit = kit
        self.turn_hooks, self.hooks = hooks_of(hooks, self.wiring.workspace)
        self.pipeline = Pipeline(
            kit,
            policy=self.wiring.policy,
            approver=None if approver is None else approver_of(approver),
            recorder=recorder or MemoryRecorder(),
            shaper=self.wiring.shaper,
            provide=self.wiring.provided,
            middleware=middleware,
            grants=self.wiring.grants,
            threads=threads,
            timeout_s=timeout_s,
            guards=self.wiring.safeguards,
            hooks=self.hooks,
            turn_hooks=self.turn_hooks,
            write_checks=self.wiring.write_checks,
        )
        if self.hooks is not None:
            self.hooks.on_warning = lambda text: self.on_warning(self.pipeline.parts.shaper.redacted(text))
            self.hooks.mode = lambda: self.policy.mode
        self._sources: tuple[ToolSource, ...] = tuple(sources)
        self._own = own
        self._defer_beyond = defer_beyond
        self._seen: tuple[int, ...] | None = None
        self._opening: asyncio.Lock | None = None
        self.on_warning: Callable[[str], None] = _logged
        self._turns = TurnExecutor(self.pipeline, hooks=self.turn_hooks)
        self.context = Context(session=session, agent=agent, workspace=self.wiring.workspace)
        self.wiring.executor = self

    async def refresh_tools(self, name: str | None = None) -> None:
        """Open the tool sources, or take in what has changed in them since.

        Args:
            name: only this tool is wanted: where it is one of our own, nothing is opened for it; where
                it can be one of a source that is still starting, that start is waited for.

        A source that cannot be opened has no tools and is tried again at the next call; the others are there.
        """
        if not self._sources or (name is not None and self._own.resolve(name) is not None):
            return
        await self._reload_tools()
        if name is not None and self.toolkit.get(name) is None:
            late = [s.wait_ready(name) for s in self._sources if isinstance(s, PendingSource)]
            if late:
                await asyncio.gather(*late)
                await self._reload_tools()

    async def _reload_tools(self) -> None:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            seen = tuple(s.revision for s in self._sources)
            if self._seen is not None and self._seen == seen and 0 not in seen:
                return
            found = await asyncio.gather(*(self._tools_of(s) for s in self._sources))
            self._seen = tuple(s.revision for s in self._sources)
            kit = add_sources(self._own, found, self._sources)
            kit = _shown(kit, self._defer_beyond)
            if kit.advertised() is not kit:
                from pegboard.core.tool_search import ToolIndex
                from pegboard.ports.tool_search import ToolSearch

                self.pipeline.parts.provide[ToolSearch] = ToolIndex(kit)
            self.toolkit = kit
            self.pipeline.set_toolkit(kit)

    @property
    def tools_changed(self) -> bool:
        """Whether an opened source has changed its list since its tools were taken in; `ready` takes them in."""
        return self._seen is not None and self._seen != tuple(s.revision for s in self._sources)

    async def latest_tools(self) -> Toolkit:
        """The tools with every change that an opened source has announced."""
        for source in self._sources:
            if isinstance(source, ChangingSource):
                await source.settled()
        if self.tools_changed:
            await self._reload_tools()
        return self.toolkit

    async def _tools_of(self, source: ToolSource) -> list[Tool]:
        try:
            return await source.tools()
        except PegboardError as error:
            # The other sources and tools must not wait for it; a person must not miss its tools without a word.
            self.on_warning(f"its tools are missing: {error}")
            return []

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self.pipeline.parts.policy

    @property
    def events(self) -> Sequence[Event]:
        """The last events, where the recorder keeps them."""
        return tuple(getattr(self.pipeline.parts.recorder, "events", ()))

    def call(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        raise_errors: bool = False,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call one tool; the result says whether it worked.

        Args:
            name: the tool's name, or an alias.
            arguments: a dict, or JSON text as a model sends it.
            id: the call's id; one is made where there is none.
            raise_errors: raise the ToolError of a failed call, ToolExecutionDenied for a denied one.
        """
        if type(name) is not str:
            name = _named(name)
        if self._sources or raise_errors:
            return self._call(name, arguments, id, raise_errors=raise_errors)
        # The pipeline's own coroutine: one more around it would stand on the path of every call.
        return self.pipeline.call(ToolCall(id, name, arguments), self.context)

    async def _call(
        self, name: str, arguments: str | Mapping[str, Any] | None, id: str | None, *, raise_errors: bool
    ) -> ToolResult:
        if self._sources:
            await self.refresh_tools(name)
        result = await self.pipeline.call(ToolCall(id, name, arguments), self.context)
        if raise_errors and result.error is not None:
            if result.error.code == "permission_denied":
                raise ToolExecutionDenied(str(result.error)) from result.error
            raise result.error
        return result

    async def turn(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Carry out the calls of one model turn; results in call order, one for each distinct id."""
        if not isinstance(calls, list | tuple) or not all(isinstance(call, ToolCall) for call in calls):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(
                f"turn(…) takes a list of ToolCall(id=…, name=…, arguments=…), got {format_value(calls)}; "
                "dialect(…).decode(reply) returns one, and for a single call there is call(name, arguments)"
            )
        if self._sources:
            await self.refresh_tools()
        return list(await self._turns.turn(calls, self.context))

    async def preview(self, name: str, arguments: str | Mapping[str, Any] | None = None) -> Preview:
        """What the call would do: effects, changes with diffs, decision. Changes nothing."""
        name = _named(name)
        await self.refresh_tools(name)
        return await self.pipeline.preview(ToolCall(None, name, arguments), self.context)

    async def undo(self, id: str | None = None, *, preview: bool = False, redo: bool = False) -> UndoReport:
        """Take back what a call or a run changed in files, keeping later edits; None = the last change.

        Args:
            id: a call's or run's id, as in its result and events.
            preview: only say what would change.
            redo: undo an undo.

        Returns:
            What was changed, kept and in conflict; where something conflicts, nothing is changed.

        Raises:
            BuildError: no tool here works on files, so that nothing is journalled.
            ToolError: the journal has no such call or run.
        """
        from pegboard.files.undo import ById, Last
        from pegboard.ports.files import Files

        files = self.wiring.provided.find(Files)
        if files is None:
            raise BuildError("this executor has no tools that work on files, so there is nothing to undo")
        # The port is for tools, which undo nothing; the real workspace behind it keeps the journal.
        return await cast("Workspace", files).undo(
            Last() if id is None else ById(id=id), preview=preview, redo=redo
        )

    async def explain(self, name: str, arguments: str | Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The policy's answer with every rule that was tried: `{decision, rule, reason, effects}`.

        In mode auto, where the answer is ask, `auto` says why a person has to answer; it is empty if the second model
        is asked first.

        A call that cannot be planned gives `{error: {code, message, hint, retryable}}`.
        """
        preview = await self.preview(name, arguments)
        tool = self.toolkit.resolve(name)
        if preview.error is not None and tool is not None and preview.error.code == "outside_workspace":
            return _outside(tool, arguments, preview.error.message)
        if preview.error is not None or tool is None or preview.detail is None:
            return {"error": {} if preview.error is None else preview.error.to_dict()}
        here = self.pipeline.situation(tool, self.context)
        out = explain(self.policy, preview.effects, here, tool.level, decision=preview.detail)
        if self.policy.mode == "auto" and preview.decision == "ask":
            from pegboard.core.call.automatic import needs_person

            call = await self.pipeline.examine(ToolCall(None, name, arguments), self.context)
            out["auto"] = await needs_person(call)
        return out

    def set_mode(self, mode: str) -> None:
        """Decide by another mode from the next call on: read-only, plan, ask, workspace, auto or full; a plan is over."""
        self.set_policy(replace(self.policy, mode=mode, planned=None))

    def set_policy(self, policy: Policy) -> None:
        """Decide by another policy from the next call on."""
        self.pipeline.parts.policy = policy

    def with_recorder(
        self,
        recorder: Recorder,
        *,
        approver: Approver | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> TurnExecutor:
        """An executor of turns whose events go to `recorder`; see Pipeline.with_recorder."""
        pipeline = self.pipeline.with_recorder(recorder, approver=approver, middleware=middleware)
        return TurnExecutor(pipeline, hooks=self.turn_hooks)

    def narrowed(self, toolkit: Toolkit, *, wiring: Wiring, session: str, agent: str, depth: int) -> Executor:
        """An executor of fewer tools over the same workspace, policy and people, for a subagent."""
        parts = self.pipeline.parts
        hooks = () if self.hooks is None else (self.hooks.for_subagent(agent),)
        executor = Executor(
            toolkit,
            wiring=wiring,
            session=session,
            agent=agent,
            approver=parts.approver,
            middleware=parts.middleware,
            timeout_s=parts.timeout_s,
            hooks=(*self.turn_hooks, *hooks),
        )
        executor.context = replace(executor.context, depth=depth)
        executor.on_warning = self.on_warning
        return executor

    async def aclose(self) -> None:
        """End what was started: sessions, background commands, threads."""
        if self.hooks is not None:
            await self.hooks.close()
        for source in self._sources:
            await source.aclose()
        for sentence in await self.wiring.aclose():
            self.on_warning(sentence)
        self.pipeline.close()

    async def __aenter__(self) -> Executor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _shown(toolkit: Toolkit, defer_beyond: int | None) -> Toolkit:
    """The kit as models see it: in code mode if it has `run_code`, else with few schemas if it has many tools."""
    if RUN_CODE in toolkit:
        from pegboard.core.code_mode import with_code_mode

        return with_code_mode(toolkit)
    if defer_beyond is None:
        return toolkit
    from pegboard.core.tool_search import with_tool_search

    return with_tool_search(toolkit, beyond=defer_beyond)


def _named(name: object) -> Any:
    """What is no text and yet may be a name that a model sent: a value of JSON, answered as an unknown tool.

    Raises:
        BuildError: a Python object, which no model sends: its sender is the developer.
    """
    if name is None or isinstance(name, str | int | float | list | dict):
        return cast(Any, name)
    raise BuildError(
        f"a tool is called by its name, got {format_value(name)}; write call(tool.name, {{…}}) for a Tool, and add it to the "
        "executor's tools"
    )


def _logged(text: str) -> None:
    import logging

    logging.getLogger("pegboard.sources").warning("%s", text)


def _outside(tool: Tool, arguments: str | Mapping[str, Any] | None, message: str) -> dict[str, Any]:
    """The workspace's border is no rule and yet decides: told in the form of one."""
    rule = "the workspace boundary"
    # The preview failed after they were decoded, so they decode.
    values = tool.signature.decode(arguments).arguments
    rows: list[dict[str, Any]] = [
        {"kind": p.marker.kind, "target": str(values[p.name]), "decision": "deny", "rule": rule, "tried": []}
        for p in tool.markers
        if p.marker is not None and values.get(p.name) is not None
    ]
    return {"decision": "deny", "rule": rule, "reason": message, "effects": rows}
