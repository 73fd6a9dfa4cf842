"""Options: what is common to all commands, and opening the App by them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pegboard.app.home import App
from pegboard.cli.show import note


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that commands share; see `pegboard call --help`."""

    workspace: Path | None = None
    mode: str | None = None
    policy: Path | None = None
    config: Path | None = None
    yes: bool = False
    json: bool = False

    def open(self) -> App:
        """The App by these options.

        Raises:
            ConfigError: a config file, mode, rule or workspace is wrong.
        """
        app = App.open(workspace=self.workspace, mode=self.mode, policy=self.policy, config=self.config)
        app.tell = note
        return app
