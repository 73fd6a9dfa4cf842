"""Approving on a terminal: the exact effects and diff, then yes, no, session or always."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from pegboard.cli.markdown import render
from pegboard.cli.options import UNITS, Options
from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, paint, print_changes, print_line
from pegboard.core.effects import THIS_COMMAND, Effect
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
from pegboard.core.policy.policy import PROPOSE_PLAN

HELP = (
    "[y] once  [r] this run  [s] this session  [a] 30 days (a 2h: 2 hours, a 5x: 5 uses)  [n] no (n: reason)"
)
EACH = "  [e] one by one"
WHOLE = "  [w] show the whole diff"
KEYS = "y yes · n no · t no, and why · r this run · s session · a always · ? explain"
"""What one key answers, where a key is read and not a line."""
PLAN_KEYS = "y yes · n no · t no, and why · ? explain"
PLAN_HELP = "[y] yes  [n] no (n: reason)"
KEY_EACH = " · e one by one"
KEY_WHOLE = " · w whole diff"
_DIGEST: Final = re.compile("(sha256:[0-9a-f]{12})[0-9a-f]{52}")

Read: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Reads one line after a prompt, None where the input has ended."""
Explain: TypeAlias = Callable[[ApprovalRequest], Awaitable[None]]
"""Prints which rules decided about a call, and why."""


class TerminalApprover:
    """Asks on the terminal; the questions of a turn are one list.

    Args:
        read: reads the answers.
    """

    def __init__(self, read: Read = read_line) -> None:
        self._one = asyncio.Lock()
        self._read = read

    async def decide(self, request: ApprovalRequest) -> Approved | Refused:
        """Show the request and read the answer."""
        return (await self.decide_all([request]))[0]

    async def decide_all(self, requests: Sequence[ApprovalRequest]) -> list[Approved | Refused]:
        """Show the requests as one list and read the answer to all, or to each."""
        async with self._one:
            return await read_answers(requests, self._read)


async def read_answers(
    requests: Sequence[ApprovalRequest], read: Read, *, keys: bool = False, explain: Explain | None = None
) -> list[Approved | Refused]:
    """Show what calls want to do: exact effects, diffs, why they ask; then read one answer to all, or to each.

    Args:
        requests: the calls.
        read: reads a line, or one key.
        keys: it reads keys.
        explain: answers a `?`.
    """
    several = len(requests) > 1
    if several:
        print_line(paint(f"\n{len(requests)} calls need your approval", "bold"))
    cut = [_show(r, f"{n}. {r.tool}" if several else r.tool) for n, r in enumerate(requests, 1)]
    one, each, whole = (KEYS, KEY_EACH, KEY_WHOLE) if keys else (HELP, EACH, WHOLE)
    if all(r.tool == PROPOSE_PLAN for r in requests):
        one = PLAN_KEYS if keys else PLAN_HELP
    ways = (f"for all {len(requests)}: {one}{each}" if several else one) + (whole if any(cut) else "")
    print_line(ways)
    while True:
        line = await read("allow? ")
        if line is None:
            return [Refused("no one answered")] * len(requests)
        word = line.strip().lower()
        if several and word in ("e", "each"):
            return [
                (await read_answers([request], read, keys=keys, explain=explain))[0] for request in requests
            ]
        answer = parse_answer(line)
        if answer is not None:
            return [answer] * len(requests)
        if word in ("w", "whole"):
            for request in requests:
                print_changes(request.changes, most_lines=None)
        if word in ("?", "explain") and explain is not None:
            for request in requests:
                await explain(request)
        print_line(ways)


def _show(request: ApprovalRequest, tool: str) -> bool:
    """Print a request; whether lines of its diff were left out."""
    if request.tool == PROPOSE_PLAN:
        _show_plan(request)
    else:
        print_line(paint(f"\n{tool} wants to:", "bold"))
    cut = _show_effects(request)
    if request.novel:
        print_line(paint(f"first use in this workspace: {_lines(', '.join(request.novel))}", "yellow"))
    print_line(f"reason: {_lines(request.reason)}")
    return cut


def _show_plan(request: ApprovalRequest) -> None:
    """The plan itself, above what it would allow."""
    arguments = request.call.arguments
    text = arguments.get("plan") if isinstance(arguments, Mapping) else None
    print_line(paint("\nThe plan:", "bold"))
    print_line(render(escape_controls(str(text or ""))))
    what = (
        "A yes allows exactly this; what goes beyond it asks:" if request.effects else "It changes nothing."
    )
    print_line(paint(f"\n{what}", "bold"))


def _show_effects(request: ApprovalRequest) -> bool:
    for effect in request.effects:
        mark = "?" if effect in request.asking else " "
        print_line(
            f" {mark} {_lines(str(effect))}"
            + (f"  ({escape_controls(why)})" if (why := effect.reason or host_note(effect.target)) else "")
        )
        if effect.bound:
            print_line(f"     {_bound(effect)}")
    return print_changes(request.changes)


def _bound(effect: Effect) -> str:
    """What a yes to an effect is bound to, with short digests."""
    if effect.bound.startswith(THIS_COMMAND):
        return "only as part of this command"
    verb = "runs" if effect.kind == "exec" else "at"
    short = _DIGEST.sub(r"\1…", effect.bound)
    return f"{verb} {escape_controls(short)}"


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
    return DenyAll(
        "no one is here to approve it; run it in a terminal, or pass --yes",
        person_reason="no one is here to approve it; run it in a terminal: only a person may approve it",
    )
