"""HttpClient: HTTP requests to addresses that were checked first, with every wait and every size bounded."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from pegboard.core.errors import InvalidArguments, PermissionDenied, TimedOut, TooLarge, Unavailable
from pegboard.net.urls import Resolve, Verdict, judge_url, resolve_here

if TYPE_CHECKING:
    import httpx2

    from pegboard.net.websocket import WebSocket

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_ENCODINGS: Final = ("gzip", "x-gzip", "deflate")
_CONNECT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """A whole answer.

    Attributes:
        url: where it came from, after redirects.
        status: the HTTP status.
        headers: names in lower case; of several equal ones the last.
        body: the bytes, decompressed.
        redirects: the addresses that led here, first the one that was asked for.
        cut: whether the body goes on beyond `max_bytes`.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    redirects: Sequence[str] = ()
    cut: bool = False

    @property
    def content_type(self) -> str:
        """The media type in lower case without parameters, empty if none was sent."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """Sends requests; one client may be shared by everything in a process.

    Every name is resolved once and every address of it checked; the connection goes to an address that was checked,
    on each hop of a redirect again. No proxy is taken from the environment. Nothing is kept between requests.

    Attributes:
        allow: private hosts that the owner opened, `host` or `host:port`.
        allow_cidrs: networks that the owner opened.
        refuse: why a host must not be reached, empty if it may; asked on every hop.
        timeout_s: seconds for a whole request, redirects included.
        max_bytes: bytes of an answer, as sent and decompressed.
        max_redirects: redirects that are followed.
        user_agent: what servers are told.
        resolve: addresses of a name; for tests.
        verify: certificates are checked with this; True = those of the system.
    """

    allow: Sequence[str] = ()
    allow_cidrs: Sequence[str] = ()
    refuse: Callable[[str], str] = field(default=lambda host: "")
    timeout_s: float = 30.0
    max_bytes: int = 20 << 20
    max_redirects: int = 5
    user_agent: str = "Mozilla/5.0 (compatible; Pegboard)"
    resolve: Resolve = resolve_here
    verify: Any = True

    def opening(self, url: str) -> HttpClient:
        """This client with the host and port of a URL open, wherever they are: the owner named them."""
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        return replace(self, allow=(*self.allow, f"{parts.hostname}:{port}")) if parts.hostname else self

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        content: bytes | None = None,
        json: Any = None,
        timeout_s: float | None = None,
        max_bytes: int | None = None,
        cut: bool = False,
        follow: bool = True,
    ) -> HttpReply:
        """Send a request and read the whole answer, whatever its status.

        Args:
            method, url: as usual; a user name or password in the URL is not sent.
            headers: further headers. Credentials among them go to the first origin alone.
            params: added to the URL's query.
            content, json: the body; not sent again by a redirect that turns the method into GET.
            timeout_s, max_bytes: in place of the client's own.
            cut: read the first `max_bytes` of a longer body instead of raising TooLarge.
            follow: whether redirects are followed; if not, a redirect is the answer.

        Raises:
            InvalidArguments: the URL is no http or https URL.
            PermissionDenied: it leads to an address that is not public, or to a host that is refused.
            TimedOut: the answer was not complete in time.
            TooLarge: the answer is over `max_bytes`.
            Unavailable: the server cannot be reached, its certificate is wrong, it redirects in circles, or its answer is
                broken; `details["sent"]` is False where it never got the request.
        """
        import httpx2

        from pegboard.net.transport import SECRET_HEADERS, origin_of

        limit = timeout_s or self.timeout_s
        sent = dict(headers or {})
        if json is not None:
            from json import dumps

            content = dumps(json, ensure_ascii=False).encode("utf-8")
            sent.setdefault("content-type", "application/json")
        passed: list[str] = []
        try:
            url = str(httpx2.URL(url).copy_merge_params(_pairs(params))) if params else url
            async with asyncio.timeout(limit):
                while True:
                    verdict = await self.check(url)
                    async with self._send(verdict, method, url, sent, content) as answer:
                        target = answer.headers.get("location", "")
                        if answer.status_code not in _REDIRECTS or not target or not follow:
                            most = max_bytes or self.max_bytes
                            body = await _read(answer, most, url)
                            if len(body) > most and not cut:
                                raise TooLarge(
                                    f"the answer of {_host(url)} is over {most} bytes",
                                    hint="Ask for a smaller part, or download it with exec.",
                                )
                            found = {k.lower(): v for k, v in answer.headers.items()}
                            return HttpReply(
                                url=url,
                                status=answer.status_code,
                                headers=found,
                                body=body[:most],
                                redirects=tuple(passed),
                                cut=len(body) > most,
                            )
                    passed.append(url)
                    if len(passed) > self.max_redirects:
                        raise Unavailable(
                            f"{_host(passed[0])} redirects more than {self.max_redirects} times, last to {target[:200]!r}",
                            hint="Ask for that address itself if it is the one you want.",
                        )
                    following = urljoin(url, target)
                    if answer.status_code == 303 or (answer.status_code in (301, 302) and method == "POST"):
                        method, content = "GET", None
                        sent = {k: v for k, v in sent.items() if k.lower() != "content-type"}
                    if origin_of(following) != origin_of(url):
                        sent = {k: v for k, v in sent.items() if k.lower() not in SECRET_HEADERS}
                    url = following
        except httpx2.InvalidURL as error:
            raise InvalidArguments(
                f"this is no address that can be asked: {error}",
                hint="Give shorter values without control characters.",
            ) from None
        except TimeoutError:
            raise TimedOut(
                f"{_host(url)} did not answer completely within {limit:g} s", retryable=True
            ) from None

    @asynccontextmanager
    async def websocket(
        self, url: str, *, headers: Mapping[str, str] | None = None, max_bytes: int = 0
    ) -> AsyncGenerator[WebSocket]:
        """A WebSocket to a URL that is checked as those of requests are, closed with the block.

        Args:
            url: a `ws` or `wss` URL.
            headers: of the handshake.
            max_bytes: bytes of one message; 0 = as an answer's.

        Raises:
            InvalidArguments, PermissionDenied, Unavailable: see `request`.
        """
        from pegboard.net.websocket import open_websocket

        scheme, colon, rest = url.partition("://")
        plain = {"ws": "http", "wss": "https"}.get(scheme.lower(), "")
        if not plain:
            raise InvalidArguments(f"{url[:200]!r} is not a ws or wss URL")
        verdict = await self.check(f"{plain}{colon}{rest}")
        async with open_websocket(
            verdict, headers={"User-Agent": self.user_agent, **(headers or {})}, verify=self.verify,
            max_bytes=max_bytes or self.max_bytes, connect_s=_CONNECT_S,
        ) as opened:  # fmt: skip
            yield opened

    async def check(self, url: str) -> Verdict:
        """Whether a URL may be connected to, and at which addresses.

        Raises:
            InvalidArguments, PermissionDenied: see `request`.
        """
        verdict = await asyncio.to_thread(
            judge_url, url, self.resolve, allow=self.allow, allow_cidrs=self.allow_cidrs
        )
        if not verdict.host:
            raise InvalidArguments(f"{url[:200]!r} cannot be fetched: {verdict.reason}")
        if reason := self.refuse(verdict.host):
            raise PermissionDenied(f"{verdict.host} must not be reached: {reason}")
        if not verdict.allowed:
            if verdict.reason.startswith(f"{verdict.host} has no address"):
                raise Unavailable(verdict.reason, hint="Check the spelling of the host.")
            raise PermissionDenied(f"{url[:200]} is not fetched: {verdict.reason}")
        return verdict

    @asynccontextmanager
    async def _send(
        self, verdict: Verdict, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> AsyncGenerator[httpx2.Response]:
        import httpx2

        from pegboard.net.transport import GuardedTransport

        default = {"http": 80, "https": 443}[verdict.scheme]
        named = f"[{verdict.host}]" if ":" in verdict.host else verdict.host
        place = named if verdict.port == default else f"{named}:{verdict.port}"
        sent = {
            "accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": self.user_agent,
            **{name.lower(): value for name, value in headers.items()},
            "host": place,
        }  # fmt: skip
        # As UTF-8: a name with an accent in a header is sent as it is (RFC 9110 §5.5, obs-text).
        raw = [(name.encode("ascii"), value.encode("utf-8")) for name, value in sent.items()]

        async def reach(_: str) -> Sequence[str]:
            return verdict.addresses

        transport = GuardedTransport(reach, verify=self.verify if verdict.scheme == "https" else False)
        try:
            async with (
                httpx2.AsyncClient(
                    transport=transport, timeout=httpx2.Timeout(None, connect=_CONNECT_S), follow_redirects=False,
                ) as client,
                client.stream(
                    method, f"{verdict.scheme}://{named}:{verdict.port}{verdict.target}", headers=raw, content=content
                ) as answer,
            ):  # fmt: skip
                yield answer
        except httpx2.TimeoutException:
            raise Unavailable(
                f"{place} took no connection within {_CONNECT_S:g} s", retryable=True, details={"sent": False}
            ) from None
        except httpx2.HTTPError as error:
            details = {"sent": False} if isinstance(error, httpx2.ConnectError) else {}
            raise Unavailable(
                f"{place} cannot be reached: {_reason(error)}", retryable=True, details=details
            ) from error


async def _read(answer: httpx2.Response, most: int, url: str) -> bytes:
    """The body, decompressed here: what it unpacks to is bounded before it is in memory. More than `most` if cut.

    Raises:
        Unavailable: see `HttpClient.request`.
    """
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", *_ENCODINGS):
        raise Unavailable(f"{_host(url)} sent the encoding {encoding[:60]!r}, which was not asked for")
    unpack = zlib.decompressobj(47) if encoding in _ENCODINGS else None
    out = bytearray()
    async for piece in answer.aiter_raw(65536):
        if unpack is None:
            out += piece
        else:
            try:
                out += unpack.decompress(piece, most + 1 - len(out))
            except zlib.error:
                if encoding != "deflate" or out:
                    raise Unavailable(f"{_host(url)} sent a damaged {encoding} body") from None
                unpack = zlib.decompressobj(-15)  # Deflate without the header that RFC 9110 wants around it.
                out += unpack.decompress(piece, most + 1)
        if len(out) > most:
            return bytes(out)
    if unpack is not None and out and not unpack.eof:
        raise Unavailable(f"{_host(url)} sent a {encoding} body that breaks off", retryable=True)
    return bytes(out)


def _reason(error: Exception) -> str:
    """What went wrong, from the innermost error on: the outer ones only say that it did."""
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    return str(cause) or str(error) or type(error).__name__


def _pairs(
    params: Mapping[str, str] | Sequence[tuple[str, str]],
) -> list[tuple[str, str | int | float | bool | None]]:
    return [*(params.items() if isinstance(params, Mapping) else params)]


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2][:100]
