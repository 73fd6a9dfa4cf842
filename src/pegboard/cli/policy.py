"""`pegboard policy`: why a call would be allowed, asked or denied."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pegboard.app.app import App
from pegboard.cli.call import read_arguments
from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModeOption,
    PolicyFile,
    ToolsFrom,
    Workspace,
    exit_with,
)
from pegboard.cli.options import Options, seconds_of
from pegboard.cli.people import interaction_for
from pegboard.cli.show import (
    escape_controls,
    paint,
    pluralise,
    print_error,
    print_json,
    print_line,
    shown_target,
)
from pegboard.core.errors import BuildError, ConfigError


def policy_command(
    action: Annotated[str, typer.Argument(help="explain, test, diff or lint.")],
    subject: Annotated[
        str | None, typer.Argument(metavar="TOOL|FILE", help="For explain a tool, for test and lint a file.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="For explain: the tool's arguments.")
    ] = None,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Arguments as JSON.")] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="For diff: how far back, e.g. 7d, 12h or 30m.")
    ] = "7d",
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="For explain: every reason and the rules that were tried.")
    ] = False,
    json: Json = False,
) -> None:
    """Explain a decision; test, compare or lint rules."""

    options = Options(
        workspace=workspace, mode=mode, policy=policy, config=config, json=json, tools_from=tools_from or ()
    )
    exit_with(
        _policy(action, subject, values or [], args=args, since=since, verbose=verbose, options=options)
    )


def _policy(
    action: str,
    subject: str | None,
    values: list[str],
    *,
    args: str | None,
    since: str,
    verbose: bool,
    options: Options,
) -> int:
    """Carry out the command; the exit status."""
    match action:
        case "explain" if subject:
            return options.run(
                partial(_explain, tool=subject, values=values, args=args, verbose=verbose, options=options)
            )
        case "test" if subject:
            return options.run(partial(_test, file=Path(subject), options=options))
        case "diff":
            return options.run(partial(_diff, since=since, options=options))
        case "lint":
            return options.run(partial(_lint, file=subject, options=options))
        case "explain" | "test":
            raise BuildError(f"policy {action} needs a {'tool' if action == 'explain' else 'file'}")
        case _:
            raise BuildError(f"policy {action!r}: use explain, test, diff or lint")


async def _explain(
    app: App, *, tool: str, values: list[str], args: str | None, verbose: bool, options: Options
) -> int:
    arguments = read_arguments(values, args, app.toolkit.resolve(tool))
    shown = await app.policies.explain(tool, arguments, interaction_for(options))
    if options.json:
        print_json(shown)
        return 0 if "error" not in shown else 2
    if "error" in shown:
        print_error(shown["error"]["message"], shown["error"]["hint"])
        return 2
    print_decision(shown, verbose=verbose)
    return 0


_MOST_EFFECTS: Final = 8


def print_decision(shown: dict[str, Any], *, verbose: bool) -> None:
    """What decided, then each effect and its verdict; `verbose` adds every reason and the rules that were tried."""
    print_line(paint(shown["decision"], "bold") + f"  ({escape_controls(shown['rule'])})")
    if shown["reason"]:
        print_line(f"reason: {escape_controls(shown['reason'])}")
    if "auto" in shown:
        print_line(
            f"auto: a person answers: {escape_controls(shown['auto'])}"
            if shown["auto"]
            else "auto: a second model is asked first"
        )
    rows: list[dict[str, Any]] = shown["effects"]
    if not verbose and len(rows) > _MOST_EFFECTS:
        # The ones that matter: what decided is among the strictest.
        rows = [r for r in rows if r["decision"] != "allow"][:_MOST_EFFECTS] or rows[:_MOST_EFFECTS]
    for row in rows:
        other = row["rule"] != shown["rule"]
        print_line(
            f"{row['kind']} {shown_target(row['target'])}: {row['decision']}"
            + (f" ({escape_controls(row['rule'])})" if other else "")
        )
        if verbose:
            _show_tried(row, said=shown["reason"])
    if len(rows) < len(shown["effects"]):
        print_line(f"and {pluralise(len(shown['effects']) - len(rows), 'other effect')} (-v shows all)")
    for line in shown.get("observed", ()):
        print_line(f"observed  {escape_controls(line)}")


def _show_tried(row: dict[str, Any], *, said: str) -> None:
    """One effect's own reason, the rules that speak of it, and how many do not."""
    if row.get("reason", said) != said:
        print_line(f"  reason: {escape_controls(row['reason'])}")
    silent: dict[str, int] = {}
    for tried in row["tried"]:
        origin = tried["source"].partition(" ")[0].replace("shipped", "built-in")
        if not tried["matches"]:
            silent[origin] = silent.get(origin, 0) + 1
            continue
        says = "decides" if tried["rule"] == row["rule"] else "matches too"
        says = "only observed" if tried.get("observe") else says
        print_line(f"  {escape_controls(tried['rule'])}   ({escape_controls(tried['source'])}; {says})")
    if silent:
        counted = ", ".join(f"{n} {origin}" for origin, n in silent.items())
        print_line(f"  did not match: {counted} rules (list them: --json)")


async def _test(app: App, *, file: Path, options: Options) -> int:
    """A TOML file of `[[case]] tool=…, arguments={…}, expect="deny"`."""
    rows = await app.policies.test(file)
    failed = [r for r in rows if not r["ok"]]
    if options.json:
        print_json({"cases": rows, "failed": len(failed)})
    else:
        for row in failed:
            print_line(
                f"{row['tool']} {row.get('arguments', {})}: expected {row['expect']}, got {row['got']} by {row['rule']}"
            )
        print_line(f"{len(rows) - len(failed)} of {len(rows)} as expected")
    return 1 if failed else 0


async def _diff(app: App, *, since: str, options: Options) -> int:
    """What the policy of now would have decided differently on recorded calls."""
    rows = await app.policies.diff(seconds_of(since))
    if options.json:
        print_json(rows)
    else:
        for row in rows:
            print_line(
                f"{row['run']} {row['tool']}: {row['before']} -> {row['now']}  ({escape_controls(row['rule'])})"
            )
        print_line(f"{pluralise(len(rows), 'call')} of the last {since} would be decided differently")
    return 0


async def _lint(app: App, *, file: str | None, options: Options) -> int:
    """Rules that decide nothing or more than they seem to, of a file or of what holds here.

    Remarks are advice and no failure; 1 where a rule of the file cannot be read.
    """
    try:
        report = await app.policies.lint(None if file is None else Path(file))
    except ConfigError as error:
        print_error(str(error), "")
        return 1
    if options.json:
        print_json([one.to_dict() for one in report.findings])
        return 0
    for one in report.findings:
        print_line(f"{one.kind}: {escape_controls(str(one.rule))}   ({escape_controls(one.rule.source)})")
        other = (
            "" if one.by is None else f": {escape_controls(str(one.by))}   ({escape_controls(one.by.source)})"
        )
        print_line(f"  {one.text}{other}")
    print_line(f"{pluralise(report.rules, 'rule')}, {pluralise(len(report.findings), 'remark')}")
    return 0
