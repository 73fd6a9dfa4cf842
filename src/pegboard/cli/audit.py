"""`pegboard audit`: prove that the history is whole."""

from __future__ import annotations

import base64
import sys
from datetime import UTC, datetime

from pegboard.app.home import App
from pegboard.cli.options import Options
from pegboard.cli.show import paint, print_json, safe, say
from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.events import DestinationTried
from pegboard.store.logs import decode


def audit(action: str, session: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        sessions = app.streams()
        if session is not None:
            if session not in sessions:
                raise ConfigError(f"there is no session {session!r}; see: pegboard runs list --json")
            sessions = [session]
        if action == "export":
            for one in sessions:
                for entry in app.store.read(one):
                    print_json(
                        {
                            "stream": one,
                            "seq": entry.seq,
                            "run": entry.run,
                            "type": entry.type,
                            "at": entry.at,
                            "digest": entry.digest,
                            "mac": entry.mac,
                            "body": None
                            if entry.body is None
                            else base64.b64encode(entry.body).decode("ascii"),
                        }
                    )
            return 0
        if action == "destinations":
            if not _destinations(app, sessions, as_json=options.json) and not options.json:
                say("no confined command has tried to reach anything")
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
                    say(paint(f"{one} {fault}", "red"))
            say(f"{len(faults) - len(bad)} of {len(faults)} sessions verified")
        sys.stdout.flush()
        return 1 if bad else 0


def _destinations(app: App, sessions: list[str], *, as_json: bool) -> int:
    """Print everything that confined commands tried to reach, oldest first in each session (G-18); how many."""
    found = 0
    for one in sessions:
        for entry in app.store.read(one):
            event = next(iter(decode([entry])), None) if entry.type == DestinationTried.type else None
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
            say(
                f"{when}  {one}  {safe(event.tool)}  {verdict} {safe(event.host)}:{event.port}{used}  {safe(event.reason)}"
            )
    return found
