"""`pegboard usage`: tokens, money and time, by model, day, session and tool."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Everywhere, Json, Workspace, exit_with
from pegboard.cli.options import Options, seconds_of
from pegboard.cli.show import escape_controls, pluralise, print_json, print_line, table
from pegboard.core.transcript import Usage


def usage_command(
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="How far back, e.g. 7d, 12h or 30m.")
    ] = "30d",
    everywhere: Everywhere = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Show tokens, cost and time by model, day, session and tool."""

    exit_with(
        usage(since, everywhere=everywhere, options=Options(workspace=workspace, config=config, json=json))
    )


def usage(since: str, *, everywhere: bool = False, options: Options) -> int:
    """Carry out the command; the exit status."""
    act = partial(_report, since=since, since_s=seconds_of(since), everywhere=everywhere, options=options)
    return options.run(act)


async def _report(app: App, *, since: str, since_s: float, everywhere: bool, options: Options) -> int:
    report = await app.usage.report(since_s, workspace=None if everywhere else str(app.workspace))
    if options.json:
        print_json(report.to_dict())
        return 0
    where = "all workspaces" if everywhere else "this workspace"
    print_line(f"{pluralise(report.runs, 'run')} in {where} in the last {since}")
    tables = [("model", report.models), ("day", report.days), ("session", report.sessions)]
    for name, rows in [*tables, *([("workspace", report.workspaces)] if everywhere else [])]:
        if rows:
            print_line()
            table(
                [(escape_controls(key), *_row(u)) for key, u in rows.items()],
                head=(name, "turns", "in", "cached", "out", "cost"),
            )
    tools = sorted(report.tools.items(), key=lambda item: (-item[1].result_tokens, item[0]))
    print_line()
    table(
        [
            (
                name,
                str(t.calls),
                str(t.failed),
                f"{sum(t.seconds):.2f}",
                str(t.result_tokens),
                str(t.schema_tokens),
                "-" if t.cost_usd is None else f"${t.cost_usd:.4f}",
            )
            for name, t in tools
        ],
        head=("tool", "calls", "failed", "seconds", "result tokens", "schema tokens", "cost"),
    )
    return 0


def _row(usage: Usage) -> tuple[str, str, str, str, str]:
    cost = "-" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    return (
        str(usage.requests), str(usage.input_tokens), str(usage.cache_read_tokens), str(usage.output_tokens), cost,
    )  # fmt: skip
