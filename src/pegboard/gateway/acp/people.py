"""The person at an editor: answers to approvals and questions, and unsaved text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.call.call import Invocation, Next, new_id
from pegboard.core.context import current_context
from pegboard.core.errors import Conflict
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused, Waiting
from pegboard.core.policy.policy import PROPOSE_PLAN
from pegboard.gateway.acp.connection import Connection, Json
from pegboard.gateway.acp.updates import Updates
from pegboard.mcp.wire import RpcError
from pegboard.ports.people import Question, waiting_for

_BY: Final = "editor"
_ONCE: Final = {"optionId": "once", "name": "Allow once", "kind": "allow_once"}
_DENY: Final = {"optionId": "deny", "name": "Deny", "kind": "reject_once"}
_LONGER: Final = (
    {"optionId": "run", "name": "Allow until the answer is finished", "kind": "allow_always"},
    {"optionId": "session", "name": "Allow in this session", "kind": "allow_always"},
    {"optionId": "always", "name": "Allow in this workspace for 30 days", "kind": "allow_always"},
)
_BUFFER_S: Final = 5.0
_MAX_BUFFER: Final = 1_000_000
"""Bytes of a file up to which the editor is asked for its unsaved text."""


class Editor:
    """Asks the person at an editor, in one session.

    Args:
        connection: leads to the editor.
        session: the session's key.
        updates: tells the editor what happens.
    """

    def __init__(self, connection: Connection, session: str, updates: Updates) -> None:
        self._connection = connection
        self._session = session
        self._updates = updates

    async def choose(self, call: Json, options: Sequence[Json]) -> str:
        """The id of the option that the person chose; empty where none was.

        Raises:
            RpcError: the editor cannot ask, or is gone.
        """
        answer = await self._connection.request(
            "session/request_permission",
            {"sessionId": self._session, "toolCall": call, "options": list(options)},
        )
        outcome: Any = answer.get("outcome")
        chosen = cast("Json", outcome) if isinstance(outcome, dict) else {}
        id = str(chosen.get("optionId")) if chosen.get("outcome") == "selected" else ""
        return id if id in {option["optionId"] for option in options} else ""

    async def decide(self, request: ApprovalRequest) -> Approved | Refused:
        """See Approver."""
        longer = () if request.tool == PROPOSE_PLAN else _LONGER
        try:
            chosen = await self.choose(await self._updates.waits(request), (_ONCE, *longer, _DENY))
        except RpcError as error:
            return Refused(f"the editor could not ask: {error.message}", by=_BY)
        match chosen:
            case "once" | "run" | "session" | "always":
                return Approved(scope=chosen, by=_BY)
            case "deny":
                return Refused(by=_BY)
            case _:
                return Refused("nobody answered", by=_BY)

    async def ask(self, questions: Sequence[Question]) -> list[str] | Waiting:
        """See People: a question is asked with its options; one without is answered in the next message."""
        out: list[str] = []
        for number, question in enumerate(questions):
            if not question.options or question.multi_select:
                return waiting_for(questions, new_id("q"))
            options = [
                {"optionId": str(n), "name": text, "kind": "allow_once"}
                for n, text in enumerate(question.options)
            ]
            options.append({"optionId": "other", "name": "Answer in the chat", "kind": "reject_once"})
            call = {
                "toolCallId": f"{current_context().call_id}-{number + 1}",
                "title": question.text,
                "kind": "think",
            }
            try:
                async with asyncio.timeout(question.timeout_s):
                    chosen = await self.choose(call, options)
            except (TimeoutError, RpcError):
                chosen = ""
            if not chosen.isdecimal():
                return waiting_for(questions, new_id("q"))
            out.append(question.options[int(chosen)])
        return out


class UnsavedText:
    """Keeps calls from files whose text in the editor is not saved.

    A middleware: what would be overwritten, or read as it was, is the person's own latest text.

    Args:
        connection: leads to the editor.
        session: the session's key.
        workspace: the folder that relative paths begin at.
    """

    def __init__(self, connection: Connection, session: str, workspace: Path) -> None:
        self._connection = connection
        self._session = session
        self._workspace = workspace

    async def __call__(self, invocation: Invocation, next: Next) -> Any:
        """Run the call, or refuse it.

        Raises:
            Conflict: it changes a file that has unsaved changes in the editor.
        """
        for change in invocation.plan.changes.changes:
            if change.before is not None and await self._differs(change.path, change.before):
                raise Conflict(
                    f"{change.path} has unsaved changes in the editor; nothing was changed",
                    hint="Ask the user to save or discard them, then read the file again.",
                    details={"path": change.path},
                )
        return await next()

    async def _differs(self, path: str, saved: bytes) -> bool:
        if len(saved) > _MAX_BUFFER:
            return False
        params = {"sessionId": self._session, "path": str(self._workspace / path)}
        try:
            async with asyncio.timeout(_BUFFER_S):
                answer = await self._connection.request("fs/read_text_file", params)
        except (TimeoutError, RpcError):
            return False  # It cannot tell; the file on disk is what counts.
        text = answer.get("content")
        try:
            return isinstance(text, str) and _lines(text) != _lines(saved.decode("utf-8-sig"))
        except UnicodeDecodeError:
            return False


def _lines(text: str) -> list[str]:
    """The lines of a text: how they end, and whether the last one does, is the editor's own affair."""
    return text.removeprefix("\ufeff").rstrip("\r\n").splitlines()
