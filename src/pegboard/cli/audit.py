"""`pegboard audit`: prove that the history is whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import Json, Workspace, Yes, exit_with
from pegboard.cli.options import Options
from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, paint, print_json, print_line, print_note
from pegboard.core.errors import BuildError
from pegboard.services.audit import Acceptance, TriedDestination
from pegboard.store.chain import Fault


def audit_command(
    action: Annotated[str, typer.Argument(help="verify, accept, anchor, export or destinations.")],
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
    reason: Annotated[
        str, typer.Option("--reason", help="Why the faults are accepted, with `audit accept`.")
    ] = "",
    workspace: Workspace = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Verify or export the history, accept known faults; list hosts commands tried."""

    options = Options(workspace=workspace, yes=yes, json=json)
    exit_with(audit(action, session, file=file, anchor=anchor, reason=reason, options=options))


def audit(
    action: str,
    session: str | None,
    *,
    file: Path | None,
    options: Options,
    anchor: Path | None = None,
    reason: str = "",
) -> int:
    """Carry out the command; the exit status: 3 where nobody agreed to accept faults."""
    if bool(reason) != (action == "accept") or (action == "accept" and session is not None):
        raise BuildError("--reason is for: audit accept --reason TEXT, which is about all sessions")
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
        case "accept":
            return options.run(partial(_accept, reason=reason, options=options))
        case "anchor" if session is None:
            return options.run(_anchor)
        case "anchor":
            raise BuildError("audit anchor takes no SESSION: it covers all of them")
        case _:
            raise BuildError(
                f"audit {action!r}: use verify, export or destinations, each with an optional SESSION, or anchor or accept"
            )


async def _anchor(app: App) -> int:
    sys.stdout.write(f"{await app.audit.anchor()}\n")
    return 0


async def _verify(app: App, *, session: str | None, anchor: Path | None, options: Options) -> int:
    faults = await app.audit.verify(session, anchor=anchor)
    bad = _not_accepted(faults)
    if options.json:
        print_json({one: [_row(f) for f in found] for one, found in faults.items()})
    else:
        _print_faults(bad)
        sessions = [one for one in faults if one]
        print_line(f"{sum(one not in bad for one in sessions)} of {len(sessions)} sessions verified")
        for done in await app.audit.acceptances():
            print_line(_line_of(done))
    sys.stdout.flush()
    return 1 if bad else 0


async def _accept(app: App, *, reason: str, options: Options) -> int:
    """Let a person say that what is wrong has a harmless cause."""
    bad = _not_accepted(await app.audit.verify())
    if not options.json:
        _print_faults(bad)
    if bad and not options.yes:
        if not options.attended:
            print_note("nothing was accepted: not confirmed; look at the faults above, then pass --yes")
            return 3
        line = await read_line("type accept to take the record as it is from now on:  ")
        if line is None or line.strip().lower() != "accept":
            print_note("nothing was accepted")
            return 3
    done = await app.audit.accept(reason)
    if options.json:
        print_json(done.to_dict())
    else:
        print_line(_line_of(done) if bad else "nothing to accept: no fault was found")
    return 0


def _not_accepted(faults: Mapping[str, Sequence[Fault]]) -> dict[str, list[Fault]]:
    return {one: new for one, found in faults.items() if (new := [f for f in found if not f.accepted])}


def _row(fault: Fault) -> dict[str, Any]:
    accepted = {"accepted": fault.accepted} if fault.accepted else {}
    return {"seq": fault.seq, "problem": fault.problem, **accepted}


def _print_faults(faults: Mapping[str, Sequence[Fault]]) -> None:
    for one, found in faults.items():
        for fault in found:
            print_line(paint(f"{escape_controls(one)} {escape_controls(str(fault))}".strip(), "red"))


def _line_of(done: Acceptance) -> str:
    count = sum(map(len, done.faults.values()))
    when = datetime.fromtimestamp(done.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return f"accepted {when}: {count} {'fault' if count == 1 else 'faults'} ({escape_controls(done.reason)})"


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
    """What confined commands and browser pages tried to reach, oldest first in each session."""
    empty = True
    async for one in app.audit.destinations(session):
        empty = False
        _show(one, options)
    if empty and not options.json:
        print_line("no sandboxed command and no browser page has tried to connect")
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
