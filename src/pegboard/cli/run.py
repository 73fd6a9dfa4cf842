"""`pegboard run`: run an agent on a task and show its progress."""

from __future__ import annotations

import asyncio
import json as json_lib
import shlex
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    Code,
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
from pegboard.cli.show import escape_controls, paint, pluralise, print_event, print_note
from pegboard.cli.status import LINE
from pegboard.cli.stdin import read_all
from pegboard.core.call.call import new_id
from pegboard.core.errors import BuildError, PegboardError
from pegboard.core.events import CallFinished, Event, RunFinished
from pegboard.core.policy.taint import PIPED
from pegboard.runtime.until import UNTIL_FAILED
from pegboard.services.calls import REFUSALS
from pegboard.services.sessions import Conversation, model_line

DENIED = 3
NEVER_PASSED = 5
"""The command of `--until` did not pass."""
EXIT = {"done": 0, "suspended": 4, "limit": 1, "failed": 1, "cancelled": 1}


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
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Work in a git worktree and branch of the session's own.")
    ] = False,
    transaction: Annotated[
        bool,
        typer.Option(
            "--transaction", help="Work in a copy; changes land together at the end, if you approve."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer and errors only.")] = False,
    code: Code = False,
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
        code=code,
    )
    output = None if output_schema is None else read_schema(output_schema)
    exit_with(
        run(
            task_of(task), model=model, on_ask=on_ask, session=session, turns=turns, until=until, output=output,
            worktree=worktree, transaction=transaction, quiet=quiet, options=options,
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
    worktree: bool = False,
    transaction: bool = False,
    quiet: bool = False,
    options: Options,
) -> int:
    """Carry out the command; the exit status."""
    if worktree and transaction:
        raise BuildError(
            "use --worktree or --transaction: a worktree lands by git merge, a transaction by itself"
        )
    act = _in_worktree if worktree else _in_transaction if transaction else _run
    given = partial(
        act, task=task, model=model, on_ask=on_ask, session=session or new_id("run-session"),
        turns=turns, until=until, output=output, quiet=quiet, options=options,
    )  # fmt: skip

    async def status(app: App) -> int:
        done = await given(app)
        return done if isinstance(done, int) else done.status

    return options.run(status)


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


async def _in_worktree(app: App, *, session: str, **given: Any) -> int:
    async def act(there: App) -> int:
        return (await _run(there, session=session, **given)).status

    return await in_worktree(app, session, act, command="run")


async def in_worktree(app: App, session: str, act: Callable[[App], Awaitable[int]], *, command: str) -> int:
    """Carry out a command in the worktree of a session, and say what becomes of it; the exit status.

    Args:
        app: of the original workspace.
        session: its key.
        act: is given the App over the worktree.
        command: the one that goes on there: `run` or `chat`.
    """
    tree = await app.worktrees.open(session)
    print_note(f"worktree: {tree.root} (branch {tree.branch})")
    if tree.uncommitted:
        print_note(
            f"note: it begins at the last commit, without your {pluralise(tree.uncommitted, 'uncommitted file')}"
        )
    try:
        with app.at(tree.workspace, mode=app.policy.mode) as there:
            status = await act(there)
    except PegboardError:
        if tree.is_new:  # Else it may be in use by another run of the session.
            await app.worktrees.close(tree)
        raise
    if status == EXIT["suspended"]:
        print_note(
            f"it stays for the run; add to pegboard runs resume: --workspace {shlex.quote(str(tree.workspace))}"
        )
        return status
    if (changed := await app.worktrees.close(tree)) is None:
        print_note("nothing was changed in the worktree; it is removed")
        return status
    root, branch = shlex.quote(str(tree.root)), shlex.quote(tree.branch)
    print_note(escape_controls(f"changed in the worktree:\n{changed}"))
    print_note(f"  keep it:   git -C {root} commit -a; git merge {branch}")
    print_note(f"  go on:     pegboard {command} --worktree --session {shlex.quote(session)}")
    print_note(f"  remove it: git worktree remove --force {root} && git branch -D {branch}")
    return status


async def _in_transaction(app: App, *, session: str, options: Options, **given: Any) -> int:
    from pegboard.cli.transactions import land

    async with await app.transactions.open(session) as transaction:
        print_note(f"transaction {transaction.record.id}: a copy of {app.workspace} in {transaction.copy}")
        try:
            with app.staged(transaction.copy) as there:
                ended = await _run(there, session=session, options=options, **given)
        except PegboardError:
            if transaction.is_new and not await transaction.diff():
                await transaction.discard()
            raise
        except asyncio.CancelledError:
            print_note(f"nothing was changed in {app.workspace}; see: pegboard transactions")
            raise
        transaction.note_run(ended.finished.run)
        if ended.status == EXIT["suspended"]:
            copy, id = shlex.quote(str(transaction.copy)), transaction.record.id
            print_note(f"it stays for the run; add to pegboard runs resume: --workspace {copy}")
            print_note(f"  afterwards: pegboard transactions apply {id}")
            return ended.status
        status = await land(app, transaction, options=options, complete=ended.status == 0)
        return ended.status or status


async def _run(
    app: App,
    *,
    task: str,
    model: str | None,
    on_ask: str,
    session: str,
    turns: int | None,
    until: str,
    output: dict[str, Any] | None,
    quiet: bool,
    options: Options,
) -> Ended:
    interaction = interaction_for(options, on_ask=on_ask)
    quiet = quiet and not options.json
    async with app.sessions.open(session, interaction, model=model, turns=turns, output=output) as talk:
        if not options.json and not quiet:
            print_warnings(app, talk)
            print_note(model_line(talk.model))
        with nullcontext() if quiet else LINE.showing("waiting for the model"):
            ended = await watch(talk.send(task, until=until), run_printer(app, options, quiet=quiet))
    if not options.json:
        _print_end(ended.finished, quiet=quiet)
    return ended


def print_warnings(app: App, talk: Conversation) -> None:
    """What a person should know before a run: settings that were ignored, and that no sandbox works here."""
    for line in app.config.ignored:
        print_note(f"note: {line}")
    if talk.instructions_files:
        print_note(escape_controls(f"project instructions: {', '.join(talk.instructions_files)}"))
    if talk.executor.wiring.banner:
        print_note(f"note: {talk.executor.wiring.banner}")
    if talk.executor.policy.mode == "auto" or app.config.auto.model:
        try:
            second = talk.executor.wiring.judge().model
        except PegboardError as error:
            print_note(f"note: mode auto cannot ask its model, so it asks you: {error}")
        else:
            if second.name != talk.model.name:
                print_note(f"mode auto: {model_line(second)}")


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
