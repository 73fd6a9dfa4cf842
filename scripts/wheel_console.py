"""The build's hook: puts the web console into the wheel and the source package, where node can build it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs scripts/console.sh; an installation for development builds the console with make."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See BuildHookInterface."""
        if version != "editable":
            subprocess.run(["sh", str(Path(self.root) / "scripts" / "console.sh")], check=True)
