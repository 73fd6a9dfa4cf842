"""Updates: the events of a run as the protocol's session updates, without secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pegboard.core.effects import Change, Effect
from pegboard.core.errors import SuspendedCall
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    CallUpdate,
    Event,
    ModelReplied,
    Notice,
    PermissionJudged,
    TextPiece,
    ThinkingPiece,
    UserSaid,
)
from pegboard.core.policy.approval import ApprovalRequest
from pegboard.core.policy.taint import ATTACHED
from pegboard.core.transcript import Thinking
from pegboard.gateway.acp.calls import (
    content_of,
    diffs_of,
    fenced,
    kind_of,
    locations_of,
    text_content,
    title_of,
)
from pegboard.gateway.acp.connection import Json
from pegboard.gateway.pieces import PieceRedactor
from pegboard.ports.todos import Todo
from pegboard.runtime.todos import todos_in
from pegboard.services.redaction import Redact, shown_changes
from pegboard.store.encoding import without_secrets

_MAX_OUTPUT: Final = 4_000
"""Characters of a running command's output that an editor is shown: its end."""
_PLAN: Final = {"pending": "pending", "in_progress": "in_progress", "done": "completed"}


@dataclass(slots=True)
class _Call:
    """A call that the editor has been shown and that has no result yet."""

    kind: str
    diffs: tuple[str, ...] = ()
    content: tuple[Json, ...] = ()
    output: str = ""


class Updates:
    """Tells an editor what happens in a session.

    Args:
        send: takes one update.
        workspace: the folder that relative paths begin at.
        redact: takes secrets out of a text.
    """

    def __init__(self, send: Callable[[Json], Awaitable[None]], workspace: Path, redact: Redact) -> None:
        self._send_update = send
        self._workspace = workspace
        self._redact = redact
        self._text = PieceRedactor(redact)
        self._thought = PieceRedactor(redact)
        self._calls: dict[str, _Call] = {}
        self._open_task = ""

    async def send(self, update: str, **fields: Any) -> None:
        """One update; no text in it holds a secret."""
        await self._send_update(without_secrets({"sessionUpdate": update, **fields}, self._redact))

    async def say(self, text: str, *, kind: str = "agent_message_chunk") -> None:
        """A text in the conversation; nothing for an empty one."""
        if text:
            await self.send(kind, content={"type": "text", "text": text})

    async def plan(self, todos: Iterable[Todo]) -> None:
        """The list of steps."""
        entries = [{"content": t.text, "priority": "medium", "status": _PLAN[t.status]} for t in todos]
        await self.send("plan", entries=entries)

    async def show(self, event: Event) -> None:
        """What the editor shows of an event."""
        match event:
            case TextPiece(text):
                await self.say(self._text.feed(text))
            case ThinkingPiece(text):
                await self.say(self._thought.feed(text), kind="agent_thought_chunk")
            case ModelReplied(message):
                thought = "".join(b.text for b in message.content if isinstance(b, Thinking))
                if self._thought.sent or thought:
                    await self.say(self._thought.rest(thought), kind="agent_thought_chunk")
                await self.say(self._text.rest(message.text))
            case CallStarted(call_id=id, tool=tool):
                await self._begin(id, tool, event.effects, event.changes, event.arguments)
                if event.decision != "deny":
                    await self.send("tool_call_update", toolCallId=id, status="in_progress")
            case PermissionJudged():
                said = "allowed" if event.answer == "allow" else "a person decides"
                await self.say(f"[auto: {said} ({event.reason})]\n", kind="agent_thought_chunk")
            case CallUpdate(update={"output": str(text)}):
                await self._output(event.call_id, text)
            case CallFinished():
                await self._finish(event)
            case Notice() if not event.detail.get("policy"):
                await self.say(f"[{event.text}]\n", kind="agent_thought_chunk")
            case _:
                pass

    async def replay(self, events: Iterable[Event]) -> None:
        """A conversation from its record: what people said, then what `show` shows."""
        for event in events:
            if isinstance(event, UserSaid) and event.by == "user":
                await self.say(event.message.text.partition(ATTACHED)[0], kind="user_message_chunk")
            else:
                await self.show(event)
        await self.interrupt()

    async def waits(self, request: ApprovalRequest) -> Json:
        """Show a call that needs a yes; the same as the protocol's description of it."""
        id = request.call.id or request.id
        await self._begin(id, request.tool, request.effects, request.changes, request.call.params)
        reason = [f"Reason: {request.reason}"] if request.reason else []
        if request.novel:
            reason.insert(0, f"First use in this workspace: {', '.join(request.novel)}")
        content = [*self._calls[id].content, *map(text_content, reason)]
        return without_secrets(
            {"toolCallId": id, "status": "pending", **self._look(request), "content": content}, self._redact
        )

    async def interrupt(self) -> None:
        """Calls that have no result yet get none."""
        for id in list(self._calls):
            del self._calls[id]
            await self.send("tool_call_update", toolCallId=id, status="failed")

    # -- calls ----------------------------------------------------------------------------------

    def _look(self, request: ApprovalRequest) -> Json:
        arguments = request.call.params
        return {
            "title": title_of(request.tool, request.effects, arguments),
            "kind": kind_of(request.tool, request.effects),
            "rawInput": arguments,
        }

    async def _begin(
        self,
        id: str,
        tool: str,
        effects: tuple[Effect, ...],
        changes: tuple[Change, ...],
        arguments: Mapping[str, Any],
    ) -> None:
        if id in self._calls:
            return
        changes = shown_changes(changes, self._redact)
        content = tuple(diffs_of(self._workspace, changes))
        kind = kind_of(tool, effects)
        self._calls[id] = _Call(kind, tuple(c.diff for c in changes if c.diff), content)
        await self.send(
            "tool_call", toolCallId=id, title=title_of(tool, effects, arguments), kind=kind, status="pending",
            content=list(content), rawInput=dict(arguments),
            locations=locations_of(self._workspace, effects, changes, arguments),
        )  # fmt: skip

    async def _output(self, id: str, text: str) -> None:
        call = self._calls.get(id)
        if call is not None:
            call.output = f"{call.output}{text}"[-_MAX_OUTPUT:]
            content = [*call.content, text_content(fenced(call.output))]
            await self.send("tool_call_update", toolCallId=id, content=content)

    async def _finish(self, event: CallFinished) -> None:
        result = event.result
        waits = result.error is not None and result.error.code == SuspendedCall.default_code
        if result.call_id not in self._calls:
            # Refused before it was planned, such as a call of an unknown tool.
            await self._begin(result.call_id, result.tool or "call", (), (), {})
        call = self._calls.pop(result.call_id)
        status = "pending" if waits else "completed" if result.ok else "failed"
        await self.send(
            "tool_call_update", toolCallId=result.call_id, status=status,
            content=[*call.content, *content_of(result, call.kind, call.diffs)],
        )  # fmt: skip
        if result.tool == "todo" and result.ok:
            await self.plan(todos_in([event]))
