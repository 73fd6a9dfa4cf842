"""`pegboard run`: run an agent on a task and show its progress."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from pegboard.app.agent import Agent
from pegboard.app.home import App
from pegboard.app.redacted import Redact
from pegboard.cli.approve import approver_for
from pegboard.cli.model_setup import agent_for, model_line
from pegboard.cli.options import Options
from pegboard.cli.people import people_for
from pegboard.cli.progress import EventPrinter
from pegboard.cli.show import escape_controls, note_of, paint, print_event, print_note
from pegboard.cli.status import LINE
from pegboard.core.call.call import new_id
from pegboard.core.errors import BuildError
from pegboard.core.events import RunFinished
from pegboard.store.logs import SessionLog

EXIT = {"done": 0, "suspended": 4, "limit": 1, "failed": 1}


def run(
    task: str, *, model: str | None, on_ask: str, session: str | None, turns: int | None, options: Options
) -> int:
    """Carry out the command; the exit status."""
    if not task.strip():
        raise BuildError('the task is empty; say what to do, for example: pegboard run "Read notes.txt"')
    with options.open() as app:
        return asyncio.run(_run(app, task, model, on_ask, session, turns, options))


async def _run(
    app: App,
    task: str,
    model: str | None,
    on_ask: str,
    session: str | None,
    turns: int | None,
    options: Options,
) -> int:
    approver = approver_for(options, on_ask=on_ask)
    key = session or new_id("run-session")
    async with app.executor(approver=approver, provide=people_for(options), session=key) as door:
        door.on_warning = note_of
        log = app.log(key)  # First of all: a run whose history cannot be kept does not start.
        agent = await agent_for(app, door, model=model, turns=turns, attended=options.attended)
        opened = agent.model()
        if not options.json:
            for line in app.config.ignored:
                print_note(f"note: {line}")
            if door.wiring.banner:
                print_note(f"note: {door.wiring.banner}")
            print_note(model_line(opened))
        if session is not None:
            agent.remember(session, app.events_for_resume(session))
        try:
            with app.lock_session(key):
                finished = await watch(agent, task, key, log, options, redact=app.redactor.redact)
        finally:
            log.close()
            await opened.aclose()
    return EXIT[finished.status]


async def watch(
    agent: Agent, task: str, session: str, log: SessionLog, options: Options, *, redact: Redact
) -> RunFinished:
    """Show a run's events as they happen and keep them; the last one."""
    show = partial(print_event, redact=redact) if options.json else EventPrinter(redact=redact).show
    finished: RunFinished | None = None
    with LINE.showing("waiting for the model"):
        async for event in agent.stream(task, session=session, recorder=log):
            show(event)
            if isinstance(event, RunFinished):
                finished = event
    assert finished is not None
    await log.flush()
    if not options.json:
        _print_end(finished)
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
