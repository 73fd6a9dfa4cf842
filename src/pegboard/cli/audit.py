"""`pegboard audit`: prove that the history is whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from pegboard.app.home import App
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, paint, print_json, print_line
from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.events import DestinationTried
from pegboard.ports.store import Record
from pegboard.store.log import decode_events
from pegboard.store.signing import check, export, fingerprint, line_of, public_of


def audit(action: str, session: str | None, *, file: Path | None, options: Options) -> int:
    """Carry out the command; the exit status."""
    if file is not None and action == "verify" and session is None:
        return _verify_file(file, options)
    if file is not None and action != "export":
        raise BuildError("--file is for: audit export [SESSION] --file NEW, and audit verify --file EXPORT")
    with options.open() as app:
        sessions = app.streams()
        if session is not None:
            if session not in sessions:
                raise ConfigError(f"no session {session!r}; see: pegboard runs list --json")
            sessions = [session]
        if action == "export":
            records = ((one, app.store.read(one)) for one in sessions)
            if file is not None:
                _export_to(file, records, app.paths.signing_key())
            else:
                sys.stdout.writelines(f"{line_of(one, e)}\n" for one, entries in records for e in entries)
            return 0
        if action == "destinations":
            if not _destinations(app, sessions, as_json=options.json) and not options.json:
                print_line("no sandboxed command has tried to connect")
            return 0
        if action != "verify":
            raise BuildError(
                f"audit {action!r}: use verify, export or destinations, each with an optional SESSION"
            )
        app.check_history()
        faults = {one: app.verify(one) for one in sessions}
        bad = {one: found for one, found in faults.items() if found}
        if options.json:
            print_json(
                {one: [{"seq": f.seq, "problem": f.problem} for f in found] for one, found in faults.items()}
            )
        else:
            for one, found in bad.items():
                for fault in found:
                    print_line(paint(f"{one} {fault}", "red"))
            print_line(f"{len(faults) - len(bad)} of {len(faults)} sessions verified")
        sys.stdout.flush()
        return 1 if bad else 0


def _export_to(file: Path, records: Iterable[tuple[str, Iterable[Record]]], key: bytes) -> None:
    """Write a signed export that only its owner can read; a file that is there stays as it is."""
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot write the export {file}: {error.strerror}; name a new file") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in export(records, key))
    # Who gets the file compares this, told by another way.
    print_line(
        f"{file}: signed with key {fingerprint(public_of(key))}; check it with: audit verify --file {file}"
    )


def _verify_file(file: Path, options: Options) -> int:
    """Check an export that somebody signed, on any machine."""
    try:
        with file.open("rb") as lines:
            signer, count, faults = check(lines)
    except OSError as error:
        raise ConfigError(f"cannot read the export {file}: {error.strerror}") from None
    with options.open() as app:
        # Not made here: who only checks files needs no key.
        own = app.paths.config / "export.key"
        ours = own.exists() and fingerprint(public_of(own.read_bytes())) == signer
    if options.json:
        rows = [{"session": s, "seq": f.seq, "problem": f.problem} for s, f in faults]
        print_json({"records": count, "signed_by": signer, "this_machine": ours, "faults": rows})
        return 1 if faults else 0
    for session, fault in faults:
        print_line(paint(f"{escape_controls(session)} {fault}", "red"))
    whose = "this machine's" if ours else "not this machine's: compare it with the fingerprint from its owner"
    print_line(f"{count} records, unchanged since they were signed with key {signer} ({whose})")
    return 1 if faults else 0


def _destinations(app: App, sessions: list[str], *, as_json: bool) -> int:
    """Print everything that confined commands tried to reach, oldest first in each session; how many."""
    found = 0
    for one in sessions:
        for entry in app.store.read(one):
            event = next(iter(decode_events([entry])), None) if entry.type == DestinationTried.type else None
            if not isinstance(event, DestinationTried):
                continue
            found += 1
            row = {
                "session": one, "run": entry.run, "call": event.call_id, "tool": event.tool, "at": entry.at,
                "host": event.host, "port": event.port, "allowed": event.allowed, "reason": event.reason,
                "secrets": list(event.secrets),
            }  # fmt: skip
            if as_json:
                print_json(row)
                continue
            when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
            verdict = paint("reached", "green") if event.allowed else paint("refused", "red")
            used = f" with {', '.join(f'secret://{n}' for n in event.secrets)}" if event.secrets else ""
            print_line(
                f"{when}  {one}  {escape_controls(event.tool)}  {verdict} {escape_controls(event.host)}:{event.port}{used}  {escape_controls(event.reason)}"
            )
    return found
