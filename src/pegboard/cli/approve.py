"""Approving on a terminal: the exact effects and diff, then yes, no, session or always."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pegboard.cli.options import UNITS, Options
from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, paint, print_changes, print_line
from pegboard.core.errors import BuildError
from pegboard.core.hosts import host_note
from pegboard.core.policy.approval import (
    AllowOnce,
    ApprovalRequest,
    Approved,
    Approver,
    DenyAll,
    Refused,
    SuspendAll,
)

HELP = (
    "[y] once  [r] this run  [s] this session  [a] 30 days (a 2h: 2 hours, a 5x: 5 uses)  [n] no (n: reason)"
)


WHOLE = "  [w] show the whole diff"


class TerminalApprover:
    """Asks on the terminal; the questions of a run that wait together are one list.

    Args:
        read: reads one line after a prompt, None where the input has ended.
    """

    def __init__(self, read: Callable[[str], Awaitable[str | None]] = read_line) -> None:
        self._one = asyncio.Lock()
        self._read = read
        self._waiting: list[ApprovalRequest] = []
        self._answered: dict[str, Approved | Refused] = {}

    async def decide(self, request: ApprovalRequest) -> Approved | Refused:
        """Show the request and read the answer."""
        self._waiting.append(request)
        try:
            async with self._one:
                if (given := self._answered.pop(request.id, None)) is not None:
                    return given
                return await self._ask(request)
        finally:
            self._waiting.remove(request)

    async def _ask(self, request: ApprovalRequest) -> Approved | Refused:
        # What waits in one run is one list; other runs are about something else.
        alike = [r for r in self._waiting if r is not request and r.run == request.run]
        cut = _show(request)
        for number, other in enumerate(alike, 1):
            print_line(paint(f"\nalso waiting, {number} of {len(alike)}: {other.tool} wants to:", "bold"))
            cut = _show_effects(other) or cut
            if other.novel:
                print_line(
                    paint(f"   first use in this workspace: {_lines(', '.join(other.novel))}", "yellow")
                )
            print_line(f"   reason: {_lines(other.reason)}")
        every = f"  [ya] once to all {len(alike) + 1}  [na] no to all" if alike else ""
        keys = HELP + every + (WHOLE if cut else "")
        print_line(keys)
        while True:
            line = await self._read("allow? ")
            if line is None:
                return Refused("no one answered")
            word, _, rest = line.strip().partition(" ")
            if alike and word.lower().rstrip(":") in ("ya", "na"):
                answer = (
                    Approved(by="terminal") if word.lower() == "ya" else Refused(rest.strip(), by="terminal")
                )
                self._answered.update({other.id: answer for other in alike})
                return answer
            answer = parse_answer(line)
            if answer is not None:
                return answer
            if wants_whole(line):
                for one in (request, *alike):
                    print_changes(one.changes, most_lines=None)
            print_line(keys)


def show_request(request: ApprovalRequest) -> str:
    """Print what a call wants to do: its exact effects, its diffs, why it asks, and the answers; the last line."""
    keys = HELP + (WHOLE if _show(request) else "")
    print_line(keys)
    return keys


def wants_whole(line: str) -> bool:
    """Whether a person asks for the lines of a diff that were left out."""
    return line.strip().lower() in ("w", "whole")


def _show(request: ApprovalRequest) -> bool:
    print_line(paint(f"\n{request.tool} wants to:", "bold"))
    cut = _show_effects(request)
    if request.novel:
        print_line(paint(f"first use in this workspace: {_lines(', '.join(request.novel))}", "yellow"))
    print_line(f"reason: {_lines(request.reason)}")
    return cut


def _show_effects(request: ApprovalRequest) -> bool:
    for effect in request.effects:
        mark = "?" if effect in request.asking else " "
        print_line(
            f" {mark} {_lines(str(effect))}"
            + (f"  ({escape_controls(why)})" if (why := effect.reason or host_note(effect.target)) else "")
        )
        if effect.bound:
            verb = "runs" if effect.kind == "exec" else "at"
            print_line(f"     {verb} {escape_controls(effect.bound)}")
    return print_changes(request.changes)


def _lines(text: str) -> str:
    """Text that is shown whole; further lines are set off, so that they cannot pass for ours."""
    return escape_controls(text).replace("\n", "\n     | ")


def parse_answer(line: str) -> Approved | Refused | None:
    """`y`, `r`, `s`, `a`, `a 2h`, `a 5x`, `n`, `n: not on Fridays`; None where it is none of these."""
    text = line.strip()
    word, _, rest = text.partition(" ")
    rest = rest.strip()
    if word.lower().rstrip(":") in ("n", "no", "d", "deny"):
        return Refused(rest, by="terminal")
    if word.lower() in ("y", "yes") and not rest:
        return Approved(by="terminal")
    scope = {
        "r": "run",
        "run": "run",
        "s": "session",
        "session": "session",
        "a": "always",
        "always": "always",
    }.get(word.lower())
    if scope is None:
        return None
    expires, uses = None, None
    for part in rest.split():
        if part[:-1].isdigit() and part[-1:] in UNITS:
            expires = int(part[:-1]) * UNITS[part[-1]]
        elif part[:-1].isdigit() and part[-1:] == "x":
            uses = int(part[:-1])
        else:
            return None
    return Approved(scope=scope, expires_s=expires, uses=uses, by="terminal")  # pyright: ignore[reportArgumentType]


def approver_for(options: Options, *, on_ask: str) -> Approver:
    """Who answers: `--yes` once, a person at a terminal, else deny or suspend.

    Raises:
        BuildError: `--on-ask` is neither deny nor suspend.
    """
    if on_ask not in ("deny", "suspend"):
        raise BuildError(f"--on-ask must be deny or suspend, not {on_ask!r}")
    if options.yes:
        return AllowOnce()
    if on_ask == "suspend":
        return SuspendAll()
    if options.attended:
        return TerminalApprover()
    return DenyAll("no one is here to approve it; run it in a terminal, or pass --yes")
