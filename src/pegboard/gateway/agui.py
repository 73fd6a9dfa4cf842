"""AG-UI 1.0 (https://docs.ag-ui.com/spec/1.0): a run's events for front ends that speak it, and their input."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, cast

from sse_starlette import ServerSentEvent
from starlette.requests import Request

from pegboard.app.app import App
from pegboard.core.errors import InvalidArguments
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Notice,
    PermissionJudged,
    PermissionRequested,
    RunFinished,
    TextPiece,
    ThinkingPiece,
)
from pegboard.core.policy.approval import Approved, Refused
from pegboard.core.policy.taint import UNTRUSTED
from pegboard.core.session_key import check_session_key
from pegboard.gateway.access import caller, check_answer
from pegboard.gateway.bodies import AguiInput, AguiMessage, ChatMessage, ResumeEntry, read_body
from pegboard.gateway.chat_completions import task_of
from pegboard.gateway.live import LiveRuns, Place
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.pieces import PieceRedactor
from pegboard.gateway.views import shown, shown_event
from pegboard.net.asgi.sse import EventResponse, event_text
from pegboard.runtime.turns import ASKED_AGAIN
from pegboard.services.approvals import PendingCall
from pegboard.services.principals import Principal
from pegboard.services.sessions import element, with_attached
from pegboard.store.answers import Answer
from pegboard.store.runs import RunRow

VERSION: Final = "1.0"
_SPOKEN: Final = ("developer", "system", "assistant", "user", "tool")
_YES_OR_NO: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "scope": {"type": "string"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


class Agui:
    """The endpoint `/agui`. A thread is the session of the same key; each input is a run in it, or resumes the one that
    waits.

    Args:
        app: whose agent it is.
        live: starts and follows the runs.
    """

    def __init__(self, app: App, live: LiveRuns) -> None:
        self._app = app
        self._live = live

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of it."""
        return [
            Endpoint(method="POST", path="/agui", handler=self.run, body=AguiInput, media="text/event-stream")
        ]

    async def run(self, request: Request) -> Any:
        """Run an agent for an AG-UI front end: its RunAgentInput in, its events out (SSE)."""
        body, by = await read_body(request, AguiInput), caller(request)
        check_session_key(body.thread_id)
        # A thread of a principal is a session of its own, and is called so from here on.
        body = body.model_copy(update={"thread_id": by.session(body.thread_id)})
        if (wrong := await self._unanswered(body)) is not None:
            return EventResponse(_once({"type": "RUN_ERROR", "message": wrong, "code": "interrupted"}))
        if body.resume:
            row, after = await self._resume(body, by)
        else:
            task, labels = _task(body, known=await self._knows(body.thread_id))
            run, _ = await self._live.start(task, session=body.thread_id, labels=labels, by=by)
            row, after = await self._app.runs.get(run), (0, 0)
        return EventResponse(self._events(row, after, body), headers={"X-Pegboard-Run": row.id})

    async def _knows(self, session: str) -> bool:
        return bool(await self._app.runs.list(session=session, everywhere=True, limit=1))

    # -- interrupts ---------------------------------------------------------------------------------

    async def _waiting(self, session: str) -> list[PendingCall]:
        return [call for call in await self._app.approvals.pending() if call.session == session]

    async def _unanswered(self, body: AguiInput) -> str | None:
        """Why the thread cannot go on: what it waits for has to be answered, all of it."""
        open_keys = {call.key for call in await self._waiting(body.thread_id) if not call.answer}
        given = {entry.interrupt_id for entry in body.resume or ()}
        if given - open_keys:
            return f"nothing waits under {', '.join(sorted(given - open_keys))}"
        if open_keys - given:
            return f"answer in resume what the thread waits for: {', '.join(sorted(open_keys - given))}"
        return None

    async def _resume(self, body: AguiInput, by: Principal) -> tuple[RunRow, Place]:
        """Answer what waits; its run, which a worker takes further, and the place behind what it has done so far."""
        calls = {call.key: call for call in await self._waiting(body.thread_id)}
        answers = {e.interrupt_id: _answer(e, calls[e.interrupt_id], by.name) for e in body.resume or ()}
        for key, answer in answers.items():
            check_answer(by, calls[key].kind, answer)
        row = await self._app.runs.get(next(calls[key].run for key in answers))
        done = len(await self._app.history.events(row.stream, run=row.id))
        for key, answer in answers.items():
            await self._app.approvals.answer(key, answer)
        return row, (done, 0)

    async def _interrupts(self, event: RunFinished, session: str) -> list[dict[str, Any]]:
        waiting = {call.key: call for call in await self._waiting(session)}
        out: list[dict[str, Any]] = []
        for one in event.pending:
            key = str(one.get("pending"))
            row: dict[str, Any] = {"id": key, "toolCallId": str(one.get("call_id"))}
            if one.get("kind") == "approval":
                row |= {"reason": "tool_call", "responseSchema": _YES_OR_NO}
            else:
                row |= {"reason": "input_required", "responseSchema": {"type": "string"}}
            if (call := waiting.get(key)) is not None:
                row["message"] = call.question or f"{call.tool}: {call.reason}"
                row["metadata"] = {"pegboard": call.to_dict()}
            out.append(shown(self._app, row))
        return out

    # -- events -------------------------------------------------------------------------------------

    async def _events(self, row: RunRow, after: Place, body: AguiInput) -> AsyncIterator[ServerSentEvent]:
        names = {"threadId": body.thread_id, "runId": body.run_id}
        yield _sent({"type": "RUN_STARTED", **names, "protocolVersion": VERSION})
        messages = _Messages(self._app, row.id)
        async for _, event in self._live.follow(row, after):
            for one in messages.events(event):
                yield _sent(one)
            if isinstance(event, RunFinished):
                yield _sent(await self._end(event, names, row.stream))
                return
        yield _sent({"type": "RUN_ERROR", "message": "the gateway is being stopped", "code": "unavailable"})

    async def _end(self, event: RunFinished, names: dict[str, str], session: str) -> dict[str, Any]:
        used = event.usage
        usage = [{"inputTokens": used.input_tokens, "outputTokens": used.output_tokens}]
        finished: dict[str, Any] = {"type": "RUN_FINISHED", **names, "usage": usage}
        match event.status:
            case "failed":
                message = self._app.redactor.redact(event.error)[0]
                return {"type": "RUN_ERROR", "message": message, "code": "failed", "usage": usage}
            case "suspended":
                waits = await self._interrupts(event, session)
                return {**finished, "outcome": {"type": "interrupt", "interrupts": waits}}
            case "cancelled":
                return {**finished, "outcome": {"type": "cancelled"}}
            case _:
                result = shown(self._app, {"run": event.run, "status": event.status, "output": event.output})
                return {**finished, "outcome": {"type": "success"}, "result": result}


class _Messages:
    """The messages and calls of a run as AG-UI's events, each opened before it continues and closed before the next.

    Args:
        app: whose secrets are taken out.
        run: the beginning of the messages' ids.
    """

    def __init__(self, app: App, run: str) -> None:
        self._app = app
        self._run = run
        self._count = 0
        self._open = ""
        """The type of the message that is open: TEXT, REASONING or none."""
        self._id = ""
        self._pieces = PieceRedactor(app.redactor.redact)

    def events(self, event: Event) -> Iterator[dict[str, Any]]:
        """What an event of the run becomes."""
        match event:
            case ThinkingPiece(text):
                yield from self._piece("REASONING", text)
            case TextPiece(text):
                yield from self._piece("TEXT", text)
            case ModelReplied():
                yield from self._reply(event)
            case CallStarted():
                yield self._custom("pegboard.call", event, "call_id", "tool", "decision", "rule", "effects")
            case PermissionRequested():
                yield self._custom("pegboard.approval", event, "approval", "call_id", "tool", "reason")
            case PermissionJudged():
                yield self._custom(
                    "pegboard.judged", event, "approval", "call_id", "tool", "answer", "reason"
                )
            case CallFinished(result) if result.error is None or result.error.code != "suspended":
                yield {
                    "type": "TOOL_CALL_RESULT", "messageId": self._next(), "toolCallId": result.call_id, "role": "tool",
                    "content": self._text(result.text),
                }  # fmt: skip
            case Notice(detail=detail) if ASKED_AGAIN in detail:
                yield from self._close()  # What it said so far is void, and comes again.
            case _:
                pass

    def _piece(self, kind: str, text: str) -> Iterator[dict[str, Any]]:
        if self._open not in ("", kind):
            yield from self._close()
        if delta := self._pieces.feed(text):
            yield from self._delta(kind, delta)

    def _delta(self, kind: str, delta: str) -> Iterator[dict[str, Any]]:
        name = "TEXT_MESSAGE" if kind == "TEXT" else "REASONING_MESSAGE"
        if not self._open:
            self._open, self._id = kind, self._next()
            if kind == "REASONING":
                yield {"type": "REASONING_START", "messageId": self._id}
            role = "assistant" if kind == "TEXT" else "reasoning"
            yield {"type": f"{name}_START", "messageId": self._id, "role": role}
        yield {"type": f"{name}_CONTENT", "messageId": self._id, "delta": delta}

    def _close(self) -> Iterator[dict[str, Any]]:
        self._pieces = PieceRedactor(self._app.redactor.redact)
        kind, self._open = self._open, ""
        if kind:
            name = "TEXT_MESSAGE" if kind == "TEXT" else "REASONING_MESSAGE"
            yield {"type": f"{name}_END", "messageId": self._id}
        if kind == "REASONING":
            yield {"type": "REASONING_END", "messageId": self._id}

    def _reply(self, event: ModelReplied) -> Iterator[dict[str, Any]]:
        message = event.message
        if self._open == "REASONING":
            yield from self._close()
        if message.text and (rest := self._pieces.rest(message.text)):
            yield from self._delta("TEXT", rest)
        parent = {"parentMessageId": self._id} if self._open == "TEXT" else {}
        yield from self._close()
        for call in message.calls:
            known = {"toolCallId": call.id or ""}
            arguments = call.arguments if isinstance(call.arguments, str) else _json(call.arguments)
            yield {"type": "TOOL_CALL_START", **known, "toolCallName": call.name, **parent}
            yield {"type": "TOOL_CALL_ARGS", **known, "delta": self._text(arguments)}
            yield {"type": "TOOL_CALL_END", **known}

    def _custom(self, name: str, event: Event, *fields: str) -> dict[str, Any]:
        row = shown_event(self._app, event)
        return {"type": "CUSTOM", "name": name, "value": {field: row[field] for field in fields}}

    def _text(self, text: str) -> str:
        return self._app.redactor.redact(text)[0]

    def _next(self) -> str:
        self._count += 1
        return f"{self._run}:{self._count}"


def _task(body: AguiInput, *, known: bool) -> tuple[str, tuple[str, ...]]:
    """The task that an input makes, and its taint labels.

    Of a thread that is known here only the last message is new. Whatever else the front end sends, its context too, may
    have been written by anybody.
    """
    spoken = [m for m in body.messages if m.role in _SPOKEN]
    if not spoken:
        raise InvalidArguments("messages holds no message of the user", hint="Send role user last.")
    given = [ChatMessage(role=m.role, content=_spoken(m)) for m in spoken]  # pyright: ignore[reportArgumentType]
    task, labels = task_of(given[-1:] if known else given)
    parts = [element("context", c.value, name=c.description) for c in body.context or ()]
    if parts:
        task, labels = with_attached(task, parts), (f"{UNTRUSTED}:client",)
    return task, labels


def _spoken(message: AguiMessage) -> str | list[dict[str, Any]] | None:
    """What a message says, as `task_of` takes it.

    Raises:
        InvalidArguments: it is neither text nor a list of parts.
    """
    match message.content:
        case None | str():
            return message.content
        case [*parts] if all(isinstance(part, dict) for part in parts):
            return cast("list[dict[str, Any]]", parts)
        case _:
            raise InvalidArguments(
                f"the content of a message of {message.role[:40]} is no text", hint="Send text."
            )


def _answer(entry: ResumeEntry, call: PendingCall, owner: str) -> Answer:
    """What an entry of `resume` says to a waiting call.

    Raises:
        InvalidArguments: its payload does not fit.
    """
    by = owner or "gateway"
    if entry.status == "cancelled":
        return Refused("the user did not answer", by=by)
    payload = entry.payload
    if call.kind != "approval":
        return payload if isinstance(payload, str) else _json(payload)
    if not isinstance(payload, dict) or not isinstance(cast("dict[str, Any]", payload).get("approved"), bool):
        raise InvalidArguments(
            f"the payload for {call.key} needs approved: true or false", hint="See its responseSchema."
        )
    told = cast("dict[str, Any]", payload)
    if not told["approved"]:
        return Refused(str(told.get("reason") or ""), by=by)
    scope = told.get("scope", "once")
    if scope not in call.scopes:
        raise InvalidArguments(
            f"a yes to {call.key} cannot have the scope {scope!r:.40}",
            hint=f"Allowed: {', '.join(call.scopes)}.",
        )
    return Approved(scope=scope, by=by)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _sent(event: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(event_text(event))


async def _once(event: dict[str, Any]) -> AsyncIterator[ServerSentEvent]:
    yield _sent(event)
