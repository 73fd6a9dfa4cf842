"""`pegboard audit`: prove that the history is whole."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, paint, print_json, print_line
from pegboard.core.errors import BuildError
from pegboard.services.audit import TriedDestination


def audit_command(
    action: Annotated[str, typer.Argument(help="verify, anchor, export or destinations.")],
    session: Annotated[str | None, typer.Argument(metavar="SESSION", help="Only this session.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Signed export file to write or verify.")
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(
            "--anchor", metavar="FILE", help="What audit anchor printed earlier, to verify against."
        ),
    ] = None,
    workspace: Workspace = None,
    json: Json = False,
) -> None:
    """Verify or export the history; list hosts commands tried."""

    options = Options(workspace=workspace, json=json)
    exit_with(audit(action, session, file=file, anchor=anchor, options=options))


def audit(
    action: str, session: str | None, *, file: Path | None, options: Options, anchor: Path | None = None
) -> int:
    """Carry out the command; the exit status."""
    if anchor is not None and (action != "verify" or file is not None):
        raise BuildError("--anchor is for: audit verify [SESSION] --anchor FILE")
    if file is not None and action == "verify" and session is None:
        return options.run(partial(_check, file=file, options=options))
    if file is not None and action != "export":
        raise BuildError("--file is for: audit export [SESSION] --file NEW, and audit verify --file EXPORT")
    match action:
        case "export":
            return options.run(partial(_export, session=session, file=file))
        case "destinations":
            return options.run(partial(_destinations, session=session, options=options))
        case "verify":
            return options.run(partial(_verify, session=session, anchor=anchor, options=options))
        case "anchor" if session is None:
            return options.run(_anchor)
        case "anchor":
            raise BuildError("audit anchor takes no SESSION: it covers all of them")
        case _:
            raise BuildError(
                f"audit {action!r}: use verify, export or destinations, each with an optional SESSION, or anchor"
            )


async def _anchor(app: App) -> int:
    sys.stdout.write(f"{await app.audit.anchor()}\n")
    return 0


async def _verify(app: App, *, session: str | None, anchor: Path | None, options: Options) -> int:
    faults = await app.audit.verify(session, anchor=anchor)
    bad = {one: found for one, found in faults.items() if found}
    if options.json:
        print_json(
            {one: [{"seq": f.seq, "problem": f.problem} for f in found] for one, found in faults.items()}
        )
    else:
        for one, found in bad.items():
            for fault in found:
                print_line(paint(f"{escape_controls(one)} {escape_controls(str(fault))}".strip(), "red"))
        sessions = [one for one in faults if one]
        print_line(f"{sum(one not in bad for one in sessions)} of {len(sessions)} sessions verified")
    sys.stdout.flush()
    return 1 if bad else 0


async def _export(app: App, *, session: str | None, file: Path | None) -> int:
    if file is None:
        async for line in app.audit.lines(session):
            sys.stdout.write(f"{line}\n")
        return 0
    key = await app.audit.export(file, session)
    # Who gets the file compares this, sent by another way.
    print_line(f"{file}: signed with key {key}; check it with: audit verify --file {file}")
    return 0


async def _check(app: App, *, file: Path, options: Options) -> int:
    """Check an export that somebody signed, on any machine."""
    done = await app.audit.check(file)
    if options.json:
        rows = [{"session": s, "seq": f.seq, "problem": f.problem} for s, f in done.faults]
        print_json(
            {"records": done.records, "signed_by": done.signer, "this_machine": done.this_machine, "faults": rows}
        )  # fmt: skip
        return 1 if done.faults else 0
    for session, fault in done.faults:
        print_line(paint(f"{escape_controls(session)} {fault}", "red"))
    whose = (
        "this machine's"
        if done.this_machine
        else "not this machine's: compare it with the fingerprint from its owner"
    )
    print_line(f"{done.records} records, unchanged since they were signed with key {done.signer} ({whose})")
    return 1 if done.faults else 0


async def _destinations(app: App, *, session: str | None, options: Options) -> int:
    """What confined commands tried to reach, oldest first in each session."""
    empty = True
    async for one in app.audit.destinations(session):
        empty = False
        _show(one, options)
    if empty and not options.json:
        print_line("no sandboxed command has tried to connect")
    return 0


def _show(tried: TriedDestination, options: Options) -> None:
    event = tried.event
    if options.json:
        print_json(
            {
                "session": tried.session, "run": tried.run, "call": event.call_id, "tool": event.tool, "at": tried.at,
                "host": event.host, "port": event.port, "allowed": event.allowed, "reason": event.reason,
                "secrets": list(event.secrets),
            }
        )  # fmt: skip
        return
    when = datetime.fromtimestamp(tried.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    verdict = paint("reached", "green") if event.allowed else paint("refused", "red")
    used = f" with {', '.join(f'secret://{n}' for n in event.secrets)}" if event.secrets else ""
    print_line(
        f"{when}  {tried.session}  {escape_controls(event.tool)}  {verdict} {escape_controls(event.host)}:{event.port}"
        f"{used}  {escape_controls(event.reason)}"
    )
