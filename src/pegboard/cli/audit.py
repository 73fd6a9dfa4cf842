"""`pegboard audit`: prove that the history is whole."""

from __future__ import annotations

import base64
import sys

from pegboard.cli.options import Options
from pegboard.cli.show import paint, print_json, say
from pegboard.core.errors import BuildError, ConfigError


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
        if action != "verify":
            raise BuildError("use: pegboard audit verify [SESSION], or pegboard audit export [SESSION]")
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
