"""`pegboard worker`: run sessions on the messages and schedules that wait for them."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import Annotated, Final, Literal

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    ConfigFile,
    ModelName,
    ModeOption,
    PolicyFile,
    ToolsFrom,
    Workspace,
    Yes,
    exit_with,
)
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.show import print_note
from pegboard.core.errors import ConfigError
from pegboard.runtime.engine.dbos import QueueLimits

DRAIN_S: Final = 10.0
"""Seconds that runs have to end when a worker is stopped."""


def worker_command(
    model: ModelName = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is left to do, instead of waiting.")
    ] = False,
    on_ask: Annotated[
        str,
        typer.Option(
            "--on-ask", metavar="WHAT", help="When a call needs approval: suspend the run, or deny."
        ),
    ] = "suspend",
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="Store to work on: sqlite:PATH or postgresql://…."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", metavar="NAME", help="local, or dbos: a queue for many workers on a PostgreSQL store."
        ),
    ] = "local",
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, help="Sessions that this worker runs at once.")
    ] = 8,
    most_together: Annotated[
        int | None,
        typer.Option(
            "--most-together", metavar="N", min=1, help="Sessions that all workers run at once (dbos)."
        ),
    ] = None,
    per_minute: Annotated[
        int | None,
        typer.Option(
            "--per-minute", metavar="N", min=1, help="Sessions that all workers begin in a minute (dbos)."
        ),
    ] = None,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
) -> None:
    """Run sessions on the messages that wait for them, fire schedules, and resume interrupted runs.

    It works until Ctrl+C; runs that go on then have ten seconds to end. Several workers may run at once; each session is run by one of them.
    """
    options = Options(
        workspace=workspace, mode=mode, policy=policy, config=config, store=store, yes=yes,
        tools_from=tools_from or (),
    )  # fmt: skip
    if engine not in ("local", "dbos"):
        raise ConfigError(f"no engine {engine!r}; write local or dbos")
    limits = QueueLimits(each=most, together=most_together, per_minute=per_minute)
    work = partial(_work, model=model, until_idle=until_idle, on_ask=on_ask, options=options)
    exit_with(options.run(partial(work, engine=engine, limits=limits)))


async def _work(
    app: App, *, model: str | None, until_idle: bool, on_ask: str, options: Options,
    engine: Literal["local", "dbos"], limits: QueueLimits,
) -> int:  # fmt: skip
    await app.store.connect()
    worker = app.worker(interaction_for(options, on_ask=on_ask), model=model, engine=engine, limits=limits)
    work = asyncio.ensure_future(worker.work(until_idle=until_idle))
    loop = asyncio.get_running_loop()

    def stop(asked: list[bool]) -> None:
        if asked:
            work.cancel()
            return
        asked.append(True)
        print_note(f"stopping; runs that go on have {DRAIN_S:g} s to end, Ctrl+C cuts them off")
        worker.stop()
        loop.call_later(DRAIN_S, work.cancel)

    asked: list[bool] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, asked)
    if not until_idle:
        print_note(f"working in {app.workspace}; press Ctrl+C to stop")
    try:
        await work
    except asyncio.CancelledError:
        print_note("stopped; a run that was cut off goes on with: pegboard runs resume ID")
    return 0
