"""Bodies: what clients send, checked by pydantic, whose schemas are in the OpenAPI document."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import Request

from pegboard.core.errors import InvalidArguments
from pegboard.net.asgi.server import MAX_BODY_BYTES

Key = Annotated[str, Field(min_length=1, max_length=200)]
"""The key of a session."""


class Body(BaseModel):
    """A JSON object with no other keys than these."""

    model_config = ConfigDict(extra="forbid", strict=True)


B = TypeVar("B", bound=BaseModel)


class NewFile(Body):
    """A file that comes with a message: its content is base64."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    content: str
    media_type: Annotated[str, Field(max_length=100, pattern=r"^([\w.+-]+/[\w.+-]+)?$")] = ""


Files = Annotated[list[NewFile], Field(max_length=10)]


class NewRun(Body):
    """A task for the agent."""

    task: Annotated[str, Field(min_length=1)]
    session: Key | None = None
    model: Annotated[str, Field(min_length=1)] | None = None
    files: Files = []


class ApprovalAnswer(Body):
    """An answer to what waits: `decision` for an approval, `answer` for a question.

    `scope` says how long a yes holds; `always` as the decision is the scope always.
    """

    decision: Literal["allow", "deny", "always"] | None = None
    scope: Literal["once", "run", "session", "always"] | None = None
    expires_s: Annotated[float, Field(gt=0, le=366 * 86400)] | None = None
    uses: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    reason: str = ""
    answer: str | None = None


class NewMessage(Body):
    """Something to say in a session; `model` answers where a run starts."""

    content: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)] | None = None
    files: Files = []


class SessionChange(Body):
    """The label of a session; empty takes it away."""

    label: str


class Branch(Body):
    """The key of the new session, and the run up to whose end it goes (empty: the last one)."""

    to: Key
    at: str = ""


class PolicyQuestion(Body):
    """A call that the policy is asked about."""

    tool: Annotated[str, Field(min_length=1)]
    arguments: dict[str, Any] = {}


class TestedCall(PolicyQuestion):
    """A call, and what the policy should answer."""

    expect: Literal["allow", "ask", "deny"] | None = None


class PolicyTest(Body):
    """Calls that rules are tried on; `rules` in the place of those that hold, null = those that hold."""

    calls: Annotated[list[TestedCall], Field(min_length=1, max_length=200)]
    rules: Annotated[list[str], Field(max_length=1000)] | None = None


class NewServer(Body):
    """An MCP server: a program with its arguments, or an address."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    transport: Literal["", "stdio", "http", "sse"] = ""


class OpenPage(Body):
    """A page of an MCP server: its `ui://` address, as the notes of a tool's result name it."""

    server: Annotated[str, Field(min_length=1, max_length=100)]
    uri: Annotated[str, Field(min_length=1, max_length=1000)]


class PageMessage(Body):
    """A request of a page (JSON-RPC 2.0)."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: int | str | None = None
    method: Annotated[str, Field(min_length=1, max_length=200)]
    params: dict[str, Any] = {}


class CallBody(Body):
    """The arguments of one call."""

    arguments: dict[str, Any] = {}


class NewSchedule(Body):
    """A job: when, and what its session is told."""

    schedule: Annotated[str, Field(min_length=1)]
    message: Annotated[str, Field(min_length=1)]
    name: str = ""
    zone: str = ""
    session: Annotated[str, Field(max_length=200)] = ""
    isolated: bool = False
    wake: bool = True
    check: str = ""


class ScheduleChange(Body):
    """Fields of a job with their new values; those that are left out stay."""

    enabled: bool | None = None
    schedule: Annotated[str, Field(min_length=1)] | None = None
    message: Annotated[str, Field(min_length=1)] | None = None
    name: str | None = None
    zone: str | None = None
    session: Key | None = None
    wake: bool | None = None
    check: str | None = None


class UndoBody(Body):
    """What to take back: a run's or call's id, `last` for the last run, null for the last change."""

    target: str | None = None
    preview: bool = False
    redo: bool = False


class ConfigChange(Body):
    """Keys of the user's settings file with their new values, on top of the file with the hash `base`."""

    base: str
    set: Annotated[dict[str, Any], Field(min_length=1, max_length=100)]


class ChatMessage(BaseModel):
    """A message as OpenAI's API takes it."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(BaseModel):
    """What a stream ends with."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """A request of `/v1/chat/completions`; parameters of sampling are accepted and not used. Clients send null for what
    they leave out."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2000)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[Any] | None = None
    n: int | None = None


class _Camel(BaseModel):
    """A shape of AG-UI: names in camelCase, others are kept out."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel)


class AguiMessage(_Camel):
    """A message of the conversation."""

    role: str
    content: Any = None


class AguiContext(_Camel):
    """Something that the front end shows the agent."""

    description: str
    value: str


class ResumeEntry(_Camel):
    """An answer to something that the thread waits for."""

    interrupt_id: Annotated[str, Field(min_length=1)]
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class AguiInput(_Camel):
    """RunAgentInput of AG-UI 1.0; tools and state of the front end are accepted and not used."""

    thread_id: Key
    run_id: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[AguiMessage], Field(max_length=2000)]
    context: Annotated[list[AguiContext], Field(max_length=200)] | None = None
    resume: Annotated[list[ResumeEntry], Field(max_length=200)] | None = None


async def read_body(
    request: Request, kind: type[B], *, optional: bool = False, most: int = MAX_BODY_BYTES
) -> B:
    """The request's body.

    Args:
        request: whose body.
        kind: what it has to be.
        optional: no body at all is an empty object.
        most: bytes that it may have.

    Raises:
        HTTPException: it is too large (413), not application/json (415), or not JSON (400).
        InvalidArguments: it is another object.
    """
    raw = await read_raw(request, most=most)
    if not raw and optional:
        raw = b"{}"
    elif request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # Forms and plain text are what a foreign page may send without asking.
        raise HTTPException(415, "Content-Type must be application/json")
    try:
        value = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    return check_body(kind, value)


async def read_raw(request: Request, *, most: int = MAX_BODY_BYTES) -> bytes:
    """The request's body as it was sent; `most`: bytes.

    Raises:
        HTTPException: it is too large (413).
    """
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > most:
            raise HTTPException(413, f"the body is larger than {most} bytes")
    return bytes(raw)


def check_body(kind: type[B], value: object) -> B:
    """A JSON value as a body.

    Raises:
        InvalidArguments: it is another object.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise InvalidArguments(f"{where}: {first['msg']}", hint="See /openapi.json.") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def number(request: Request, name: str, default: int, *, most: int, least: int = 0) -> int:
    """A number of the query.

    Raises:
        HTTPException: it is none, or out of range (400).
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and least <= int(text) <= most):
        raise HTTPException(400, f"{name} must be a number from {least} to {most}")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Whether the query says `1` or `true`.

    Raises:
        HTTPException: it says something else (400).
    """
    text = request.query_params.get(name, "0").lower()
    if text not in ("0", "1", "true", "false"):
        raise HTTPException(400, f"{name} must be 1 or 0")
    return text in ("1", "true")
