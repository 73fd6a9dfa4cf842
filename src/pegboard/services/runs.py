"""Runs: what agents did, started, resumed, replayed, compared, exported and imported."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.call.call import new_id
from pegboard.core.effects import Effect
from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.events import IMPORTED, CallFinished, CallStarted, Event, Notice, RunStarted
from pegboard.core.policy.approval import DenyAll
from pegboard.core.policy.policy import MODES, PROPOSE_PLAN
from pegboard.core.toolkit import RUN_CODE
from pegboard.ports.subagents import Child
from pegboard.runtime.availability import Availability
from pegboard.runtime.fold import fold
from pegboard.runtime.loop import POLICY, own_code
from pegboard.runtime.replanning import Replanner
from pegboard.runtime.replay import replay, split
from pegboard.runtime.replay_live import behaviour, compare_now, replay_live
from pegboard.services.approvals import Approvals, PendingCall
from pegboard.services.history import GONE, LAST, ONE_CALLS, History
from pegboard.services.redaction import RedactingApprover
from pegboard.services.run_files import ExportResult, ImportResult, export_pytest, import_file
from pegboard.services.runtime import NOBODY, Interaction, Runtime, ToolExecutor
from pegboard.services.sessions import Sessions, model_line
from pegboard.services.stopping import stop_run
from pegboard.store.children import Children
from pegboard.store.runs import RunRow
from pegboard.store.stops import Stops

_NEWEST: Final = 20
"""Runs of a session among which its newest is looked for that is no single call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What replaying a run told.

    Attributes:
        run: its id.
        events: how many were made again, as they were.
        whole: whether it had an end; else it was replayed up to where its process ended.
        planned: how many calls were planned and decided again; None where its workspace is not there any more.
        not_compared: what could not be compared, one sentence each.
        decided_otherwise: how many calls the rules of now would decide differently.
    """

    run: str
    events: int
    whole: bool
    planned: int | None = None
    not_compared: tuple[str, ...] = ()
    decided_otherwise: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two runs, or a run then and now, differ in: the lines of a unified diff, none where they did the same."""

    run: str
    against: str
    diff: tuple[str, ...]
    planned: int = 0
    not_compared: tuple[str, ...] = ()
    mode: str = ""


class Runs:
    """The runs of this machine.

    Args:
        runtime: the workspace, its tools and its policy.
        history: where they are recorded.
        sessions: opens a session for a run.
        approvals: what suspended runs wait for.
    """

    def __init__(self, runtime: Runtime, history: History, sessions: Sessions, approvals: Approvals) -> None:
        self._runtime = runtime
        self._history = history
        self._sessions = sessions
        self._approvals = approvals

    # -- looking ------------------------------------------------------------------------------------

    async def list(
        self,
        *,
        session: str | None = None,
        status: str | None = None,
        everywhere: bool = False,
        limit: int | None = 100,
        prefix: str = "",
    ) -> list[RunRow]:
        """The latest runs, newest first; one whose process ended before it did is `interrupted`.

        Args:
            session, status: only these; None = all.
            prefix: only those of sessions whose keys begin so.
            everywhere: those of other workspaces too.
            limit: how many; None = all.
        """
        rows = await self._history.runs(
            session=session, status=status, workspace=None if everywhere else self._workspace, limit=limit,
            prefix=prefix,
        )  # fmt: skip
        return await self._history.mark_interrupted(rows)

    async def get(self, id: str, *, single_calls: bool = True) -> RunRow:
        """A run by its id or the unique start of one, its status as in `list`; `last` is the newest of this workspace.

        Args:
            id: what is looked for.
            single_calls: whether `last` may be a call from outside of any run.

        Raises:
            ConfigError: there is none, or several start so.
        """
        if id != LAST:
            return (await self._history.mark_interrupted([await self._history.run(id)]))[0]
        for limit in (10, None):
            for row in await self.list(limit=limit):
                if single_calls or not self.is_single_call(row):
                    return row
        what = "runs" if single_calls else "runs of an agent"
        raise ConfigError(f"no {what} in {self._workspace} yet; see: pegboard runs --all")

    @property
    def _workspace(self) -> str:
        return str(self._runtime.workspace)

    def events(self, row: RunRow) -> AsyncIterator[Event]:
        """The events of a run, oldest first, read as they are taken."""
        return self._history.iter_events(row)

    @staticmethod
    def is_purged(row: RunRow) -> bool:
        """Whether the content of a run was deleted."""
        return row.task == GONE

    @staticmethod
    def is_single_call(row: RunRow) -> bool:
        """Whether a run is a call from outside: no model's turn follows, so it is never resumed."""
        return row.agent in ONE_CALLS

    async def is_resumable_here(self, row: RunRow) -> bool:
        """Whether `resume` takes the run: it worked in this workspace, with tools that we have."""
        start = await self._history.events(row.stream, run=row.id, types=(RunStarted.type,))
        try:
            self._check_resumable(row, start)
        except BuildError:
            return False
        return True

    # -- working ------------------------------------------------------------------------------------

    async def start(
        self,
        task: str,
        interaction: Interaction = NOBODY,
        *,
        session: str | None = None,
        model: str | None = None,
        turns: int | None = None,
    ) -> AsyncGenerator[Event]:
        """Run an agent on a task; its events as they happen, the last is RunFinished.

        Args:
            task: what to do.
            interaction: who answers.
            session: a key; the conversation under it goes on. None = a fresh one.
            model: as `--model` takes it; None = the first that is found.
            turns: the most model turns; None = as the settings say.

        Raises:
            ConfigError, ModelError, StoreError: see `Sessions.open`.
        """
        key = session or new_id("run-session")
        async with (
            self._sessions.open(key, interaction, model=model, turns=turns) as talk,
            aclosing(talk.send(task)) as events,
        ):
            async for event in events:
                yield event

    async def unfinished(self) -> list[RunRow]:
        """Runs of this workspace that `resume` can take further now: their process ended, or what they waited for was answered."""
        rows = await self._history.runs(status="running", workspace=self._workspace)
        for row in await self._history.runs(status="suspended", workspace=self._workspace):
            if await self._approvals.answers(row.id):
                rows.append(row)
        return [r for r in rows if not self.is_single_call(r)]

    async def unfinished_in(self, session: str) -> RunRow | None:
        """The run of a session that `resume` can take further here and now, None without one."""
        rows = await self.list(session=session, everywhere=True, limit=_NEWEST)
        # What stands before the newest run was left behind.
        row = next((row for row in rows if not self.is_single_call(row)), None)
        if row is None or row.status not in ("interrupted", "suspended"):
            return None
        if row.status == "suspended" and not await self._approvals.answers(row.id):
            return None
        return row if await self.is_resumable_here(row) else None

    async def waits_for(self, row: RunRow, interaction: Interaction) -> list[PendingCall]:
        """What has to be answered before a run can be resumed at all; empty where it can go on now."""
        if row.status != "suspended" or not _nobody(interaction) or await self._approvals.answers(row.id):
            return []
        return await self._approvals.pending(row.id)

    async def resume(
        self,
        row: RunRow,
        interaction: Interaction = NOBODY,
        *,
        model: str | None = None,
        mode: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Take a run further where its process ended or its wait is over; its new events as they happen.

        Calls that had begun and are not idempotent are reported to the model as interrupted; nothing is done twice.

        Args:
            row: which run.
            interaction: who answers.
            model: as `--model` takes it; None = the run's own.
            mode: as `--mode` takes it; None = the stricter of the run's own mode and the present one.

        Raises:
            BuildError: it is a single call, was imported, worked elsewhere, or its session has gone on without it.
            ConfigError: another process works on its session now.
        """
        _refuse_single_call(row, "resumed")
        await Stops(self._history.store).drop(row.id)
        if (child := await Children(self._history.store).by_session(row.stream)) is not None:
            async with aclosing(self._resume_subagent(row, child, interaction, mode)) as going_on:
                async for event in going_on:
                    yield event
            return
        async with self._history.open_session(row.stream, run=row.id) as session:
            events = session.events
            self._check_resumable(row, events)
            before = _detail(events, row.id).get("tools_from", {})
            for place, sha256 in self._runtime.tools_from.items():
                if before.get(place, sha256) != sha256:
                    interaction.notify(f"{place} has changed since this run started")
            answers = await self._approvals.answers(row.id)
            redact = self._runtime.redactor.redact
            approver = interaction.approver
            plan = None if mode else agreed_plan(events, row.id)
            mode = mode or self._stricter_mode(events, row.id)
            async with self._runtime.executor(
                interaction, session=row.stream, mode=mode, code=_runs_programs(events)
            ) as executor:
                if plan is not None and mode == "plan":
                    # As the yes to it did in the process that has ended.
                    executor.set_policy(replace(executor.policy, mode="workspace", planned=plan))
                agent = self._runtime.agent(executor, model=model or row.model)
                agent.instructions = (await self._runtime.instructions(executor, session=row.stream)).text
                opened = agent.model()
                if hasattr(opened, "skip"):
                    opened.skip(fold(events).turns)  # A script has no memory of the turns that it gave.
                stream = agent.resume_events(
                    row.id,
                    events,
                    recorder=session.log,
                    answers=answers,
                    approver=None
                    if approver is None or _nobody(interaction)
                    else RedactingApprover(approver, redact),
                    spent_s=await self._history.active_s(row),
                )
                try:
                    async with aclosing(stream):
                        async for event in stream:
                            yield event
                    await session.log.flush()
                finally:
                    await opened.aclose()
            await self._approvals.forget(answers)

    async def stop(self, row: RunRow, *, wait_s: float = 10.0) -> RunRow:
        """End a run as `cancelled`, with the subagents that it has started, whichever process works on it.

        Args:
            row: which.
            wait_s: seconds to wait for its process to let go of it; the row is still `running` if it has not.

        Raises:
            BuildError: it is a single call.
            Conflict: it has ended.
        """
        _refuse_single_call(row, "stopped")
        return await stop_run(self._history, row, wait_s=wait_s)

    async def _resume_subagent(
        self, row: RunRow, child: Child, interaction: Interaction, mode: str | None
    ) -> AsyncGenerator[Event]:
        """Take a subagent's run further: with its own tools, and so that it reports to its parent."""
        events = await self._history.events(row.stream)
        self._check_resumable(row, events)
        answers = await self._approvals.answers(row.id)
        mode = mode or self._stricter_mode(events, row.id)
        async with self._runtime.executor(interaction, session=child.parent, mode=mode) as executor:
            runs = self._runtime.subagents(executor, model=row.model)
            async with aclosing(runs.resume(child, answers)) as going_on:
                async for event in going_on:
                    yield event
        await self._approvals.forget(answers)

    def _check_resumable(self, row: RunRow, events: Sequence[Event]) -> None:
        start = next((e for e in events if isinstance(e, RunStarted) and e.run == row.id), None)
        detail: Mapping[str, Any] = {} if start is None else start.detail
        if IMPORTED in detail:
            raise BuildError(
                f"it was imported from {detail[IMPORTED]}, so its calls do not run here; "
                f"continue its conversation with: pegboard run --session {row.stream} TASK"
            )
        missing = sorted(set(detail.get("code", ())) - set(own_code(self._runtime.toolkit)))
        if missing and (
            places := [p for p in detail.get("tools_from", {}) if p not in self._runtime.tools_from]
        ):
            named = " ".join(f"--tools-from {shlex.quote(place)}" for place in places)
            raise BuildError(
                f"its tools {', '.join(missing)} are not loaded; "
                f"resume it with: pegboard runs resume {row.id} {named}"
            )
        if missing:
            raise BuildError(
                f"its tools are functions of a program ({', '.join(missing)}); resume it there, with "
                f'agent.resume("{row.id}"), or load them with --tools-from FILE.py:NAME'
            )
        where = detail.get("workspace")
        if where and where != str(self._runtime.workspace):
            raise BuildError(f"it ran in {where}; resume it there, or with --workspace {where}")

    def _stricter_mode(self, events: Sequence[Event], run: str) -> str:
        """The present mode, or the one the run started in where that allows less."""
        present = self._runtime.policy.mode
        started = _detail(events, run).get("policy", {}).get("mode")
        return min(present, started, key=MODES.index) if started in MODES else present

    # -- files --------------------------------------------------------------------------------------

    async def export_pytest(self, row: RunRow) -> ExportResult:
        """The run as a test that replays it, without secrets.

        Raises:
            BuildError: it is a single call.
            Divergence: it does not replay, so the test would fail.
        """
        _refuse_single_call(row, "exported as a test")
        return await export_pytest(await self._history.events(row.stream), row.id)

    async def import_run(self, path: Path) -> ImportResult:
        """Take the events of a file of JSON lines into a session of its own.

        Raises:
            ConfigError: the file cannot be read, or holds no event.
        """
        return await import_file(self._history, self._runtime.paths.state, path)

    # -- replaying ----------------------------------------------------------------------------------

    async def replay(
        self, row: RunRow, *, workspace: Path | None = None, mode: str | None = None
    ) -> ReplayReport:
        """Do a run again without model and world, event by event, and plan and decide its calls again.

        Args:
            row: which run.
            workspace, mode: where its calls are planned, and in which mode; None = as it ran.

        Raises:
            BuildError: it is a single call.
            Divergence: an event came out different.
        """
        _refuse_single_call(row, "replayed")
        events = await self._history.events(row.stream)
        place = _place(events, row.id, workspace, mode)
        if place is None:
            done = await replay(events, row.id)
            return ReplayReport(run=row.id, events=done.events, whole=done.finished is not None)
        with self._runtime.at(place[0], mode=place[1]) as runtime:
            async with runtime.executor(recorded=False, code=_runs_programs(events)) as executor:
                planner = _planner(runtime, executor, events, row.id, lenient=False)
                done = await replay(events, row.id, planner=planner)
        return ReplayReport(
            run=row.id, events=done.events, whole=done.finished is not None, planned=planner.checked,
            not_compared=tuple(planner.untold), decided_otherwise=planner.otherwise,
        )  # fmt: skip

    async def compare_now(
        self, row: RunRow, *, workspace: Path | None = None, mode: str | None = None
    ) -> Comparison:
        """What the run would do differently under the code, tools and rules of now.

        Raises:
            BuildError: it is a single call, or its workspace is not there any more.
        """
        _refuse_single_call(row, "replayed")
        events = await self._history.events(row.stream)
        place = _place(events, row.id, workspace, mode)
        if place is None:
            raise BuildError(
                f"the workspace of run {row.id} no longer exists, so nothing can be planned in it"
            )
        with self._runtime.at(place[0], mode=place[1]) as runtime:
            async with runtime.executor(recorded=False, code=_runs_programs(events)) as executor:
                planner = _planner(runtime, executor, events, row.id, lenient=True)
                done = await compare_now(events, row.id, planner)
            return Comparison(
                run=row.id, against="now", diff=tuple(done.diff), planned=done.checked,
                not_compared=tuple(done.untold), mode=runtime.policy.mode,
            )  # fmt: skip

    async def compare_model(self, row: RunRow, model: str, interaction: Interaction = NOBODY) -> Comparison:
        """What another model does with the run's task, given the recorded tool results.

        Raises:
            BuildError: it is a single call.
        """
        _refuse_single_call(row, "replayed")
        events = await self._history.events(row.stream)
        async with self._runtime.executor(interaction) as executor:
            agent = self._runtime.agent(executor, model=model)
            opened = agent.model()
            agent.instructions = (await self._runtime.instructions(executor, session=row.stream)).text
            interaction.notify(f"{model_line(opened)}; tool results come from the recorded run")
            try:
                again = await replay_live(
                    events, row.id, model=opened, instructions=agent.instructions, toolkit=self._runtime.toolkit,
                    limits=agent.limits, redact=self._runtime.redactor.redact,
                )  # fmt: skip
            finally:
                await opened.aclose()
        return self._compared(split(events, row.id)[1], again, row.id, f"{row.id} with {model}")

    async def compare(self, one: RunRow, other: RunRow) -> Comparison:
        """What two runs did differently.

        Raises:
            BuildError: one of them is a single call.
        """
        for row in (one, other):
            _refuse_single_call(row, "compared")
        mine, theirs = [split(await self._history.events(r.stream), r.id)[1] for r in (one, other)]
        return self._compared(mine, theirs, one.id, other.id, plans=True)

    def _compared(
        self, one: Sequence[Event], two: Sequence[Event], run: str, against: str, *, plans: bool = False
    ) -> Comparison:
        redact = self._runtime.redactor.redact
        before, after = (
            [redact(line)[0] for line in behaviour(events, plans=plans)] for events in (one, two)
        )
        lines = difflib.unified_diff(before, after, run, against, lineterm="")
        return Comparison(run=run, against=against, diff=tuple(lines))


def _runs_programs(events: Sequence[Event]) -> bool:
    """Whether a model of the session called tools from programs; its runs go on and replay in code mode."""
    return any(isinstance(e, CallStarted) and e.tool == RUN_CODE for e in events)


def _refuse_single_call(row: RunRow, verb: str) -> None:
    if Runs.is_single_call(row):
        raise BuildError(f"{row.id} is a single call ({row.task}); only runs can be {verb}")


def _nobody(interaction: Interaction) -> bool:
    return interaction.approver is None or isinstance(interaction.approver, DenyAll)


def agreed_plan(events: Sequence[Event], run: str) -> tuple[Effect, ...] | None:
    """The effects of the plan of a run that a person agreed to, None without one, or where the mode changed after it.

    Args:
        events: of its session.
        run: its id.
    """
    current = ""
    proposed: dict[str, tuple[Effect, ...]] = {}
    plan: tuple[Effect, ...] | None = None
    for event in events:
        match event:
            case RunStarted():
                current = event.run
            case CallStarted(tool=tool) if current == run and tool == PROPOSE_PLAN:
                proposed[event.call_id] = event.effects
            case CallFinished(result=result) if result.ok and result.call_id in proposed:
                plan = proposed[result.call_id]
            case Notice() if current == run and event.detail.get(POLICY, {}).get("mode") not in (
                None,
                "workspace",
            ):
                plan = None
            case _:
                pass
    return plan


def _detail(events: Sequence[Event], run: str) -> Mapping[str, Any]:
    return cast(RunStarted, split(events, run)[1][0]).detail


def _place(
    events: Sequence[Event], run: str, workspace: Path | None, mode: str | None
) -> tuple[Path, str | None] | None:
    """Folder and mode in which a run's calls can be planned again; None where its folder is gone."""
    detail = _detail(events, run)
    folder = workspace or Path(str(detail.get("workspace") or "."))
    if not folder.is_dir():
        return None
    mode = mode or detail.get("policy", {}).get("mode")
    return folder, mode if mode in MODES else None


def _planner(
    runtime: Runtime, executor: ToolExecutor, events: Sequence[Event], run: str, *, lenient: bool
) -> Replanner:
    detail = _detail(events, run)
    return Replanner(
        pipeline=executor.pipeline,
        policy=str(detail.get("policy", {}).get("revision", "")),
        then=str(detail.get("workspace") or "") or None,
        workspace=executor.context.workspace,
        absent=bool(runtime.mcp_servers()),
        offers=Availability(runtime.config.allow_models).allows,
        lenient=lenient,
    )
