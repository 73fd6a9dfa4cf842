"""Approving on a terminal: the exact effects and diff, then yes, no, session or always."""

from __future__ import annotations

import asyncio
import sys

from pegboard.cli.options import Options
from pegboard.cli.prompt import read_line
from pegboard.cli.show import paint, print_changes, safe, say
from pegboard.core.approval import (
    AllowOnce,
    ApprovalRequest,
    Approved,
    Approver,
    DenyAll,
    Refused,
    SuspendAll,
)
from pegboard.core.errors import BuildError

HELP = (
    "[y] once  [s] this session  [a] always, 30 days (a 2h, a 5x: for 2 hours, for 5 uses)  [n] no (n: why)"
)


class TerminalApprover:
    """Asks on the terminal; one question at a time."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    async def decide(self, request: ApprovalRequest) -> Approved | Refused:
        """Show the request and read the answer."""
        async with self._one:
            show_request(request)
            while True:
                line = await read_line("allow? ")
                if line is None:
                    return Refused("nobody answered")
                answer = parse_answer(line)
                if answer is not None:
                    return answer
                say(HELP)


def show_request(request: ApprovalRequest) -> None:
    """Print what a call wants to do: its exact effects, its diffs, why it asks, and the answers."""
    say(paint(f"\n{request.tool} wants to:", "bold"))
    for effect in request.effects:
        mark = "?" if effect in request.asking else " "
        say(f" {mark} {safe(str(effect))}" + (f"  ({safe(effect.reason)})" if effect.reason else ""))
    print_changes(request.changes)
    say(f"why it asks: {safe(request.reason)}")
    say(HELP)


def parse_answer(line: str) -> Approved | Refused | None:
    """`y`, `s`, `a`, `a 2h`, `a 5x`, `n`, `n: not on Fridays`; None where it is none of these."""
    text = line.strip()
    word, _, rest = text.partition(" ")
    rest = rest.strip()
    if word.lower().rstrip(":") in ("n", "no", "d", "deny"):
        return Refused(rest, by="terminal")
    if word.lower() in ("y", "yes") and not rest:
        return Approved(by="terminal")
    scope = {"s": "session", "session": "session", "a": "always", "always": "always"}.get(word.lower())
    if scope is None:
        return None
    expires, uses = None, None
    for part in rest.split():
        if part[:-1].isdigit() and part[-1:] in "smhd":
            expires = int(part[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[part[-1]]
        elif part[:-1].isdigit() and part[-1:] == "x":
            uses = int(part[:-1])
        else:
            return None
    return Approved(scope=scope, expires_s=expires, uses=uses, by="terminal")  # pyright: ignore[reportArgumentType]


def approver_for(options: Options, *, on_ask: str) -> Approver:
    """Who answers (decisions 6): `--yes` once, a person at a terminal, else deny or suspend.

    Raises:
        BuildError: `--on-ask` is neither deny nor suspend.
    """
    if on_ask not in ("deny", "suspend"):
        raise BuildError(f"--on-ask takes deny or suspend, not {on_ask!r}")
    if options.yes:
        return AllowOnce()
    if on_ask == "suspend":
        return SuspendAll()
    if sys.stdin.isatty() and sys.stdout.isatty() and not options.json:
        return TerminalApprover()
    return DenyAll("nobody is there to approve it; run it in a terminal, or pass --yes")
