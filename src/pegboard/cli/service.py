"""`pegboard service`: the gateway or a worker as a service of the user's systemd."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, table
from pegboard.config.environment import environment
from pegboard.config.paths import check_implicit
from pegboard.core.errors import BuildError
from pegboard.services.system_service import Kind, ServiceUnit, SystemService

_ACTIONS = "install, status, logs or remove"


def service_command(
    context: typer.Context,
    action: Annotated[str, typer.Argument(metavar="ACTION", help=f"{_ACTIONS}.")],
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="WHICH", help="To install: serve (default) or worker, and its options. Else a service's name."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the service; default: serve or worker.")
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the unit file and change nothing.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=1, help="Lines of the log.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines of the log.")] = False,
    workspace: Workspace = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Run the gateway or a worker as a service: pegboard service install serve --port 8770"""
    options = Options(workspace=workspace, json=json)
    match action:
        case "install":
            kind = which or "serve"
            _check_words(kind, context.args)
            act = partial(
                _install, kind=cast(Kind, kind), words=context.args, name=name or kind, only_print=only_print
            )
        case "status" if not context.args:
            act = partial(_status, options=options)
        case "logs" if not context.args:
            exit_with(_logs(options, name=name or which or "serve", lines=lines, follow=follow))
        case "remove" if not context.args:
            act = partial(_remove, name=name or which or "serve")
        case _:
            words = f" {' '.join(context.args)}" if context.args else ""
            raise BuildError(f"service takes {_ACTIONS}, got {action}{words}; see: pegboard help service")
    exit_with(options.run(act))


def _check_words(kind: str, words: list[str]) -> None:
    """Refuse what the installed command would refuse each time that it starts."""
    from typer.main import get_command

    from pegboard.cli.main import app

    if kind not in ("serve", "worker"):
        raise BuildError(f"a service is serve or worker, not {kind!r}")
    if "--workspace" in words:
        raise BuildError(
            "write --workspace before serve or worker: pegboard service --workspace DIR install …"
        )
    cast("Any", get_command(app)).commands[kind].make_context(f"pegboard {kind}", list(words))


async def _install(app: App, *, kind: Kind, words: list[str], name: str, only_print: bool) -> int:
    if app.named_workspace is None:
        check_implicit(app.workspace, app.paths)
    service = SystemService(app.paths, environment())
    program = [str(Path(sys.executable).absolute()), "-m", "pegboard", kind]
    unit = ServiceUnit(
        name=name, kind=kind, workspace=app.workspace, env_file=service.env_file(name),
        argv=[*program, "--workspace", str(app.workspace), *words],
    )  # fmt: skip
    if only_print:
        print_line(unit.text().removesuffix("\n"))
        return 0
    if why := await service.missing():
        print_line(unit.text().removesuffix("\n"))
        print_note(f"not installed: {escape_controls(why)}")
        print_note(f"where systemd runs, this unit goes to {service.unit_file(unit)}")
        return 1
    done = await service.install(unit)
    print_line(f"{done.unit} runs; unit {done.file}")
    kept = (
        "holds its token; add the keys of models to it" if kind == "serve" else "can hold the keys of models"
    )
    print_line(f"{done.env_file} {kept}" if done.made_env_file else f"its secrets: {done.env_file}")
    if done.lingers is not True:
        print_note("it ends when you log out; to keep it running: loginctl enable-linger")
    return 0


async def _status(app: App, *, options: Options) -> int:
    rows = await SystemService(app.paths, environment()).status()
    if options.json:
        print_json([row.to_dict() for row in rows])
    elif rows:
        shown = [(r.name, r.state, r.enabled, str(r.pid or ""), r.since) for r in rows]
        table(shown, head=("service", "state", "at login", "pid", "since"))
    else:
        print_line("no service is installed; see: pegboard service install --help")
    return 0 if all(row.state.startswith("active") for row in rows) else 1


def _logs(options: Options, *, name: str, lines: int, follow: bool) -> int:
    with options.open() as app:
        argv = SystemService(app.paths, environment()).logs_command(name, lines=lines, follow=follow)
    try:
        return subprocess.run(argv, check=False).returncode
    except FileNotFoundError:
        raise BuildError("there is no journalctl on PATH, so there is no log of services here") from None
    except KeyboardInterrupt:
        return 0


async def _remove(app: App, *, name: str) -> int:
    kept = await SystemService(app.paths, environment()).remove(name)
    print_line(f"removed pegboard-{name}.service")
    if kept.exists():
        print_note(f"{kept} is kept; delete it if you do not need its secrets any more")
    return 0
