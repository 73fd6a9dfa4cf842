"""`pegboard usage`: tokens, money and time, by model, day, session and tool."""

from __future__ import annotations

import time

from pegboard.app.usage import usage_of
from pegboard.cli.options import Options, seconds_of
from pegboard.cli.show import escape_controls, pluralise, print_json, print_line, table
from pegboard.core.transcript import Usage


def usage(since: str, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    seconds = seconds_of(since)
    with options.open() as app:
        report = usage_of(app.store, since=time.time() - seconds, toolkit=app.toolkit)
    if options.json:
        print_json(report.to_dict())
        return 0
    print_line(f"{pluralise(report.runs, 'run')} in the last {since}")
    for name, rows in (("model", report.models), ("day", report.days), ("session", report.sessions)):
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
            )
            for name, t in tools
        ],
        head=("tool", "calls", "failed", "seconds", "result tokens", "schema tokens"),
    )
    return 0


def _row(usage: Usage) -> tuple[str, str, str, str, str]:
    cost = "-" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    return (
        str(usage.requests), str(usage.input_tokens), str(usage.cache_read_tokens), str(usage.output_tokens), cost,
    )  # fmt: skip
