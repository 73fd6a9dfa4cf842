"""`pegboard serve`: the gateway of a workspace."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from functools import partial
from typing import Annotated, Final

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    ConfigFile,
    ModelName,
    ModeOption,
    PolicyFile,
    ToolsFrom,
    Workspace,
    exit_with,
)
from pegboard.cli.options import Options
from pegboard.cli.show import print_note
from pegboard.config.environment import environment
from pegboard.config.paths import check_implicit
from pegboard.core.errors import BuildError

_SHORTEST: Final = 16
"""Characters of a token that other machines can try."""


def serve_command(
    host: Annotated[str, typer.Option("--host", metavar="H", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8770,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME[:PORT]",
            help="Another name that clients reach the gateway by (repeatable).",
        ),
    ] = None,
    model: ModelName = None,
    store: Annotated[
        str | None, typer.Option("--store", help="Store to work on: sqlite:PATH or postgresql://….")
    ] = None,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
) -> None:  # fmt: skip
    """Serve this workspace over HTTP: runs, approvals, tools, schedules, and an OpenAI-compatible API.

    The token is PEGBOARD_TOKEN, or a new one that is printed. It works until Ctrl+C or SIGTERM.
    """
    options = Options(
        workspace=workspace, mode=mode, policy=policy, config=config, store=store, tools_from=tools_from or ()
    )
    again: list[str] = []
    act = partial(_serve, host=host, port=port, hosts=allow_host or [], model=model, again=again)
    status = options.run(act)
    if again:
        # The same command in the same process, with the token that clients have.
        variables = {**environment(), "PEGBOARD_TOKEN": again[0]}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], variables)
    exit_with(status)


async def _serve(
    app: App, *, host: str, port: int, hosts: list[str], model: str | None, again: list[str]
) -> int:
    from pegboard.gateway.server import Gateway
    from pegboard.net.destinations import is_loopback

    given = environment().get("PEGBOARD_TOKEN", "")
    if not is_loopback(host) and len(given) < _SHORTEST:
        raise BuildError(
            f"other machines reach {host}, so PEGBOARD_TOKEN must be set to at least {_SHORTEST} characters; "
            "or listen on 127.0.0.1"
        )
    if app.named_workspace is None:
        check_implicit(app.workspace, app.paths)
    token = given or secrets.token_urlsafe(32)

    gateway = Gateway(app, print_note, model=model)

    def on_start(port: int) -> None:
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        print_note(f"serving {app.workspace} at {address}; press Ctrl+C to stop")
        if not given:
            print_note(f"token (send it as Authorization: Bearer): {token}")
        if not gateway.console.built:
            print_note(
                "the web console is not in this installation; the API works, and make console builds it"
            )
        elif given:
            print_note(f"console: {address}/")
        else:
            # What follows # stays in the browser; the page takes it out of the address.
            print_note(f"console: {address}/#token={token}")

    serving = asyncio.ensure_future(
        gateway.serve(host=host, port=port, tokens={"owner": token}, hosts=hosts, on_start=on_start)
    )
    loop = asyncio.get_running_loop()

    def stop(number: int, frame: object) -> None:
        # Not add_signal_handler: a pipe tells it of signals, which is full while hundreds of clients listen.
        loop.call_soon_threadsafe(serving.cancel)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if await serving:
            print_note("starting again")
            again.append(token)
    except asyncio.CancelledError:
        print_note("stopped")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0
