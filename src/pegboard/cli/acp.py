"""`pegboard acp`: sessions for an editor, over standard input and output."""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import partial

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, ModelName, ModeOption, PolicyFile, ToolsFrom, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls


def acp_command(
    model: ModelName = None,
    mode: ModeOption = None,
    tools_from: ToolsFrom = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
) -> None:
    """Serve an editor that speaks the Agent Client Protocol. The editor starts this command itself."""
    from pegboard.process.stdio import claim_stdout

    options = Options(mode=mode, policy=policy, config=config, tools_from=tools_from or ())
    exit_with(options.run(partial(_serve, model=model, mode=mode, sink=claim_stdout())))


async def _serve(app: App, *, model: str | None, mode: str | None, sink: int) -> int:
    from pegboard.gateway.acp.agent import EditorAgent

    app.on_warning = _note
    if sys.stdin.isatty():
        _note("waiting for an editor; editors start this command themselves, see their settings")
    agent = EditorAgent(app, model=model, mode=mode, notify=_note)
    serving = asyncio.ensure_future(agent.serve(sink=sink))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        _note("stopped")
    return 0


def _note(text: str) -> None:
    # Standard output carries the protocol only.
    print(f"pegboard acp: {escape_controls(text)}", file=sys.stderr, flush=True)
