"""past_commands: the commands about what was done: history, undo, audit, approvals. Options and help only.

Annotations are evaluated as they stand; see main.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pegboard.cli.flags import ConfigFile, Json, ModelName, ModeOption, PolicyFile, Workspace, Yes, leave


def runs_command(
    action: Annotated[str, typer.Argument(help="list, show, resume, export or import.")] = "list",
    run: Annotated[str | None, typer.Argument(metavar="[ID]", help="A run; import: a file.")] = None,
    model: ModelName = None,
    pytest: Annotated[bool, typer.Option("--pytest", help="export: as a test case.")] = False,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """List, show, resume, export or import runs."""
    from pegboard.cli.options import Options
    from pegboard.cli.runs import runs

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, yes=yes, json=json)
    leave(runs(action, run, model=model, pytest=pytest, options=options))


def replay_command(
    run: Annotated[str, typer.Argument(metavar="ID")],
    live_model: Annotated[
        str | None, typer.Option("--live-model", help="Ask this model; tools give their recorded results.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="ID", help="Show what another run did differently.")
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Show what the code, tools and rules of now would do differently.")
    ] = False,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Run a recorded run again, without model and world."""
    from pegboard.cli.options import Options
    from pegboard.cli.replay import replay_run

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, json=json)
    leave(replay_run(run, live_model=live_model, against=against, options=options, now=now))


def undo_command(
    target: Annotated[str | None, typer.Argument(metavar="[RUN|CALL]")] = None,
    last: Annotated[bool, typer.Option("--last", help="The last call that changed files.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would change; touch nothing.")
    ] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Undo the undo.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List what can be undone.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Take back file changes of a call or run; later edits stay."""
    from pegboard.cli.options import Options
    from pegboard.cli.undo import history, undo

    options = Options(workspace=workspace, config=config, json=json)
    if show:
        leave(history(options=options))
    leave(undo(target, last=last, preview=preview, redo=redo, options=options))


def audit_command(
    action: Annotated[str, typer.Argument(help="verify, export or destinations.")],
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A signed export: written, or verified.")
    ] = None,
    workspace: Workspace = None,
    json: Json = False,
) -> None:
    """Verify the history, export it, or show what commands reached."""
    from pegboard.cli.audit import audit
    from pegboard.cli.options import Options

    leave(audit(action, session, file=file, options=Options(workspace=workspace, json=json)))


def store_command(
    action: Annotated[str, typer.Argument(help="show or purge.")] = "show",
    older: Annotated[str, typer.Option("--older", help="purge: what is older: 30d, 12h.")] = "30d",
    everything: Annotated[bool, typer.Option("--all", help="purge: however old.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="history, images or spills.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would go; drop nothing.")] = False,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show what is kept of past work, or drop it."""
    from pegboard.cli.options import Options
    from pegboard.cli.store import store

    options = Options(config=config, yes=yes, json=json)
    leave(
        store(action, older=older, everything=everything, only=only or [], preview=preview, options=options)
    )


def usage_command(
    since: Annotated[str, typer.Option("--since", help="7d, 12h, 30m.")] = "30d",
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Show tokens, money and time by model, day, session and tool."""
    from pegboard.cli.options import Options
    from pegboard.cli.usage import usage

    leave(usage(since, options=Options(workspace=workspace, config=config, json=json)))


def approvals_command(
    action: Annotated[str, typer.Argument(help="list, approve, deny or answer.")] = "list",
    key: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="A scope (s, a, a 2h), a reason or an answer.")
    ] = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List and answer what suspended runs wait for."""
    from pegboard.cli.approvals import approvals
    from pegboard.cli.options import Options

    leave(approvals(action, key, text, options=Options(workspace=workspace, config=config, json=json)))


def grants_command(
    action: Annotated[str, typer.Argument(help="list or revoke.")] = "list",
    grant: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    json: Json = False,
) -> None:
    """List the remembered approvals, or revoke one."""
    from pegboard.cli.grants import grants
    from pegboard.cli.options import Options

    leave(grants(action, grant, options=Options(json=json)))


COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "runs": runs_command,
    "replay": replay_command,
    "undo": undo_command,
    "audit": audit_command,
    "store": store_command,
    "usage": usage_command,
    "approvals": approvals_command,
    "grants": grants_command,
}
"""By their names, as help lists them."""
