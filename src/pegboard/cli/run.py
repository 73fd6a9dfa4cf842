"""`pegboard run`: run an agent on a task and show its progress."""

from __future__ import annotations

import json as json_lib
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModelName,
    ModeOption,
    PolicyFile,
    SessionKey,
    ToolsFrom,
    Workspace,
    Yes,
    exit_with,
)
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.progress import EventPrinter
from pegboard.cli.show import escape_controls, paint, print_event, print_note
from pegboard.cli.status import LINE
from pegboard.cli.stdin import read_all
from pegboard.core.call.call import new_id
from pegboard.core.errors import BuildError
from pegboard.core.events import CallFinished, Event, RunFinished
from pegboard.core.policy.taint import PIPED
from pegboard.runtime.until import UNTIL_FAILED
from pegboard.services.calls import REFUSALS
from pegboard.services.sessions import Conversation, model_line

DENIED = 3
NEVER_PASSED = 5
"""The command of `--until` did not pass."""
EXIT = {"done": 0, "suspended": 4, "limit": 1, "failed": 1}


def run_command(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="What to do; - reads it from standard input.")
    ] = None,
    model: ModelName = None,
    on_ask: Annotated[
        str, typer.Option("--on-ask", metavar="HOW", help="If nobody can approve: deny or suspend.")
    ] = "deny",
    session: SessionKey = None,
    turns: Annotated[
        int | None, typer.Option("--turns", metavar="N", min=1, help="Maximum number of model turns.")
    ] = None,
    until: Annotated[
        str,
        typer.Option("--until", metavar="COMMAND", help="Done only when this command passes: 'pytest -q'."),
    ] = "",
    output_schema: Annotated[
        Path | None,
        typer.Option("--output-schema", metavar="FILE", help="JSON Schema that the answer must fit."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer and errors only.")] = False,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Run an agent on a task: pegboard run "Summarise notes.txt" """

    options = Options(
        workspace=workspace,
        mode=mode,
        policy=policy,
        config=config,
        yes=yes,
        json=json,
        tools_from=tools_from or (),
    )
    output = None if output_schema is None else read_schema(output_schema)
    exit_with(
        run(
            task_of(task), model=model, on_ask=on_ask, session=session, turns=turns, until=until, output=output,
            quiet=quiet, options=options,
        )
    )  # fmt: skip


def run(
    task: str,
    *,
    model: str | None,
    on_ask: str,
    session: str | None,
    turns: int | None,
    until: str = "",
    output: dict[str, Any] | None = None,
    quiet: bool = False,
    options: Options,
) -> int:
    """Carry out the command; the exit status."""
    act = partial(
        _run, task=task, model=model, on_ask=on_ask, session=session, turns=turns, until=until, output=output,
        quiet=quiet, options=options,
    )  # fmt: skip
    return options.run(act)


def task_of(text: str | None) -> str:
    """The task with what is piped into the command behind it; all that is piped for `-` or no task.

    Raises:
        BuildError: the task is empty.
    """
    if text is None or text == "-":
        task = "" if text is None and sys.stdin.isatty() else read_all(wanted=True)
    else:
        task = text
        if text.strip() and not sys.stdin.isatty() and (piped := read_all(wanted=False)).strip():
            task = f"{text}{PIPED}{piped.rstrip()}\n</stdin>"
    if not task.strip():
        raise BuildError('the task is empty; say what to do, for example: pegboard run "Read notes.txt"')
    return task


def read_schema(file: Path) -> dict[str, Any]:
    """The JSON Schema in a file.

    Raises:
        BuildError: it is not a JSON object.
    """
    try:
        schema: object = json_lib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BuildError(f"--output-schema {file}: {error}") from None
    if not isinstance(schema, dict):
        raise BuildError(f"--output-schema {file}: expected a JSON object with a schema")
    return cast("dict[str, Any]", schema)


async def _run(
    app: App,
    *,
    task: str,
    model: str | None,
    on_ask: str,
    session: str | None,
    turns: int | None,
    until: str,
    output: dict[str, Any] | None,
    quiet: bool,
    options: Options,
) -> int:
    interaction = interaction_for(options, on_ask=on_ask)
    key = session or new_id("run-session")
    quiet = quiet and not options.json
    async with app.sessions.open(key, interaction, model=model, turns=turns, output=output) as talk:
        if not options.json and not quiet:
            print_warnings(app, talk)
            print_note(model_line(talk.model))
        with nullcontext() if quiet else LINE.showing("waiting for the model"):
            ended = await watch(talk.send(task, until=until), run_printer(app, options, quiet=quiet))
    if not options.json:
        _print_end(ended.finished, quiet=quiet)
    return ended.status


def print_warnings(app: App, talk: Conversation) -> None:
    """What a person should know before a run: settings that were ignored, and that no sandbox works here."""
    for line in app.config.ignored:
        print_note(f"note: {line}")
    if talk.instructions_files:
        print_note(escape_controls(f"project instructions: {', '.join(talk.instructions_files)}"))
    if talk.executor.wiring.banner:
        print_note(f"note: {talk.executor.wiring.banner}")


def run_printer(app: App, options: Options, *, quiet: bool = False) -> Callable[[Event], None]:
    """Prints a run's events, as JSON, or for a person with the answer alone on standard output; none holds a secret."""
    redact = app.redactor.redact
    if options.json:
        return partial(print_event, redact=redact)
    return EventPrinter(redact=redact, stream=sys.stderr, quiet=quiet).show


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended, and the exit status that says so to a script."""

    finished: RunFinished
    status: int


async def watch(events: AsyncGenerator[Event], show: Callable[[Event], None]) -> Ended:
    """Show a run's events as they happen; how it ended."""
    finished: RunFinished | None = None
    refused: list[bool] = []
    async with aclosing(events):
        async for event in events:
            show(event)
            if isinstance(event, CallFinished):
                error = event.result.error
                refused.append(error is not None and error.code in REFUSALS)
            elif isinstance(event, RunFinished):
                finished = event
    assert finished is not None
    denied = finished.status == "done" and bool(refused) and all(refused)
    if finished.error.startswith(UNTIL_FAILED):
        return Ended(finished=finished, status=NEVER_PASSED)
    return Ended(finished=finished, status=DENIED if denied else EXIT[finished.status])


def _print_end(finished: RunFinished, *, quiet: bool) -> None:
    usage = finished.usage
    if finished.error:
        print_note(paint(escape_controls(finished.error), "red", stream=sys.stderr))
    for pending in finished.pending:
        print_note(
            f"waiting for {pending.get('kind')} {pending.get('pending')}; answer with: pegboard approvals"
        )
    if quiet:
        return
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    print_note(
        paint(
            f"run {finished.run} {finished.status}: {usage.requests} model turns, "
            f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}",
            "dim",
            stream=sys.stderr,
        )
    )
