"""GatewayControl: the gateway and its settings, for the agent that runs in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class GatewayControl(Protocol):
    """What an agent may do with the gateway. What changes something is for sessions of the owner alone."""

    def check(self, action: str) -> None:
        """Whether an action can be done from the call that is running.

        Raises:
            PermissionDenied: the call's session is not the owner's.
            Unavailable: it is turned off, or no gateway runs here.
        """
        ...

    async def status(self) -> Mapping[str, Any]:
        """Whether a gateway runs here, since when, its version, and what is wrong with the settings."""
        ...

    async def restart(self, reason: str) -> None:
        """Start the gateway again once its runs have ended; the session that asks is told when it is back.

        Raises:
            Unavailable: see `check`.
        """
        ...

    async def config_get(self, key: str = "") -> Mapping[str, Any]:
        """`{hash, file, values}` of one key or of all.

        Raises:
            ConfigError: there is no such key.
        """
        ...

    def config_schema(self) -> Mapping[str, Any]:
        """The keys that there are, as a JSON Schema."""
        ...

    async def config_patch(self, base: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Set keys, all or none, on top of the file with the hash `base`; since when they hold.

        Raises:
            Conflict: the file is another one by now.
            ConfigError, BuildError: see `SettingsFiles.patch`.
        """
        ...
