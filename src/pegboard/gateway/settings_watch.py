"""SettingsWatch: settings files that are changed while the gateway runs hold for the runs that begin afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pegboard.app.app import App
from pegboard.config.load import NAMES
from pegboard.core.errors import PegboardError

LOOK_S: Final = 1.0
"""Seconds between two looks at the files."""


class SettingsWatch:
    """Reads the settings again when a file of theirs has changed. What cannot be read changes nothing.

    Args:
        app: whose settings they are.
        notify: is given each sentence that a person should know.

    Attributes:
        error: what is wrong with the files as they are now; empty while they hold.
        after_restart: keys that were changed and hold after a restart only.
    """

    def __init__(self, app: App, notify: Callable[[str], None]) -> None:
        self._app = app
        self._notify = notify
        self._reading = asyncio.Lock()
        self._seen = self._state()
        self.error = ""
        self.after_restart: tuple[str, ...] = ()

    async def watch(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.check()

    async def check(self) -> None:
        """Read the settings again if a file has changed since they were read."""
        async with self._reading:
            if (now := self._state()) == self._seen:
                return
            self._seen = now
            try:
                later = await self._app.reload()
            except (PegboardError, OSError) as error:
                self.error = str(error)
                self._notify(f"the changed settings do not hold, those before still do: {error}")
                return
            self.error = ""
            self.after_restart = tuple(dict.fromkeys((*self.after_restart, *later)))
            self._notify("the settings were read again; they hold for runs that begin from now on")
            if later:
                self._notify(f"after a restart only: {', '.join(later)}")

    async def applied(self) -> dict[str, Any]:
        """Since when a change that was just written holds: `{applies, error, after_restart}`."""
        await self.check()
        return {
            "applies": "not yet" if self.error else "now", "error": self.error,
            "after_restart": list(self.after_restart),
        }  # fmt: skip

    def _state(self) -> tuple[object, ...]:
        """What is different once a file is."""
        app = self._app
        named = [app.config_file] if app.config_file is not None else []
        folders = [app.paths.config, app.workspace]
        files = [
            *named,
            *(folder / name for folder in folders for name in NAMES),
            app.paths.state / "trust.json",
        ]
        return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> object:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
