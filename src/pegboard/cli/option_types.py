"""Flags: the options that commands share, as typer reads them, and a command's end.

Annotations are evaluated as they stand; see main.
"""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

Workspace = Annotated[
    Path | None, typer.Option("--workspace", help="Folder to work in (default: current folder).")
]
ModeOption = Annotated[str | None, typer.Option("--mode", help="read-only, plan, ask, workspace or full.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="Rules file to use instead of the config's rules.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Config file to use instead of your own.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Approve every request this time; deny rules still apply.")
]
ModelName = Annotated[str | None, typer.Option("--model", "-m", help="openai:NAME, gguf:smollm2, local …")]
SessionKey = Annotated[str | None, typer.Option("--session", help="Continue this session, or create it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def exit_with(status: int) -> NoReturn:
    """End the command with its exit status."""
    raise typer.Exit(status)
