"""`pegboard version`."""

from __future__ import annotations

import typer

from pegboard.version import VERSION


def version_command() -> None:
    """Print the version."""
    typer.echo(VERSION)
