"""`pegboard sandbox run`: a command of your own, confined as an agent's would be."""

from __future__ import annotations

import asyncio
import shlex
import sys
from dataclasses import replace

from pegboard.app.home import App
from pegboard.app.shell import choose_backend
from pegboard.cli.options import Options
from pegboard.cli.show import print_note
from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import check_implicit
from pegboard.core.errors import BuildError, ConfigError
from pegboard.ports.shell import ExecRequest
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.selection import BACKENDS

_MOST_OUTPUT_BYTES = 100_000_000


def sandbox(
    action: str, command: list[str], *, backend: str | None, hosts: list[str], options: Options
) -> int:
    """Carry out the command; its own exit status."""
    if action != "run" or not "".join(command).strip():
        raise BuildError("use: pegboard sandbox run [--backend B] [--allow-host H] -- COMMAND …")
    with options.open() as app:
        if options.workspace is None:
            check_implicit(app.workspace, app.paths)
        if backend is not None and backend not in BACKENDS:
            raise ConfigError(f"there is no sandbox backend {backend!r}; there are: {', '.join(BACKENDS)}")
        return asyncio.run(_run(app, command, backend, hosts))


async def _run(app: App, command: list[str], backend: str | None, hosts: list[str]) -> int:
    # A person who asks for a sandbox wants one: without --backend none, never run bare.
    config = replace(app.config, require_sandbox=backend != "none")
    choice = choose_backend(app.policy, app.workspace, app.paths, config, backend=backend)
    shell = CommandShell(
        app.workspace, backend=choice.backend, environment=this_environment(),
        egress_allow=config.network.allow_hosts, egress_cidrs=config.network.allow_cidrs,
    )  # fmt: skip
    text = command[0] if len(command) == 1 else shlex.join(command)
    stdin = None if sys.stdin.isatty() else await asyncio.to_thread(sys.stdin.buffer.read)
    done = await shell.run(
        ExecRequest(
            command=text, timeout_s=0.0, hosts=tuple(hosts), stdin=stdin or None,
            max_output_bytes=_MOST_OUTPUT_BYTES,
        )
    )  # fmt: skip
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    for line in done.notes:
        print_note(f"pegboard: {line}")
    return done.exit_code
