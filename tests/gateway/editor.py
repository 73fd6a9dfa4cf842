"""An editor for tests: the protocol's own client library, with answers to what it is asked."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
)

CHOOSES_NOTHING = ""


class Editor(Client):
    """Keeps what it is told, and answers permission requests with the options in `answers`, then with `once`.

    Attributes:
        updates: all session updates as JSON, in order.
        asked: all permission requests: the call, and the ids of its options.
        unsaved: the text of files that are open and not saved, by path.
    """

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[tuple[dict[str, Any], list[str]]] = []
        self.answers: list[str] = []
        self.unsaved: dict[str, str] = {}
        self.told = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.told.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> RequestPermissionResponse:
        call = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.asked.append((call, [o.option_id for o in options]))
        self.told.set()
        await self.hold.wait()
        chosen = self.answers.pop(0) if self.answers else "once"
        if chosen == CHOOSES_NOTHING:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> ReadTextFileResponse:
        if path in self.unsaved:
            return ReadTextFileResponse(content=self.unsaved[path])
        if not Path(path).exists():
            raise RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=Path(path).read_text())

    def on_connect(self, conn: Any) -> None:
        pass

    # -- looking --------------------------------------------------------------------------------

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The updates of a kind."""
        return [u for u in self.updates if u["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """What was said in chunks of a kind."""
        return "".join(u["content"]["text"] for u in self.of(kind))

    def call(self, id: str) -> dict[str, Any]:
        """A tool call as an editor has it after all updates: later fields win."""
        merged: dict[str, Any] = {}
        for one in self.updates:
            if one.get("toolCallId") == id:
                merged |= one
        return merged

    async def until(self, true: Callable[[], Any], what: str) -> None:
        """Return when something holds of what it was told."""
        try:
            async with asyncio.timeout(60):
                while not true():
                    self.told.clear()
                    await self.told.wait()
        except TimeoutError:
            raise AssertionError(f"not within a minute: {what}") from None


@asynccontextmanager
async def agent(
    editor: Editor, *words: str, reads: bool = True, cwd: Path | None = None
) -> AsyncGenerator[tuple[ClientSideConnection, Any]]:
    """`pegboard acp` as a process, initialized by the editor."""
    command = [sys.executable, "-m", "pegboard.cli.main", "acp", *words]
    async with spawn_agent_process(
        editor, *command, env=dict(os.environ), cwd=cwd, use_unstable_protocol=True,
        transport_kwargs={"stderr": None, "limit": 1 << 26},
    ) as (connection, process):  # fmt: skip
        await connection.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=FileSystemCapabilities(read_text_file=reads)),
            client_info=Implementation(name="test-editor", version="1"),
        )
        yield connection, process


def script(folder: Path, *turns: dict[str, Any]) -> str:
    """A model that says these turns."""
    file = folder / "turns.jsonl"
    file.write_text("\n".join(json.dumps(t) for t in turns))
    return f"scripted:{file}"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"id": f"{name}-1", "name": name, "arguments": arguments}]}


def says(text: str) -> list[Any]:
    return [text_block(text)]
