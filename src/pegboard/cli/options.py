"""Options: what is common to all commands, and opening the App by them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard.app.app import App
from pegboard.cli.show import print_note
from pegboard.core.errors import BuildError

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds by the letter behind a number, as `--since 7d` and `always 2h` write them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that commands share; see `pegboard call --help`."""

    workspace: Path | None = None
    mode: str | None = None
    policy: Path | None = None
    config: Path | None = None
    store: str | None = None
    yes: bool = False
    json: bool = False
    tools_from: Sequence[str] = ()
    code: bool = False

    @property
    def attended(self) -> bool:
        """Whether a person sits at the terminal and sees what is printed."""
        return sys.stdin.isatty() and sys.stdout.isatty() and not self.json

    def open(self) -> App:
        """The App by these options.

        Raises:
            ConfigError: a config file, mode, rule or workspace is wrong.
        """
        app = App.open(
            workspace=self.workspace, mode=self.mode, policy=self.policy, config=self.config, store=self.store,
            tools_from=self.tools_from, code=self.code,
        )  # fmt: skip
        app.on_warning = print_note
        return app

    def run(self, act: Callable[[App], Awaitable[int]]) -> int:
        """Open the App, carry a command out with it, and close it; the command's exit status."""

        async def opened() -> int:
            with self.open() as app:
                return await act(app)

        return asyncio.run(opened())


def seconds_of(since: str, *, option: str = "--since") -> float:
    """The seconds of a `--since` or the like.

    Raises:
        BuildError: it is no number with a unit behind it.
    """
    unit = UNITS.get(since[-1:])
    # Only the digits of ASCII: other scripts' digits pass isdigit and some of them are no number.
    if unit is None or not since[:-1].isdecimal() or not since.isascii():
        raise BuildError(f"{option} {since!r}: write a number and s, m, h or d, for example 7d")
    return float(since[:-1]) * unit
