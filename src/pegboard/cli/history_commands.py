"""past_commands: the commands about what was done: history, undo, audit, approvals. Options and help only.

Annotations are evaluated as they stand; see main.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModelName,
    ModeOption,
    PolicyFile,
    Workspace,
    Yes,
    exit_with,
)


def runs_command(
    action: Annotated[str, typer.Argument(help="list, show, resume, export or import.")] = "list",
    run: Annotated[str | None, typer.Argument(metavar="[ID]", help="Run ID; for import, a file.")] = None,
    model: ModelName = None,
    pytest: Annotated[bool, typer.Option("--pytest", help="For export: write a pytest file.")] = False,
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
    exit_with(runs(action, run, model=model, pytest=pytest, options=options))


def replay_command(
    run: Annotated[str, typer.Argument(metavar="ID")],
    live_model: Annotated[
        str | None, typer.Option("--live-model", help="Ask this model; reuse the recorded tool results.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="ID", help="Compare with another run.")
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Show what would differ with the current code, tools and rules.")
    ] = False,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Replay a recorded run offline and report any difference."""
    from pegboard.cli.options import Options
    from pegboard.cli.replay import replay_run

    options = Options(workspace=workspace, mode=mode, policy=policy, config=config, json=json)
    exit_with(replay_run(run, live_model=live_model, against=against, options=options, now=now))


def undo_command(
    target: Annotated[str | None, typer.Argument(metavar="[RUN|CALL]")] = None,
    last: Annotated[bool, typer.Option("--last", help="Undo the last call that changed files.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would change without changing it.")
    ] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Restore what was undone.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List what can be undone.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Undo a call's or run's file changes, keeping later edits."""
    from pegboard.cli.options import Options
    from pegboard.cli.undo import history, undo

    options = Options(workspace=workspace, config=config, json=json)
    if show:
        exit_with(history(options=options))
    exit_with(undo(target, last=last, preview=preview, redo=redo, options=options))


def audit_command(
    action: Annotated[str, typer.Argument(help="verify, export or destinations.")],
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Signed export file to write or verify.")
    ] = None,
    workspace: Workspace = None,
    json: Json = False,
) -> None:
    """Verify or export the history; list hosts commands tried."""
    from pegboard.cli.audit import audit
    from pegboard.cli.options import Options

    exit_with(audit(action, session, file=file, options=Options(workspace=workspace, json=json)))


def store_command(
    action: Annotated[str, typer.Argument(help="show or purge.")] = "show",
    older: Annotated[
        str, typer.Option("--older", help="For purge: minimum age to delete, e.g. 30d or 12h.")
    ] = "30d",
    everything: Annotated[bool, typer.Option("--all", help="For purge: delete regardless of age.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="For purge: delete only history, images or spills (repeatable)."),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would be deleted without deleting it.")
    ] = False,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show how much past work is stored, or delete it."""
    from pegboard.cli.options import Options
    from pegboard.cli.store import store

    options = Options(config=config, yes=yes, json=json)
    exit_with(
        store(action, older=older, everything=everything, only=only or [], preview=preview, options=options)
    )


def usage_command(
    since: Annotated[str, typer.Option("--since", help="7d, 12h, 30m.")] = "30d",
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Show tokens, cost and time by model, day, session and tool."""
    from pegboard.cli.options import Options
    from pegboard.cli.usage import usage

    exit_with(usage(since, options=Options(workspace=workspace, config=config, json=json)))


def approvals_command(
    action: Annotated[str, typer.Argument(help="list, approve, deny or answer.")] = "list",
    key: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]", help="Scope for approve (s, a, a 2h), reason for deny, or the answer."
        ),
    ] = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List and answer pending approvals and questions."""
    from pegboard.cli.approvals import approvals
    from pegboard.cli.options import Options

    exit_with(approvals(action, key, text, options=Options(workspace=workspace, config=config, json=json)))


def grants_command(
    action: Annotated[str, typer.Argument(help="list or revoke.")] = "list",
    grant: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    json: Json = False,
) -> None:
    """List or revoke saved approvals."""
    from pegboard.cli.grants import grants
    from pegboard.cli.options import Options

    exit_with(grants(action, grant, options=Options(json=json)))


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
