"""The tools of a foreign server that our own server offers on."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from pegboard.core.errors import PegboardError
from pegboard.core.tool import Tool
from pegboard.mcp.client import MCPServer
from pegboard.mcp.naming import exposed_name

PATIENCE_S: Final = 5.0
"""Seconds that the other tools wait for a server's first list; then its tools are told of when they come."""

_WILD: Final = re.compile(r"[*?\[]")
_TOOL: Final = "x"


def could_name(pattern: str, server: MCPServer) -> bool:
    """Whether a pattern could fit a tool of a server that is not started, by how its tools are called."""
    if server.style == "raw":
        return True
    begins = exposed_name(server.name, _TOOL, server.style).removesuffix(_TOOL)
    plain = _WILD.split(pattern, maxsplit=1)[0]
    # A name that had to be changed ends in a digest, so a server's begin need not stand whole in it.
    return begins.startswith(plain) or plain.startswith(begins)


class Upstream:
    """A ToolSource: the named tools of one server, by the same rules as for our own agents.

    Args:
        server: whose; its pins and effects hold, so every call asks unless a policy allows it.
        patterns: shell patterns over the names by which its tools are called here.
        offers: told each tool when it is first offered.
        patience_s: see PATIENCE_S.

    Attributes:
        revision: grows whenever the list has changed.
    """

    def __init__(
        self,
        server: MCPServer,
        patterns: Sequence[str],
        *,
        offers: Callable[[Tool], None],
        timeout_s: float = PATIENCE_S,
    ) -> None:
        self._server = server
        self._patterns = tuple(patterns)
        self._offers = offers
        self._patience_s = timeout_s
        self._told: set[str] = set()
        self._starting: asyncio.Task[list[Tool]] | None = None

    @property
    def revision(self) -> int:
        """See the class."""
        return self._server.revision

    async def tools(self) -> list[Tool]:
        """Its named tools; none while it is still starting after the patience.

        Raises:
            Unavailable: it could not be started or listed.
        """
        starting = self._starting
        if starting is None:
            starting = self._starting = asyncio.create_task(self._server.tools())
            await asyncio.wait({starting}, timeout=self._patience_s)
        if not starting.done():
            return []
        self._starting = None
        found = [t for t in await starting if any(fnmatchcase(t.name, p) for p in self._patterns)]
        for tool in found:
            if tool.name not in self._told:
                self._told.add(tool.name)
                self._offers(tool)
        return found

    async def wait_ready(self, name: str) -> None:
        """Wait for a start under way that could bring this tool, at most as long as the server may take to start."""
        starting = self._starting
        named = could_name(name, self._server) and any(fnmatchcase(name, p) for p in self._patterns)
        if starting is not None and named:
            await asyncio.wait({starting})

    async def aclose(self) -> None:
        """End the server."""
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError, PegboardError):
                await starting
        await self._server.aclose()
