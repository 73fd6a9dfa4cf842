"""The `pegboard` command: options and help only; what a command does is imported when it runs.

Annotations are evaluated here as they stand: as texts (PEP 563) typer would compile each one twice at every start,
which was a quarter of the time of `pegboard --help`.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pegboard.cli.errors import RootGroup, complete_streams
from pegboard.cli.history_commands import COMMANDS
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

app = typer.Typer(
    name="pegboard",
    cls=RootGroup,
    help="Run AI agents' tool calls safely: preview, permit, sandbox, record and undo each one.",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        version_command()
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Run AI agents' tool calls safely: preview, permit, sandbox, record and undo each one."""


@app.command("call", context_settings={"ignore_unknown_options": False})
def call_command(
    tool: Annotated[str, typer.Argument(help="Name of the tool.")],
    values: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...")] = None,
    args: Annotated[
        str | None, typer.Option("--args", help="Arguments as JSON; - reads standard input.")
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what the call would do without running it.")
    ] = False,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Call one tool, e.g.: pegboard call read_file path=README.md"""
    from pegboard.cli.call import call
    from pegboard.cli.options import Options

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, yes=yes, json=json)
    exit_with(call(tool, values or [], args=args, preview=preview, options=options))


@app.command("run")
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
    from pegboard.cli.options import Options
    from pegboard.cli.run import run

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, yes=yes, json=json)
    exit_with(run(task, model=model, on_ask=on_ask, session=session, turns=turns, options=options))


@app.command("chat")
def chat_command(
    model: ModelName = None,
    session: SessionKey = None,
    last: Annotated[bool, typer.Option("--last", help="Continue the latest chat.")] = False,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Chat with an agent in the terminal."""
    from pegboard.cli.chat import chat
    from pegboard.cli.options import Options

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, yes=yes, json=json)
    exit_with(chat(model=model, session=session, last=last, options=options))


@app.command("tools")
def tools_command(
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", help="Show this tool and its parameters.")
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option("--dialect", help="Print the schemas in a provider's format, e.g. anthropic."),
    ] = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List the tools, or show one: pegboard tools edit_file"""
    from pegboard.cli.options import Options
    from pegboard.cli.tools import tools

    exit_with(tools(dialect, name=tool, options=Options(workspace=workspace, config=config, json=json)))


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


@app.command("trust")
def trust_command(
    file: Annotated[Path | None, typer.Argument(help="Default: the project's config file.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the file.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List trusted files.")] = False,
    workspace: Workspace = None,
    json: Json = False,
) -> None:
    """Trust a project's config file until it changes."""
    from pegboard.cli.options import Options
    from pegboard.cli.trust import trust

    exit_with(trust(file, remove=remove, show=show, options=Options(workspace=workspace, json=json)))


@app.command("policy", context_settings={"ignore_unknown_options": False})
def policy_command(
    action: Annotated[str, typer.Argument(help="explain, test, diff or lint.")],
    subject: Annotated[str | None, typer.Argument(metavar="TOOL|FILE")] = None,
    values: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...")] = None,
    args: Annotated[str | None, typer.Option("--args", help="Arguments as JSON.")] = None,
    since: Annotated[
        str, typer.Option("--since", help="For diff: period to compare, e.g. 7d, 12h or 30m.")
    ] = "7d",
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Explain a decision; test, compare or lint rules."""
    from pegboard.cli.options import Options
    from pegboard.cli.policy import policy as act

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, json=json)
    exit_with(act(action, subject, values or [], args=args, since=since, options=options))


@app.command(
    "sandbox",
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": ["-h", "--help"],
    },
)
def sandbox_command(
    context: typer.Context,
    action: Annotated[str, typer.Argument(help="run")],
    backend: Annotated[
        str | None, typer.Option("--backend", help="bubblewrap, docker, podman, none.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Allow connections to this host (repeatable).")
    ] = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
) -> None:
    """Run a command in the sandbox: pegboard sandbox run -- COMMAND …"""
    from pegboard.cli.options import Options
    from pegboard.cli.sandbox import sandbox

    options = Options(workspace=workspace, config=config)
    exit_with(sandbox(action, context.args, backend=backend, hosts=allow_host or [], options=options))


@app.command("doctor")
def doctor_command(workspace: Workspace = None, config: ConfigFile = None, json: Json = False) -> None:
    """Check the sandbox, programs, extras and models on this machine."""
    from pegboard.cli.doctor import doctor
    from pegboard.cli.options import Options

    exit_with(doctor(options=Options(workspace=workspace, config=config, json=json)))


@app.command("models")
def models_command(
    action: Annotated[str, typer.Argument(help="list, get, accept or forget.")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="[NAME|PORT]")] = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List models, download one, or allow a local model server."""
    from pegboard.cli.models import models
    from pegboard.cli.options import Options

    exit_with(models(action, name, options=Options(config=config, json=json)))


@app.command("check")
def check_command(
    target: Annotated[str, typer.Argument(metavar="TOOL|MODULE|SERVER")],
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed for the random arguments (printed by each check).")
    ] = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Test tools: schema, errors, timeouts, cancellation."""
    from pegboard.cli.check import check
    from pegboard.cli.options import Options

    options = Options(workspace=workspace, mode=mode, config=config, yes=yes, json=json)
    exit_with(check(target, seed=seed, options=options))


@app.command("version")
def version_command() -> None:
    """Print the version."""
    from pegboard import __version__

    typer.echo(__version__)


def _with_groups() -> None:
    """Hang in the commands that have commands of their own."""
    from pegboard.cli.mcp_commands import mcp

    app.add_typer(mcp, name="mcp")


_with_groups()


def main() -> None:
    """The console script; see boundary.Commands for the exit status."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # File names are bytes that people write in UTF-8 whatever the locale says (PEP 540).
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    complete_streams()
    app(prog_name="pegboard")  # However it was started: `python -m pegboard` is the same command.


if __name__ == "__main__":
    main()
