"""`pegboard approvals`: what suspended runs wait for, and answering it."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.approve import parse_answer
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import (
    escape_controls,
    paint,
    print_changes,
    print_json,
    print_line,
    print_note,
)
from pegboard.core.errors import BuildError
from pegboard.core.hosts import host_note
from pegboard.core.policy.approval import Approved, Refused
from pegboard.core.secrets.clip import clip
from pegboard.services.approvals import PendingCall


def approvals_command(
    action: Annotated[str, typer.Argument(help="list, approve, deny or answer.")] = "list",
    key: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="What waits: an ID, several as ID,ID, or a run's ID."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="Scope for approve (s, a, a 2h), reason for deny, or the answer."
        ),
    ] = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List and answer pending approvals and questions."""

    exit_with(approvals(action, key, text, options=Options(workspace=workspace, config=config, json=json)))


def approvals(action: str, key: str | None, text: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    answer: Approved | Refused | str
    match action:
        case "list":
            return options.run(partial(_list, options=options))
        case "approve" | "deny" | "answer" if not key:
            raise BuildError(f"approvals {action} needs an ID; see: pegboard approvals")
        case "approve":
            parsed = parse_answer(text or "y")
            if not isinstance(parsed, Approved):
                raise BuildError(f"{text!r} is not a scope; use y, s, a, or a 2h, a 5x")
            answer = parsed
        case "deny":
            answer = Refused(text or "", by="terminal")
        case "answer" if text:
            answer = text
        case _:
            raise BuildError(f"approvals {action!r}: use list, approve ID, deny ID [WHY], or answer ID TEXT")
    return options.run(partial(_answer, action=action, key=str(key), answer=answer, options=options))


async def _answer(
    app: App, *, action: str, key: str, answer: Approved | Refused | str, options: Options
) -> int:
    for one in key.split(","):
        of_run = await app.approvals.answer_run(one, answer)
        for call in of_run or [await app.approvals.answer(one, answer)]:
            if options.json:
                print_json({**call.to_dict(), "answer": action})
            elif call.session.startswith("mcp:waiting:"):
                print_note(f"{call.key} answered; this applies to the client's next such call, once")
            else:
                print_note(f"{call.key} answered; continue its run with: pegboard runs resume {call.run}")
    return 0


async def _list(app: App, *, options: Options) -> int:
    calls = await app.approvals.pending()
    if options.json:
        for call in calls:
            print_json(call.to_dict())
    elif not calls:
        print_line("nothing is waiting")
    else:
        for call in calls:
            _show(call)
        ways = ["approve ID", "deny ID [WHY]"] if any(not c.question for c in calls) else []
        ways += ["answer ID TEXT"] if any(c.question for c in calls) else []
        print_note(f"answer with: pegboard approvals {', '.join(ways)}; then: pegboard runs resume")
    return 0


def _show(call: PendingCall) -> None:
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(call.since))
    answered = f"  [{call.answer}]" if call.answer else ""
    print_line(paint(f"{call.key}  {call.tool}  run {call.run}  since {since}{answered}", "bold"))
    print_line(f"  task: {clip(escape_controls(call.task), 0, 200)}")
    if call.question:
        print_line(f"  question: {escape_controls(call.question)}")
    for effect in call.effects:
        note = host_note(effect.target)
        print_line(f"  {escape_controls(str(effect))}" + (f" ({escape_controls(note)})" if note else ""))
    if call.novel:
        print_line(f"  first use in this workspace: {escape_controls(', '.join(call.novel))}")
    print_changes(call.changes)
    if call.reason:
        print_line(f"  reason: {escape_controls(call.reason)}")
