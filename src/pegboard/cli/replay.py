"""`pegboard replay`: a recorded run again, without model and world; or what two runs, or then and now, differ in."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from pegboard.app.executor import Executor
from pegboard.app.home import App
from pegboard.cli.model_setup import model_line
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, paint, print_json, print_line, print_note
from pegboard.core.errors import BuildError
from pegboard.core.events import Event, RunStarted
from pegboard.core.policy.policy import MODES
from pegboard.runtime.availability import Availability
from pegboard.runtime.replanning import Replanner
from pegboard.runtime.replay import Divergence, replay, split
from pegboard.runtime.replay_live import behaviour, compare_now, replay_live
from pegboard.store.encoding import Redact


def replay_run(
    run: str, *, live_model: str | None, against: str | None, options: Options, now: bool = False
) -> int:
    """Carry out the command; the exit status is 1 where something differs."""
    with options.open() as app:
        row = app.run_row(run)
        events = app.session_events(row.stream)
        if against is not None:
            other = app.run_row(against)
            theirs = split(app.session_events(other.stream), other.id)[1]
            return _compare(
                split(events, row.id)[1],
                theirs,
                row.id,
                other.id,
                options,
                redact=app.redactor.redact,
                plans=True,
            )
        if live_model is not None:
            return asyncio.run(_live(app, events, row.id, live_model, options))
    there = _where_it_ran(events, row.id, options)
    if there is None:
        if now:
            raise BuildError(
                f"the workspace of run {row.id} no longer exists, so nothing can be planned in it"
            )
        print_note("its workspace no longer exists, so its calls were not planned again")
        return asyncio.run(_exact(None, events, row.id, options))
    with there.open() as app:
        return asyncio.run(
            _now(app, events, row.id, options) if now else _exact(app, events, row.id, options)
        )


def _where_it_ran(events: list[Event], run: str, options: Options) -> Options | None:
    """The options under which its calls can be planned again: its folder and mode, where none are named."""
    detail = cast(RunStarted, split(events, run)[1][0]).detail
    where = options.workspace or Path(str(detail.get("workspace") or "."))
    if not where.is_dir():
        return None
    mode = options.mode or detail.get("policy", {}).get("mode")
    return replace(options, workspace=where, mode=mode if mode in MODES else None)


def _planner(app: App, executor: Executor, events: list[Event], run: str, *, lenient: bool) -> Replanner:
    detail = cast(RunStarted, split(events, run)[1][0]).detail
    return Replanner(
        pipeline=executor.pipeline,
        policy=str(detail.get("policy", {}).get("revision", "")),
        then=str(detail.get("workspace") or "") or None,
        workspace=executor.context.workspace,
        absent=bool(app.servers()),
        offers=Availability(app.config.allow_models).allows,
        lenient=lenient,
    )


async def _exact(app: App | None, events: list[Event], run: str, options: Options) -> int:
    """The run again, event by event; its calls planned and decided again where `app` is given."""
    planner: Replanner | None = None
    try:
        if app is None:
            done = await replay(events, run)
        else:
            async with app.executor(recorded=False) as door:
                planner = _planner(app, door, events, run, lenient=False)
                done = await replay(events, run, planner=planner)
    except Divergence as report_difference:
        if options.json:
            print_json(
                {"run": run, "same": False, "event": report_difference.place, "recorded": report_difference.expected,
                 "replayed": report_difference.got}
            )  # fmt: skip
        else:
            print_note(paint(f"run {run}: {escape_controls(str(report_difference))}", "red"))
        return 1
    planned, untold = (0, []) if planner is None else (planner.checked, planner.untold)
    if options.json:
        print_json({"run": run, "same": True, "events": done.events, "planned": planned, "untold": untold})
        return 0
    ended = "to its end" if done.finished is not None else "up to the point where its process stopped"
    print_line(f"run {run} replays exactly {ended}: {done.events} events, {planned} calls planned again")
    _tell_untold(untold)
    if planner is not None and planner.otherwise:
        print_note(
            f"under the current rules {planner.otherwise} calls would be decided differently; see: pegboard replay {run} --now"
        )
    return 0


async def _now(app: App, events: list[Event], run: str, options: Options) -> int:
    """What would differ under the code, tools and rules of now."""
    async with app.executor(recorded=False) as door:
        done = await compare_now(events, run, _planner(app, door, events, run, lenient=True))
    if options.json:
        print_json(
            {"run": run, "same": not done.diff, "diff": list(done.diff), "planned": done.checked,
             "untold": list(done.untold)}
        )  # fmt: skip
    else:
        _print_diff(done.diff)
        _tell_untold(done.untold)
        if not done.diff:
            print_line(
                f"run {run} would behave the same now, in mode {app.policy.mode}: {done.checked} calls planned again"
            )
    return 1 if done.diff else 0


def _tell_untold(untold: Sequence[str]) -> None:
    for line in untold[:20]:
        print_note(f"not compared: {escape_controls(line)}")
    if len(untold) > 20:
        print_note(f"and {len(untold) - 20} more")


async def _live(app: App, events: list[Event], run: str, model: str, options: Options) -> int:
    async with app.executor() as door:
        agent = app.agent(door, model=model)
        opened = agent.model()
        print_note(f"{model_line(opened)}; tool results come from the recorded run")
        try:
            now = await replay_live(
                events, run, model=opened, instructions=agent.instructions, toolkit=app.toolkit,
                limits=agent.limits, redact=app.redactor.redact,
            )  # fmt: skip
        finally:
            await opened.aclose()
    return _compare(
        split(events, run)[1], now, run, f"{run} with {model}", options, redact=app.redactor.redact
    )


def _compare(
    one: list[Event],
    two: list[Event],
    name: str,
    other: str,
    options: Options,
    *,
    redact: Redact,
    plans: bool = False,
) -> int:
    before, after = ([redact(line)[0] for line in behaviour(events, plans=plans)] for events in (one, two))
    lines = list(difflib.unified_diff(before, after, name, other, lineterm=""))
    if options.json:
        print_json({"run": name, "against": other, "same": not lines, "diff": lines})
    elif not lines:
        print_line(f"{name} and {other} made the same calls with the same results")
    _print_diff([] if options.json else lines)
    return 1 if lines else 0


def _print_diff(lines: Sequence[str]) -> None:
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        print_line(paint(escape_controls(line), colour) if colour else escape_controls(line))
