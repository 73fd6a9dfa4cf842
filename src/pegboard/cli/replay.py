"""`pegboard replay`: a recorded run again, without model and world; or what two runs, or then and now, differ in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModeOption,
    PolicyFile,
    ToolsFrom,
    Workspace,
    exit_with,
)
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.show import escape_controls, paint, print_json, print_line, print_note
from pegboard.runtime.replay import Divergence
from pegboard.services.runs import Comparison
from pegboard.store.runs import RunRow


def replay_command(
    run: Annotated[str, typer.Argument(metavar="ID", help="Run ID, the start of one, or last.")],
    live_model: Annotated[
        str | None,
        typer.Option(
            "--live-model", metavar="MODEL", help="Ask this model; reuse the recorded tool results."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="ID", help="Compare with another run.")
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Show what would differ with the current code, tools and rules.")
    ] = False,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Replay a recorded run offline and report any difference."""

    options = Options(
        workspace=workspace, mode=mode, policy=policy, config=config, json=json, tools_from=tools_from or ()
    )
    exit_with(replay_run(run, live_model=live_model, against=against, options=options, now=now))


def replay_run(
    run: str, *, live_model: str | None, against: str | None, options: Options, now: bool = False
) -> int:
    """Carry out the command; the exit status is 1 where something differs."""
    return options.run(
        partial(_replay, run=run, live_model=live_model, against=against, now=now, options=options)
    )


async def _replay(
    app: App, *, run: str, live_model: str | None, against: str | None, now: bool, options: Options
) -> int:
    row = await app.runs.get(run, single_calls=False)
    if against is not None:
        return await _compare(app, row, against, options)
    if live_model is not None:
        return await _live(app, row, live_model, options)
    return await (_now if now else _exact)(app, row, options)


async def _exact(app: App, row: RunRow, options: Options) -> int:
    """The run again, event by event; its calls planned and decided again where its workspace still is."""
    try:
        done = await app.runs.replay(row, workspace=options.workspace, mode=options.mode)
    except Divergence as difference:
        if options.json:
            print_json(
                {"run": row.id, "same": False, "event": difference.place, "recorded": difference.expected,
                 "replayed": difference.got}
            )  # fmt: skip
        else:
            print_note(paint(f"run {row.id}: {escape_controls(str(difference))}", "red"))
        return 1
    if done.planned is None:
        print_note("its workspace no longer exists, so its calls were not planned again")
    if options.json:
        print_json(
            {"run": row.id, "same": True, "events": done.events, "planned": done.planned or 0,
             "untold": list(done.not_compared)}
        )  # fmt: skip
        return 0
    ended = "to its end" if done.whole else "up to the point where its process stopped"
    print_line(
        f"run {row.id} replays exactly {ended}: {done.events} events, {done.planned or 0} calls planned again"
    )
    _print_not_compared(done.not_compared)
    if done.decided_otherwise:
        print_note(
            f"under the current rules {done.decided_otherwise} calls would be decided differently; "
            f"see: pegboard replay {row.id} --now"
        )
    return 0


async def _now(app: App, row: RunRow, options: Options) -> int:
    """What would differ under the code, tools and rules of now."""
    done = await app.runs.compare_now(row, workspace=options.workspace, mode=options.mode)
    if options.json:
        print_json(
            {"run": row.id, "same": not done.diff, "diff": list(done.diff), "planned": done.planned,
             "untold": list(done.not_compared)}
        )  # fmt: skip
    else:
        _print_diff(done.diff)
        _print_not_compared(done.not_compared)
        if not done.diff:
            print_line(
                f"run {row.id} would behave the same now, in mode {done.mode}: {done.planned} calls planned again"
            )
    return 1 if done.diff else 0


async def _live(app: App, row: RunRow, model: str, options: Options) -> int:
    return _print_comparison(await app.runs.compare_model(row, model, interaction_for(options)), options)


async def _compare(app: App, row: RunRow, against: str, options: Options) -> int:
    return _print_comparison(await app.runs.compare(row, await app.runs.get(against)), options)


def _print_comparison(done: Comparison, options: Options) -> int:
    if options.json:
        print_json(
            {"run": done.run, "against": done.against, "same": not done.diff, "diff": list(done.diff)}
        )  # fmt: skip
    elif not done.diff:
        print_line(f"{done.run} and {done.against} made the same calls with the same results")
    else:
        _print_diff(done.diff)
    return 1 if done.diff else 0


def _print_not_compared(lines: Sequence[str]) -> None:
    for line in lines[:20]:
        print_note(f"not compared: {escape_controls(line)}")
    if len(lines) > 20:
        print_note(f"and {len(lines) - 20} more")


def _print_diff(lines: Sequence[str]) -> None:
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        print_line(paint(escape_controls(line), colour) if colour else escape_controls(line))
