"""`pegboard serve`: the gateway of a workspace."""

from __future__ import annotations

import asyncio
import secrets
import signal
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
    act = partial(_serve, host=host, port=port, hosts=allow_host or [], model=model)
    exit_with(options.run(act))


async def _serve(app: App, *, host: str, port: int, hosts: list[str], model: str | None) -> int:
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

    def on_start(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        print_note(f"serving {app.workspace} at http://{shown}:{port}; press Ctrl+C to stop")
        if not given:
            print_note(f"token (send it as Authorization: Bearer): {token}")

    gateway = Gateway(app, print_note, model=model)
    serving = asyncio.ensure_future(
        gateway.serve(host=host, port=port, tokens={"owner": token}, hosts=hosts, on_start=on_start)
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        print_note("stopped")
    return 0
