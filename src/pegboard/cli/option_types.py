"""Flags: the options that commands share, as typer reads them, and a command's end.

Annotations are evaluated as they stand; see main.
"""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

Workspace = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="Folder to work in (default: current folder)."),
]
ModeOption = Annotated[
    str | None, typer.Option("--mode", metavar="MODE", help="read-only, plan, ask, workspace, auto or full.")
]
PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="Rules file to use instead of the config's rules."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Config file to use instead of your own.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Approve every request this time; deny rules still apply.")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="MODEL", help="gpt-5, claude-…, ollama:NAME, local, …; see: models"
    ),
]
SessionKey = Annotated[
    str | None, typer.Option("--session", metavar="NAME", help="Continue this session, or create it.")
]
ToolsFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--tools-from", metavar="FILE",
        help="Also offer the tools of FILE.py or a module (repeatable).",
    ),
]  # fmt: skip
Code = Annotated[
    bool, typer.Option("--code", help="Let the model call tools from programs it writes.")
]  # fmt: skip
Everywhere = Annotated[bool, typer.Option("--all", help="Include other workspaces.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def exit_with(status: int) -> NoReturn:
    """End the command with its exit status."""
    raise typer.Exit(status)


def tool_names(incomplete: str) -> list[str]:
    """The built-in tools that begin so, for the shell's completion."""
    from pegboard.tools import TOOLS

    return [name for name in TOOLS if name.startswith(incomplete)]
