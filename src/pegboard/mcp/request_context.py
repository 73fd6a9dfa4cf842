"""A client, and one request of its while it runs: progress, log messages and questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.schema.foreign import ForeignSchema
from pegboard.mcp.wire import (
    INVALID_PARAMS,
    LOG_LEVELS,
    MISSING_CAPABILITY,
    RpcError,
)

if TYPE_CHECKING:
    from pegboard.net.asgi.sse import EventStream
import base64
import hashlib
import hmac
import json


class StateSigner:
    """Seals what a stateless client carries for us between rounds, so that it cannot be made up or changed."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, value: Json) -> str:
        """The value as opaque text."""
        body = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
        return base64.urlsafe_b64encode(self._mac(body) + body).decode("ascii")

    def unsign(self, text: str) -> Json:
        """The value.

        Raises:
            RpcError: the text is not ours.
        """
        try:
            raw = base64.urlsafe_b64decode(text.encode("ascii"))
        except ValueError:
            raw = b""
        if base64.urlsafe_b64encode(raw).decode("ascii") != text:
            # The decoder forgives what stands behind the padding; a seal must not.
            raw = b""
        if not hmac.compare_digest(raw[:32], self._mac(raw[32:])):
            raise RpcError(INVALID_PARAMS, "requestState is not what this server gave out")
        return cast("Json", json.loads(raw[32:]))

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()


Json: TypeAlias = dict[str, Any]
Send: TypeAlias = "Callable[[Json, RequestContext | None], None]"
"""Sends a message to the client; on the stream of a request where one is given."""

ANSWER_S: Final = 600.0
"""Seconds that a client has for answering a request of ours."""


class InputRequired(ToolError):
    """The call needs answers of the client first; the stateless era then asks it to call again with them."""

    default_code = "input_required"


@dataclass(slots=True, kw_only=True)
class Peer:
    """One client.

    Attributes:
        session: names it in records.
        owner: whose token it came with; tasks and sessions of one are out of reach of the others.
        version: the agreed revision; empty before that.
        capabilities, info: as it declared them. Self-declared: they grant nothing.
        log_level: least severity of log messages it wants, None = none.
        listening: whether what belongs to no request of its reaches it now.
        inflight: running requests by id.
        pending: our own requests by id.
        send: see Send.
    """

    send: Send
    session: str = "mcp"
    owner: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log_level: str | None = None
    listening: bool = True
    inflight: dict[str | int, asyncio.Task[Any]] = field(default_factory=dict[str | int, asyncio.Task[Any]])
    pending: dict[str, asyncio.Future[Json]] = field(default_factory=dict[str, "asyncio.Future[Json]"])
    _asked: int = 0

    def notify(self, method: str, params: Json | None = None, ctx: RequestContext | None = None) -> None:
        """Send a notification."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message, ctx)

    async def request(self, method: str, params: Json, ctx: RequestContext | None) -> Json:
        """Send a request and wait for its result.

        Raises:
            ToolError: the client refused, or did not answer in time.
        """
        self._asked += 1
        key = f"pegboard-{self._asked}"
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.pending[key] = answer
        try:
            self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params}, ctx)
            async with asyncio.timeout(ANSWER_S):
                reply = await answer
        except TimeoutError:
            raise ToolError(f"the client did not answer {method} within {ANSWER_S:g} s") from None
        finally:
            self.pending.pop(key, None)
        if "error" in reply:
            refusal: Any = reply["error"]
            raise ToolError(
                f"the client refused {method}: {str(cast('Json', refusal).get('message', refusal))[:300]}"
            )
        result: Any = reply.get("result")
        return cast("Json", result) if isinstance(result, dict) else {}

    def on_response(self, message: Json) -> None:
        """Take a client's response; one to nothing that we asked is ignored."""
        waiting = self.pending.get(str(message.get("id")))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def end(self) -> None:
        """The client is gone: stop what it started."""
        for task in list(self.inflight.values()):
            task.cancel()
        for waiting in self.pending.values():
            if not waiting.done():
                waiting.cancel()


class RequestContext:
    """What a running request may say to its client: progress, log messages, questions.

    In the handshake era questions are requests of ours; in the stateless era they end the call, which the
    client then repeats with the answers (2026-07-28, multi round-trip requests).

    Attributes:
        id: the request's id.
        wanted: questions that this round could not answer, by key.
        stream: the response over HTTP, None on standard output.
        task: the task that the call has become, None while it has not.
    """

    def __init__(
        self,
        peer: Peer,
        id: str | int,
        params: Mapping[str, Any],
        *,
        modern: bool,
        seal: StateSigner,
        binding: str,
        capabilities: Mapping[str, Any],
        stream: EventStream | None = None,
    ) -> None:
        self.peer = peer
        self.id = id
        self.modern = modern
        self.wanted: dict[str, Json] = {}
        self.stream = stream
        self.task: Any = None
        self.capabilities = capabilities
        self._seal = seal
        self._binding = binding
        meta: Any = params.get("_meta")
        table: Mapping[str, Any] = cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}
        self.token: Any = table.get("progressToken")
        self.log_level: Any = table.get("io.modelcontextprotocol/logLevel") if modern else peer.log_level
        self._asked = 0
        self._done = 0.0
        self._answers: dict[str, Any] = {}
        if modern and ("inputResponses" in params or "requestState" in params):
            self._take_answers(params)

    def _take_answers(self, params: Mapping[str, Any]) -> None:
        state: Any = params.get("requestState")
        if state is not None:
            opened = self._seal.unsign(str(state))
            if opened.get("for") != self._binding:
                raise RpcError(INVALID_PARAMS, "requestState belongs to another request")
            self._answers.update(opened.get("answers") or {})
        answers: Any = params.get("inputResponses")
        if isinstance(answers, Mapping):
            self._answers.update(cast("Mapping[str, Any]", answers))

    # -- one way ------------------------------------------------------------------------------

    def on_update(self, value: Any) -> None:
        """A partial update of a tool: progress where it says so, else progress with a message."""
        if isinstance(value, Mapping):
            table = cast("Mapping[str, Any]", value)
            if isinstance(table.get("progress"), int | float):
                self.progress(float(table["progress"]), table.get("total"), table.get("message"))
                return
            if "log" in table:
                self.log(str(table.get("level", "info")), table["log"])
                return
        self.progress(self._done + 1, None, str(cast("object", value))[:1000])

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far it is; only where the client asked for it, and never backwards."""
        if self.token is None or (self._done and done <= self._done):
            return
        self._done = done
        params: Json = {"progressToken": self.token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        self.peer.notify("notifications/progress", params, self)

    def log(self, level: str, data: Any, logger: str = "pegboard") -> None:
        """Send a log message, where the client wants ones of that severity."""
        wanted = self.log_level
        if (
            wanted not in LOG_LEVELS
            or level not in LOG_LEVELS
            or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted)
        ):
            return
        self.peer.notify("notifications/message", {"level": level, "logger": logger, "data": data}, self)

    # -- questions ----------------------------------------------------------------------------

    def supports(self, capability: str) -> bool:
        """Whether the client declared a capability: elicitation, sampling, roots."""
        return capability in self.capabilities

    async def elicit(self, message: str, schema: Json, *, key: str | None = None) -> Json:
        """Ask the client's user; `{action, content}`.

        Raises:
            Unavailable: the client cannot.
            InputRequired: the client has to call again with the answer.
        """
        params: Json = {"message": message, "requestedSchema": schema}
        if self.modern or self.peer.version >= "2025-11-25":
            params["mode"] = "form"
        key = key or f"elicitation-{self._asked + 1}"
        answer = await self.ask("elicitation", "elicitation/create", params, key)
        if answer.get("action") == "accept" and not ForeignSchema(schema).accepts(
            answer.get("content") or {}
        ):
            if not self.modern:
                raise ToolError("the client's answer does not fit the form that it was asked to fill in")
            self._answers.pop(key, None)
            return await self.ask("elicitation", "elicitation/create", params, key)
        return answer

    async def sample(self, params: Json, *, key: str | None = None) -> Json:
        """Ask the client's model; a CreateMessageResult. Raises as `elicit`."""
        return await self.ask("sampling", "sampling/createMessage", params, key)

    async def roots(self, *, key: str | None = None) -> list[Json]:
        """The client's folders. Raises as `elicit`."""
        roots: Any = (await self.ask("roots", "roots/list", {}, key)).get("roots")
        return cast("list[Json]", roots) if isinstance(roots, list) else []

    async def ask(self, capability: str, method: str, params: Json, key: str | None = None) -> Json:
        """One question; see `elicit`."""
        self._asked += 1
        key = key or f"{capability}-{self._asked}"
        if not self.supports(capability):
            if self.modern:
                raise _lacks(capability)
            raise Unavailable(f"the client does not support {capability}")
        if not self.modern:
            return await self.peer.request(method, params, self)
        answer = self._answers.get(key)
        if isinstance(answer, Mapping):
            return dict(cast("Mapping[str, Any]", answer))
        if self.task is not None:
            question: Json = {"method": method, "params": params} if params else {"method": method}
            return cast("Json", (await self.task.ask({key: question}))[key])
        self.wanted[key] = {"method": method, "params": params} if params else {"method": method}
        raise InputRequired(f"the client has to answer {key} first")

    async def request_inputs(self, questions: Mapping[str, tuple[str, str, Json]]) -> dict[str, Json]:
        """Several answers at once, in the stateless era: `{key: (capability, method, params)}`.

        Raises:
            InputRequired: some are missing; all of those are asked together.
        """
        missing: list[str] = []
        answers: dict[str, Json] = {}
        for key, (capability, method, params) in questions.items():
            if not self.supports(capability):
                raise _lacks(capability)
            answer = self._answers.get(key)
            if isinstance(answer, Mapping):
                answers[key] = dict(cast("Mapping[str, Any]", answer))
            else:
                self.wanted[key] = {"method": method, "params": params} if params else {"method": method}
                missing.append(key)
        if missing and self.task is not None:
            asked = {key: self.wanted.pop(key) for key in missing}
            return {**answers, **cast("dict[str, Json]", await self.task.ask(asked))}
        if missing:
            raise InputRequired(f"the client has to answer {', '.join(missing)} first")
        return answers

    def close_stream(self) -> None:
        """Let the client wait without a connection; it comes back for the rest (2025-11-25, SSE polling)."""
        if self.stream is not None:
            self.stream.pause()

    def forget(self, key: str) -> None:
        """Drop an answer that did not fit, so that it is asked again."""
        self._answers.pop(key, None)

    def input_required(self) -> Json:
        """The result that asks the client to call again."""
        state = {"for": self._binding, "answers": self._answers}
        return {
            "resultType": "input_required",
            "inputRequests": self.wanted,
            "requestState": self._seal.sign(state),
        }


def _lacks(capability: str) -> ToolError:
    """The failure that the service turns into the protocol's own error; it passes the pipeline as it is."""
    return ToolError(
        f"the client must declare the capability {capability} for this",
        code="rpc",
        details={"rpc": MISSING_CAPABILITY, "data": {"requiredCapabilities": {capability: {}}}},
    )


_current: ContextVar[RequestContext | None] = ContextVar("pegboard_mcp_exchange", default=None)


def current_request() -> RequestContext | None:
    """The request that is being served here, None outside one."""
    return _current.get()


def enter(ctx: RequestContext) -> None:
    """Make it the current one of this task."""
    _current.set(ctx)


class CallingClient:
    """`Inject[CallingClient]`: what a tool may say to the MCP client that called it.

    Every method raises Unavailable where no MCP client is calling.
    """

    def log(self, level: str, data: Any) -> None:
        """See RequestContext.log."""
        _here().log(level, data)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """See RequestContext.progress."""
        _here().progress(done, total, message)

    def supports(self, capability: str) -> bool:
        """See RequestContext.supports."""
        return _here().supports(capability)

    async def elicit(self, message: str, schema: Json, *, key: str | None = None) -> Json:
        """See RequestContext.elicit."""
        return await _here().elicit(message, schema, key=key)

    async def sample(self, params: Json, *, key: str | None = None) -> Json:
        """See RequestContext.sample."""
        return await _here().sample(params, key=key)

    async def roots(self, *, key: str | None = None) -> list[Json]:
        """See RequestContext.roots."""
        return await _here().roots(key=key)

    async def request_inputs(self, questions: Mapping[str, tuple[str, str, Json]]) -> dict[str, Json]:
        """See RequestContext.request_inputs."""
        return await _here().request_inputs(questions)

    def close_stream(self) -> None:
        """See RequestContext.close_stream."""
        _here().close_stream()


def _here() -> RequestContext:
    exchange = _current.get()
    if exchange is None:
        raise Unavailable("no MCP client is calling")
    return exchange
