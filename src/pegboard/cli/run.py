"""`pegboard run`: run an agent on a task and show its progress."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModelName,
    ModeOption,
    PolicyFile,
    SessionKey,
    Workspace,
    Yes,
    exit_with,
)
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.progress import EventPrinter
from pegboard.cli.show import escape_controls, paint, print_event, print_note
from pegboard.cli.status import LINE
from pegboard.core.call.call import new_id
from pegboard.core.errors import BuildError
from pegboard.core.events import Event, RunFinished
from pegboard.services.sessions import Conversation, model_line

EXIT = {"done": 0, "suspended": 4, "limit": 1, "failed": 1}


def run_command(
    task: Annotated[str, typer.Argument(help="The task for the agent.")],
    model: ModelName = None,
    on_ask: Annotated[str, typer.Option("--on-ask", help="If nobody can approve: deny or suspend.")] = "deny",
    session: SessionKey = None,
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, help="Maximum number of model turns.")
    ] = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Run an agent on a task: pegboard run "Summarise notes.txt" """

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, yes=yes, json=json)
    exit_with(run(task, model=model, on_ask=on_ask, session=session, turns=turns, options=options))


def run(
    task: str, *, model: str | None, on_ask: str, session: str | None, turns: int | None, options: Options
) -> int:
    """Carry out the command; the exit status."""
    if not task.strip():
        raise BuildError('the task is empty; say what to do, for example: pegboard run "Read notes.txt"')
    return options.run(
        partial(
            _run, task=task, model=model, on_ask=on_ask, session=session, turns=turns, options=options
        )
    )  # fmt: skip


async def _run(
    app: App,
    *,
    task: str,
    model: str | None,
    on_ask: str,
    session: str | None,
    turns: int | None,
    options: Options,
) -> int:
    interaction = interaction_for(options, on_ask=on_ask)
    key = session or new_id("run-session")
    async with app.sessions.open(key, interaction, model=model, turns=turns) as talk:
        if not options.json:
            print_warnings(app, talk)
            print_note(model_line(talk.model))
        with LINE.showing("waiting for the model"):
            finished = await watch(talk.send(task), event_printer(app, options))
    if not options.json:
        _print_end(finished)
    return EXIT[finished.status]


def print_warnings(app: App, talk: Conversation) -> None:
    """What a person should know before a run: settings that were ignored, and that no sandbox works here."""
    for line in app.config.ignored:
        print_note(f"note: {line}")
    if talk.executor.wiring.banner:
        print_note(f"note: {talk.executor.wiring.banner}")


def event_printer(
    app: App, options: Options, partial_line: Callable[[str], None] | None = None
) -> Callable[[Event], None]:
    """Prints a run's events, as JSON or for a person; nothing that it prints holds a secret."""
    redact = app.redactor.redact
    return (
        partial(print_event, redact=redact)
        if options.json
        else EventPrinter(partial_line, redact=redact).show
    )


async def watch(events: AsyncGenerator[Event], show: Callable[[Event], None]) -> RunFinished:
    """Show a run's events as they happen; the last one."""
    finished: RunFinished | None = None
    async with aclosing(events):
        async for event in events:
            show(event)
            if isinstance(event, RunFinished):
                finished = event
    assert finished is not None
    return finished


def _print_end(finished: RunFinished) -> None:
    usage = finished.usage
    if finished.error:
        print_note(paint(escape_controls(finished.error), "red", stream=sys.stderr))
    for pending in finished.pending:
        print_note(
            f"waiting for {pending.get('kind')} {pending.get('pending')}; answer with: pegboard approvals"
        )
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    print_note(
        paint(
            f"run {finished.run} {finished.status}: {usage.requests} model turns, "
            f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}",
            "dim",
            stream=sys.stderr,
        )
    )
