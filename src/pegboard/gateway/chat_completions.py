"""OpenAI's API: an agent as a chat model, `/v1/chat/completions` and `/v1/models`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from itertools import takewhile
from typing import Any, Final

from sse_starlette import ServerSentEvent
from starlette.requests import Request

from pegboard.app.app import App
from pegboard.core.errors import InvalidArguments, Unsupported
from pegboard.core.events import ModelReplied, RunFinished, TextPiece
from pegboard.core.policy.taint import UNTRUSTED
from pegboard.gateway.access import caller
from pegboard.gateway.bodies import ChatMessage, ChatRequest, read_body
from pegboard.gateway.errors import Json, error_response
from pegboard.gateway.live import LiveRuns
from pegboard.gateway.pieces import PieceRedactor
from pegboard.net.asgi.sse import EventResponse, event_text
from pegboard.services.sessions import element, with_attached
from pegboard.store.encoding import without_secrets
from pegboard.store.runs import RunRow

MODEL: Final = "pegboard"
"""The name under which the agent with its own model is offered."""
_FINISH: Final = {"limit": "length"}
_SOURCE: Final = "client"
_STOPPED: Final = "the gateway is being stopped"


class ChatCompletions:
    """The endpoints under `/v1`. Each request is a run in a session of its own; the agent calls its own tools.

    The last message of the user is the task. All else that the client sends is content that anybody may have written:
    it is put beside the task, endorses no address, and makes the run hold untrusted content.

    Args:
        app: whose agent it is.
        live: starts and follows the runs.
    """

    def __init__(self, app: App, live: LiveRuns) -> None:
        self._app = app
        self._live = live

    async def models(self, request: Request) -> Any:
        """The agent, as a model."""
        return {
            "object": "list",
            "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "pegboard"}],
        }

    async def complete(self, request: Request) -> Any:
        """Answer a chat."""
        body = await read_body(request, ChatRequest)
        if body.tools or (body.n or 1) != 1:
            raise Unsupported(
                "tools of the client and several answers are not supported",
                hint="Leave tools and n out; the agent has its own tools.",
            )
        task, labels = task_of(body.messages)
        model = None if body.model in (None, "", MODEL) else body.model
        run, _ = await self._live.start(task, model=model, labels=labels, by=caller(request))
        row = await self._app.runs.get(run)
        shown = body.model or MODEL
        headers = {"X-Pegboard-Run": run}
        if body.stream:
            usage = body.stream_options is not None and bool(body.stream_options.include_usage)
            return EventResponse(self._chunks(row, shown, usage=usage), headers=headers)
        async for _, event in self._live.follow(row):
            if isinstance(event, RunFinished):
                return self._completion(event, shown, headers)
        return error_response(503, "unavailable", _STOPPED, "Try again later.")

    def _completion(self, event: RunFinished, model: str, headers: dict[str, str]) -> Any:
        if event.status == "failed":
            return error_response(502, "model_error", self._text(event.error), f"See run {event.run}.")
        text = self._text(event.answer)
        if event.status == "suspended":
            text = f"{text}\n\n{_waits(event)}".strip()
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": _FINISH.get(event.status, "stop")}
        return Json(
            {
                "id": event.run, "object": "chat.completion", "created": int(time.time()), "model": model,
                "choices": [choice], "usage": _usage(event),
            },
            headers=headers,
        )  # fmt: skip

    async def _chunks(self, row: RunRow, model: str, *, usage: bool) -> AsyncIterator[ServerSentEvent]:
        head = {"id": row.id, "object": "chat.completion.chunk", "created": int(time.time()), "model": model}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> ServerSentEvent:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return ServerSentEvent(event_text({**head, "choices": [choice]}))

        def fault(code: str, message: str, hint: str = "") -> ServerSentEvent:
            return ServerSentEvent(event_text({"error": {"code": code, "message": message, "hint": hint}}))

        yield chunk({"role": "assistant", "content": ""})
        pieces, before, ended = PieceRedactor(self._app.redactor.redact), False, False
        async for _, event in self._live.follow(row):
            ended = isinstance(event, RunFinished) and event.status != "suspended"
            match event:
                case TextPiece(text):
                    # The texts of two turns, with calls in between, are two paragraphs.
                    gap = "\n\n" if before and not pieces.sent else ""
                    if new := pieces.feed(text):
                        yield chunk({"content": gap + new})
                case ModelReplied(message):
                    gap = "\n\n" if before and not pieces.sent else ""
                    if new := pieces.rest(message.text):
                        yield chunk({"content": gap + new})
                    before = before or bool(message.text)
                case RunFinished(status="suspended"):
                    yield chunk({"content": ("\n\n" if before else "") + _waits(event)})
                    before = True
                case RunFinished(status="failed"):
                    yield fault("model_error", self._text(event.error))
                case RunFinished():
                    yield chunk({}, _FINISH.get(event.status, "stop"))
                    if usage:
                        yield ServerSentEvent(event_text({**head, "choices": [], "usage": _usage(event)}))
                case _:
                    pass
        if not ended:  # What came so far must not pass for a whole answer.
            yield fault("unavailable", _STOPPED, f"See run {row.id}.")
        yield ServerSentEvent("[DONE]")

    def _text(self, text: str) -> str:
        return without_secrets({"text": text}, self._app.redactor.redact)["text"]


def task_of(messages: list[ChatMessage]) -> tuple[str, tuple[str, ...]]:
    """The task that a client's messages make, and its taint labels: none where only the user speaks.

    Raises:
        InvalidArguments: the last message is not the user's, or holds something else than text.
    """
    # Some clients put their instructions behind what the user says.
    behind = takewhile(lambda message: message.role in ("system", "developer"), reversed(messages))
    said = messages[: len(messages) - len(list(behind))][-1:]
    if not said or said[0].role != "user" or not (task := _content(said[0])).strip():
        raise InvalidArguments("the last message must be a text of the user", hint="Send role user last.")
    parts: list[str] = []
    for message in (one for one in messages if one is not said[0]):
        if (text := _content(message)).strip():
            parts.append(element("message", text, role=message.role))
    foreign = any(message.role != "user" for message in messages)
    return with_attached(task, parts), (f"{UNTRUSTED}:{_SOURCE}",) if foreign else ()


def _content(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    texts: list[str] = []
    for part in message.content:
        kind = part.get("type")
        text = part.get(str(kind)) if kind in ("text", "refusal") else None
        if not isinstance(text, str):
            raise InvalidArguments(
                f"a part of type {str(kind)[:40]!r} is not supported", hint="Send text parts."
            )
        texts.append(text)
    return "\n".join(texts)


def _waits(event: RunFinished) -> str:
    keys = ", ".join(f"{one.get('pending')} ({one.get('tool')})" for one in event.pending)
    return f"[waiting for a person: {keys}; answer with POST /api/approvals/ID]"


def _usage(event: RunFinished) -> dict[str, int]:
    sent, made = event.usage.input_tokens, event.usage.output_tokens
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
