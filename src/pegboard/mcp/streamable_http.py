"""HttpDispatcher: JSON-RPC over streamable HTTP; each request is answered on its own response (both eras).

Requests are sent by whoever asks, in that very task: no queue, no task and no second parse stand between a call and
its answer, and messages are read by the same rules as those of a pipe (`lines.parse`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from http.client import responses
from typing import Any, Final, cast

import anyio
import anyio.abc
import httpx2
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard.mcp.config import ServerConfig
from pegboard.mcp.framing import Json, MessageBatch, parse
from pegboard.mcp.http import MAX_BODY, http_client
from pegboard.mcp.inbound import (
    ConnectionClosed,
    MessageReceiver,
    PendingRequest,
    UnreadableAnswer,
    request_of,
    result_of,
    with_token,
)
from pegboard.net.transport import OversizedBody

_VERSION: Final = "mcp-protocol-version"
_SESSION: Final = "mcp-session-id"
_LAST_EVENT: Final = "last-event-id"
_ACCEPT: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
MAX_REPLIES: Final = 256
"""Answers to a server's own questions that are on their way at once; more are dropped."""

_TRIES: Final = 2
"""Tries in a row to take up a stream again."""
_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 60.0
_LEAVE_S: Final = 3.0


class SessionGone(ConnectionClosed):
    """The server has forgotten the session: it has not run the request (2025-11-25, session management)."""


class HttpRefusal(MCPError):
    """The server answered with a status, and no message of the protocol."""

    def __init__(self, status: int) -> None:
        self.status = status
        code = METHOD_NOT_FOUND if status == 404 else INTERNAL_ERROR
        super().__init__(code=code, message=f"it answered {status} {responses.get(status, '')}".rstrip())

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status >= 500 or self.status in (408, 425, 429)


class HttpDispatcher:
    """Requests, answers and notifications over HTTP.

    Args:
        client: with the credentials, limits and headers of the settings.
        url: the server's only address.
    """

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client = client
        self._url = httpx2.URL(url)
        self._inbound = MessageReceiver("streamable-http", self._reply)
        self._session = ""
        self._version = ""
        self._replying = 0

    # -- outward ------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Json:
        """Send a request; its raw result. Time limits are the caller's: one in `opts` would run on during a login.

        Raises:
            MCPError: an error answer; an HttpRefusal, an UnreadableAnswer.
            SessionGone: the server knows the session no more.
            ConnectionClosed: the connection has been ended here, or a stream without its answer.
            httpx2.HTTPError: the connection failed.
        """
        options: CallOptions = opts or {}
        inbound = self._inbound
        if inbound.closed:
            raise ConnectionClosed
        id = options.get("request_id") or inbound.new_id()
        on_progress = options.get("on_progress")
        given = options.get("headers") or {}
        # The handshake negotiates the revision: what a probe before it has stamped must not stay.
        self._version = "" if method == "initialize" else given.get(_VERSION, self._version)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        inbound.waiting[id] = PendingRequest(answer, on_progress)
        inbound.version = self._version
        message = request_of(id, method, with_token(params, id, on_progress))
        try:
            return result_of(await self._ask(message, id, given))
        except asyncio.CancelledError:
            # A stateless server is told by the end of the response; another one wants to be told in words.
            if options.get("cancel_on_abandon", True) and not self._is_modern and not inbound.closed:
                what = {"requestId": id, "reason": "the caller gave up"}
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": what}
                self._later(self._post_quietly(note))
            raise
        finally:
            inbound.waiting.pop(id, None)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification; nothing where the server is gone."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = dict(params)
        given = (opts or {}).get("headers") or {}
        self._version = given.get(_VERSION, self._version)
        self._inbound.version = self._version
        await self._post_quietly(message, given)
        if method == "notifications/initialized" and self._session:
            self._later(self._hear())

    @property
    def _is_modern(self) -> bool:
        return self._version in MODERN_PROTOCOL_VERSIONS

    def _reply(self, message: Json | list[Json]) -> None:
        # A server that asks faster than it takes our answers would have us keep every one of them. What else it says
        # is counted elsewhere: a flood of notes must not leave its question without an answer.
        if self._replying < MAX_REPLIES:
            self._replying += 1
            self._inbound.spawn(self._post_quietly(message)).add_done_callback(self._replied)

    def _replied(self, _: Any) -> None:
        self._replying -= 1

    def _later(self, work: Any) -> None:
        self._inbound.spawn(work)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        out = dict(_ACCEPT)
        if self._session:
            out[_SESSION] = self._session
        if self._version:
            out[_VERSION] = self._version
        out.update(more)
        return out

    async def _send(
        self, method: str, headers: dict[str, str], content: bytes | None = None
    ) -> httpx2.Response:
        """A response whose head is there; redirects are followed within the server's own origin only."""
        client = self._client
        request = client.build_request(method, self._url, content=content, headers=headers)
        for _ in range(client.max_redirects):
            response = await client.send(request, stream=True, follow_redirects=False)
            if not response.is_redirect:
                return response
            following = next_request(response)
            if following is None:
                return response
            await response.aclose()
            request = following
        raise httpx2.TooManyRedirects("too many redirects", request=request)

    async def _post_quietly(
        self, message: Json | list[Json], headers: Mapping[str, str] | None = None
    ) -> None:
        """Post what has no answer; where that fails, the next request will tell."""
        with contextlib.suppress(httpx2.HTTPError):
            await (await self._send("POST", self._headers(headers or {}), _encoded(message))).aclose()

    # -- answers ------------------------------------------------------------------------------

    async def _ask(self, message: Json, id: str | int, headers: Mapping[str, str]) -> Json:
        response = await self._send("POST", self._headers(headers), _encoded(message))
        try:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code != 200:
                self._refuse(response, await _error_in(response, kind))
            if message["method"] == "initialize":
                self._session = _session_of(response)
            if kind == "application/json":
                return self._own(parse(await response.aread()), id)
            if kind == "text/event-stream":
                return await self._streamed(response, id)
        except (OversizedBody, httpx2.DecodingError) as error:
            raise UnreadableAnswer(str(error)) from None
        finally:
            await response.aclose()
        raise UnreadableAnswer(f"of the unexpected content type {kind[:80]!r}")

    def _refuse(self, response: httpx2.Response, told: Json | None) -> None:
        """Raise what an answer without a result means.

        Raises:
            MCPError: always, but for a success whose body is the answer; an HttpRefusal where it is only a status.
            SessionGone: the server knows the session no more.
        """
        status = response.status_code
        if status == 404 and self._session:
            raise SessionGone("the server has ended the session (HTTP 404)")
        if told is not None:
            result_of(told)
        where = leads_to(response)
        if where is not None:
            raise MCPError(
                code=INVALID_REQUEST,
                message=f"it redirects to {where}, which is not followed; use that address if it is meant",
            )
        if status == 202:
            raise UnreadableAnswer("missing: the server took the request and gives no answer")
        if status >= 300:
            raise HttpRefusal(status)

    def _own(self, message: Json | MessageBatch | None, id: str | int) -> Json:
        """The answer that a whole body holds.

        Raises:
            UnreadableAnswer: it holds none, or the answer to something else.
        """
        if isinstance(message, MessageBatch):
            message = self._from_batch(message, id)
        if message is None:
            raise UnreadableAnswer("not a message of the protocol")
        if "method" in message or not _answers(message, id):
            raise UnreadableAnswer("the answer to another request")
        return message

    def _from_batch(self, batch: MessageBatch, id: str | int) -> Json | None:
        """The answer to `id` in a batch; what the server says of itself in it goes to the session.

        Raises:
            UnreadableAnswer: the revision has no batches.
        """
        if fault := self._inbound.batch_fault():
            raise UnreadableAnswer(f"in a form of its own: {fault}")
        rest = [e for e in batch.entries if not _is_answer(e)]
        if rest:
            self._inbound.take_all(rest)
        own = (cast("Json", e) for e in batch.entries if _is_answer(e))
        return next((e for e in own if _answers(e, id)), None)

    async def _streamed(self, response: httpx2.Response, id: str | int) -> Json:
        """The answer on a stream of events, taken up again where it breaks off.

        Raises:
            ConnectionClosed: it ended without an answer.
            UnreadableAnswer: an event is too long.
        """
        last, wait_s, tries = "", _RETRY_S, 0
        waiting = self._inbound.waiting[id].answer
        while True:
            ended = "the stream of events ended without an answer"
            try:
                async for event in httpx2.EventSource(response, max_event_size=MAX_BODY):
                    tries = 0
                    last = event.id or last
                    wait_s = wait_s if event.retry is None else min(event.retry / 1000, _LONGEST_RETRY_S)
                    self._take(event.data, id)
                    if waiting.done():
                        return waiting.result()
            except httpx2.SSEError as error:
                raise UnreadableAnswer(f"a stream of events that failed: {error}") from None
            except (OversizedBody, httpx2.DecodingError):
                raise
            except httpx2.HTTPError as error:
                ended = f"{ended}: {error}"
            finally:
                await response.aclose()
            if not last or self._is_modern or tries >= _TRIES:
                raise ConnectionClosed(ended)
            tries += 1
            await asyncio.sleep(wait_s)
            response = await self._send("GET", self._headers({**_EVENTS, _LAST_EVENT: last}))
            if response.status_code != 200:
                await response.aclose()
                raise ConnectionClosed(f"{ended} (HTTP {response.status_code})")

    def _take(self, data: str, id: str | int | None) -> None:
        """One event: the answer to `id` to whoever waits, the rest to the session."""
        message = parse(data.encode("utf-8", "surrogatepass")) if data else None
        if isinstance(message, MessageBatch):
            if id is None:
                # An answer on a stream that is not its own could be to anybody's request.
                rest = [e for e in message.entries if not _is_answer(e)]
                if rest:
                    self._inbound.take_all(rest)
                return
            message = self._from_batch(message, id)
        if message is None:
            return
        if id is not None and "method" not in message and _answers(message, id):
            message = {**message, "id": id}
        elif "method" not in message:
            # An answer on a stream that is not its own could be to anybody's request.
            return
        self._inbound.receive(message)

    # -- inward -------------------------------------------------------------------------------

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Until cancelled: what comes, comes on the responses."""
        self._inbound.begin(on_request, on_notify, on_notify_intercept)
        task_status.started()
        try:
            await asyncio.Event().wait()
        finally:
            self._inbound.end()

    async def _hear(self) -> None:
        """The stream of what belongs to no request; a server need not have one (2025-11-25)."""
        last, wait_s, tries = "", _RETRY_S, 0
        while tries < _TRIES:
            tries += 1
            more = {**_EVENTS, _LAST_EVENT: last} if last else _EVENTS
            with contextlib.suppress(httpx2.HTTPError):
                response = await self._send("GET", self._headers(more))
                try:
                    if response.status_code != 200:
                        return
                    async for event in httpx2.EventSource(response, max_event_size=MAX_BODY):
                        tries = 0
                        last = event.id or last
                        wait_s = wait_s if event.retry is None else min(event.retry / 1000, _LONGEST_RETRY_S)
                        self._take(event.data, None)
                finally:
                    await response.aclose()
            await asyncio.sleep(wait_s)

    async def leave(self) -> None:
        """Tell the server that the session ends; one that does not listen is not waited for."""
        if self._session:
            with contextlib.suppress(httpx2.HTTPError, TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await (await self._send("DELETE", self._headers({}))).aclose()


_EVENTS: Final = {"accept": "text/event-stream", "cache-control": "no-store"}


@asynccontextmanager
async def http_dispatcher(
    config: ServerConfig, auth: httpx2.Auth | None, answered: Callable[[int], None]
) -> AsyncGenerator[HttpDispatcher]:
    """A dispatcher for an HTTP server; its session is ended with the block.

    Raises:
        ConfigError: credentials would go unencrypted to another machine.
    """
    async with http_client(config, auth, answered) as client:
        dispatcher = HttpDispatcher(client, config.url)
        try:
            yield dispatcher
        finally:
            await dispatcher.leave()


def _encoded(message: Json | list[Json]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _is_answer(entry: Any) -> bool:
    return isinstance(entry, dict) and "method" not in entry


def _answers(message: Json, id: str | int) -> bool:
    """Whether a message answers the request; some servers echo a number as text, and null where they refuse early."""
    said = message.get("id")
    return (str(said) == str(id) and not isinstance(said, bool)) or (said is None and "error" in message)


def _session_of(response: httpx2.Response) -> str:
    """The session that the server names; visible ASCII only, as the protocol has it."""
    said = response.headers.get(_SESSION, "")
    return said if said.isascii() and said.isprintable() and " " not in said else ""


async def _error_in(response: httpx2.Response, kind: str) -> Json | None:
    """The protocol's own error in the body of a refusal, None where there is none."""
    if kind != "application/json" or response.status_code < 400:
        return None
    with contextlib.suppress(httpx2.HTTPError):
        message = parse(await response.aread())
        if isinstance(message, dict) and isinstance(message.get("error"), dict):
            return message
    return None


def next_request(response: httpx2.Response) -> httpx2.Request | None:
    """The request that follows a redirect within the server's own origin; None for any other response.

    Its method stays, since a POST turned into a GET has lost its message; its address stays on scheme, host and port,
    or goes from http to https on the default ports; and it brings no user and password of its own.
    """
    following, sent = response.next_request, response.request
    if following is None or following.method != sent.method:
        return None
    came, goes = sent.url, following.url
    if goes.userinfo not in (b"", came.userinfo):
        return None
    upgraded = (came.scheme, goes.scheme) == ("http", "https") and came.port is goes.port is None
    same = (came.scheme, came.port) == (goes.scheme, goes.port)
    return following if came.host == goes.host and (same or upgraded) else None


def leads_to(response: httpx2.Response) -> str | None:
    """Where a redirect leads, for a message: without user, query and fragment, which may hold secrets."""
    if response.next_request is None:
        return None
    return str(response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None))
