"""Flags: the options that commands share, as typer reads them, and a command's end.

Annotations are evaluated as they stand; see main.
"""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

Workspace = Annotated[Path | None, typer.Option("--workspace", help="Folder to work in (default: here).")]
ModeOption = Annotated[str | None, typer.Option("--mode", help="read-only, ask, workspace or full.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="File with rules, in place of the config's.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Config file, in place of the user's.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Answer every question with yes, once. Lifts no deny.")
]
ModelName = Annotated[str | None, typer.Option("--model", "-m", help="openai:NAME, gguf:smollm2, local …")]
SessionKey = Annotated[str | None, typer.Option("--session", help="Go on in this session.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


def leave(status: int) -> NoReturn:
    """End the command with its exit status."""
    raise typer.Exit(status)
