"""Lists: what a server lists, page by page and within bounds, as a catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from pegboard.core.errors import Unavailable
from pegboard.mcp.catalogue import ServerCatalogue, build_catalogue
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.inbound import ConnectionClosed, UnreadableAnswer
from pegboard.mcp.naming import Style
from pegboard.mcp.session import ProtocolSession
from pegboard.mcp.text_warnings import sanitise

MAX_PAGES: Final = 100
MAX_ROWS: Final = 10_000
MAX_CURSOR: Final = 65_536
Row = Mapping[str, Any]


async def list_catalogue(session: ProtocolSession, config: ServerConfig, style: Style) -> ServerCatalogue:
    """Everything that the server has.

    Raises:
        Unavailable: the list of tools cannot be had.
        ConnectionClosed: the connection did.
    """
    pages = _Pages(session, config.name)
    has = session.server_capabilities or types.ServerCapabilities()
    tools = await pages.read("tools/list", "tools") if has.tools is not None else []
    if session.discover_result is not None:
        tools = _with_valid_headers(session, tools, config.name, pages.said)
    resources: list[Row] = []
    prompts: list[Row] = []
    if has.resources is not None and config.resources:
        resources = await pages.read("resources/list", "resources", optional=True)
        resources += await pages.read("resources/templates/list", "resourceTemplates", optional=True)
    if has.prompts is not None and config.prompts:
        prompts = await pages.read("prompts/list", "prompts", optional=True)
    return build_catalogue(
        config.name, tools=tools, resources=resources, prompts=prompts, allow=config.allow, deny=config.deny,
        style=style, warnings=[*config.notes, *pages.said],
    )  # fmt: skip


class _Pages:
    """Reads lists; what went wrong on the way stands in `said`."""

    def __init__(self, session: ProtocolSession, server: str) -> None:
        self._session = session
        self._server = server
        self.said: list[str] = []

    async def read(self, method: str, key: str, *, optional: bool = False) -> list[Row]:
        """The rows of a list; an endless or broken one ends with a warning."""
        out: list[Row] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            try:
                raw = await self._session.ask(method, {} if cursor is None else {"cursor": cursor})
            except MCPError as error:
                self._failed(error, method, len(out), first=cursor is None, optional=optional)
                return out
            self._add(raw.get(key), out, method)
            following: Any = raw.get("nextCursor")
            if not isinstance(following, str) or not following:
                if following:
                    self.said.append(
                        f"{self._server}: {method} gives a cursor that is not text; stopped after {len(out)} entries"
                    )
                return out
            if len(out) >= MAX_ROWS or len(following) > MAX_CURSOR:
                what = (
                    f"over {MAX_CURSOR} characters as a cursor"
                    if len(out) < MAX_ROWS
                    else "ever more entries"
                )
                self.said.append(f"{self._server}: {method} gives {what}; stopped after {len(out)} entries")
                return out
            if following in seen:
                self.said.append(
                    f"{self._server}: {method} repeats a cursor; stopped after {len(out)} entries"
                )
                return out
            seen.add(following)
            cursor = following
        self.said.append(f"{self._server}: {method} does not end; stopped after {MAX_PAGES} pages")
        return out

    def _add(self, rows: Any, out: list[Row], method: str) -> None:
        found = cast("list[Any]", rows) if isinstance(rows, list) else []
        taken = [cast("Row", r) for r in found if isinstance(r, dict)]
        out += taken
        if not isinstance(rows, list):
            self.said.append(f"{self._server}: {method} was answered without a list")
        elif len(taken) < len(found):
            self.said.append(
                f"{self._server}: {method} holds {len(found) - len(taken)} entries that are no objects"
            )

    def _failed(self, error: MCPError, method: str, count: int, *, first: bool, optional: bool) -> None:
        if isinstance(error, ConnectionClosed):
            raise error
        if first and not optional:
            said = sanitise(error.message)[:500]
            if isinstance(error, UnreadableAnswer):
                raise Unavailable(
                    f"the answer of MCP server {self._server!r} to {method} cannot be read: it is {said}"
                )
            raise Unavailable(f"MCP server {self._server!r} refused {method}: {said}") from None
        if error.code != METHOD_NOT_FOUND or not first:
            self.said.append(
                f"{self._server}: {method} failed after {count} entries: {sanitise(error.message)[:200]}"
            )


def _with_valid_headers(
    session: ProtocolSession, tools: list[Row], server: str, said: list[str]
) -> list[Row]:
    """The tools whose header annotations are valid; the session learns them (2026-07-28, custom headers)."""
    from mcp.shared.inbound import find_invalid_x_mcp_header

    kept: list[Row] = []
    for tool in tools:
        why = find_invalid_x_mcp_header(tool.get("inputSchema"))
        if why is None:
            kept.append(tool)
        else:
            said.append(f"{server}: the tool {str(tool.get('name'))[:80]!r} is refused: {why}")
    session.learn(kept)
    return kept
