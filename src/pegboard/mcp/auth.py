"""OAuth 2.1 for the client, by package `mcp`, with our storage, listener and browser.

Discovery, state, issuer and audience checks are the package's; its redirects stay within an origin. Here: a server
without PKCE by S256 is refused, tokens lie in a file of mode 0600 that belongs to one address, a listener on loopback
takes the answer, and an address is opened without any shell.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthTokenError
from mcp.client.auth.utils import validate_metadata_issuer
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from pegboard.core.errors import Unavailable
from pegboard.mcp.client import TimeLimits
from pegboard.mcp.text_warnings import plain_address, sanitise
from pegboard.net.listening import stop_listening
from pegboard.store.private_file import replace_private

LOGIN_S: Final = 300.0
MAX_LOGINS: Final = 3
"""How often a person is sent to the browser in one login: a wider scope may be asked for once or twice."""
_HEAD_LIMIT: Final = 16_384
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_LONGEST_S: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class FileTokens:
    """Tokens and registration of one server, in one file."""

    path: Path

    async def get_tokens(self) -> OAuthToken | None:
        """See TokenStorage."""
        found = self._read().get("tokens")
        try:
            return None if found is None else OAuthToken.model_validate(found)
        except ValidationError:
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """See TokenStorage.

        Raises:
            Unavailable: a header cannot carry the token (RFC 6750 §2.1).
        """
        if not _TOKEN.fullmatch(tokens.access_token):
            # Whatever is told of it later must not hold it.
            raise Unavailable("the authorisation server gave a token that no header can carry")
        self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))
        # `expires_in` counts from now, and another process will read this later.
        lasts = None if tokens.expires_in is None else min(tokens.expires_in, _LONGEST_S)
        self._write("expires_at", None if lasts is None else time.time() + lasts)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """See TokenStorage."""
        found = self._read().get("client")
        try:
            return None if found is None else OAuthClientInformationFull.model_validate(found)
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """See TokenStorage."""
        self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    @property
    def expires_at(self) -> float | None:
        """Seconds since the epoch at which the access token ends; None = nobody said."""
        found = self._read().get("expires_at")
        return float(found) if isinstance(found, int | float) else None

    def endpoints(self) -> OAuthMetadata | None:
        """The authorisation server that the tokens came from, so that they can be renewed there."""
        found = self._read().get("endpoints")
        try:
            return None if found is None else OAuthMetadata.model_validate(found)
        except ValidationError:
            return None

    def keep_endpoints(self, found: OAuthMetadata | None) -> None:
        """Keep it beside the tokens; nothing where none are kept."""
        if found is not None and self.path.exists():
            self._write("endpoints", found.model_dump(mode="json", exclude_none=True))

    def forget(self) -> bool:
        """Drop everything; whether there was anything."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def _read(self) -> dict[str, Any]:
        try:
            return json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}

    def _write(self, key: str, value: Any) -> None:
        replace_private(self.path, json.dumps({**self._read(), key: value}), errors="surrogatepass")


class Listener:
    """Waits on loopback for the browser to come back with the code."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None

    async def start(self) -> str:
        """Listen; the address to be sent back to."""
        self.expect()
        self._server = await asyncio.start_server(self._visitor, "127.0.0.1", self._port, limit=_HEAD_LIMIT)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/callback"

    def expect(self) -> None:
        """Wait for a new answer: a server may ask for another login, with a wider scope."""
        self._answer = asyncio.get_running_loop().create_future()

    async def wait(self, timeout_s: float = LOGIN_S) -> AuthorizationCodeResult:
        """The code and state.

        Raises:
            Unavailable: nobody came back in time, or with an error.
        """
        if self._answer is None:
            raise Unavailable("the listener has not been started")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._answer
        except TimeoutError:
            raise Unavailable(f"nobody finished the login within {timeout_s:g} s") from None

    async def aclose(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await stop_listening(self._server)

    async def _visitor(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            text = self._take(head.split(b"\r\n", 1)[0].decode("latin-1"))
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            text = None
        status = "404 Not Found" if text is None else "200 OK"
        body = (text or "not found").encode()
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\nReferrer-Policy: no-referrer\r\n\r\n".encode()
            + body
        )
        try:
            await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()

    def _take(self, line: str) -> str | None:
        method, _, rest = line.partition(" ")
        parts = urlsplit(rest.partition(" ")[0])
        if method != "GET" or parts.path != "/callback" or self._answer is None or self._answer.done():
            return None
        query = parse_qs(parts.query)
        # A parameter that comes twice is ambiguous; RFC 6749 §3.1 forbids it.
        if any(len(v) > 1 for v in query.values()):
            return None
        code = query.get("code", [""])[0]
        if not code:
            said = sanitise(query.get("error_description", query.get("error", ["no code"]))[0])[:200]
            self._answer.set_exception(Unavailable(f"the login was refused: {said}"))
            return "The login was refused. You can close this page."
        state = query.get("state", [None])[0]
        issuer = query.get("iss", [None])[0]
        self._answer.set_result(AuthorizationCodeResult(code=code, state=state, iss=issuer))
        return "You are logged in. You can close this page."


@asynccontextmanager
async def interactive_auth(
    url: str,
    tokens: Any,
    *,
    show: Callable[[str], Awaitable[None]],
    scope: str | None = None,
    client_id: str | None = None,
    metadata_url: str | None = None,
    port: int = 0,
    timeout_s: float = LOGIN_S,
) -> AsyncGenerator[OAuthClientProvider]:
    """Authorisation in which a person takes part.

    Args:
        url: the server's address; tokens are asked for it alone (RFC 8707).
        tokens: a TokenStorage.
        show: takes the address that the person has to open. It has been checked: http or https, no control
            characters; whoever opens it must not give it to a shell.
        scope, client_id, metadata_url: where the settings name them.
    """
    listener = Listener(port)
    back = await listener.start()

    left = MAX_LOGINS

    async def redirect(address: str) -> None:
        nonlocal left
        if left == 0:
            raise Unavailable(f"the server asks for a login again and again; it was given {MAX_LOGINS}")
        left -= 1
        listener.expect()
        await show(openable(address))

    try:
        if client_id and await tokens.get_client_info() is None:
            known = OAuthClientInformationFull(client_id=client_id, redirect_uris=[AnyUrl(back)])
            await tokens.set_client_info(known)
        provider = Authorisation(
            url, _metadata(back, scope), tokens, redirect_handler=redirect,
            callback_handler=lambda: listener.wait(timeout_s), client_metadata_url=metadata_url,
        )  # fmt: skip
        provider.wanted = scope or ""
        yield provider
        tokens.keep_endpoints(provider.context.oauth_metadata)
    finally:
        await listener.aclose()


def silent_auth(url: str, tokens: FileTokens) -> OAuthClientProvider:
    """Authorisation from kept tokens, refreshed where that is possible; it never bothers a person."""

    async def nobody(address: str = "") -> Any:
        raise Unavailable("the login has ended", hint="Log in again: pegboard mcp login NAME")

    return _Kept(
        tokens,
        url,
        _metadata("http://127.0.0.1/callback", None),
        tokens,
        redirect_handler=nobody,
        callback_handler=nobody,
    )


class Authorisation(OAuthClientProvider):
    """The package's, and what it leaves out.

    Attributes:
        wanted: scopes that the settings name, asked for beside those that the server names.
        page: whether a person takes part, at a page of the issuer.
        limits: of the connection that is logged in; they stand still while the person is at that page.
    """

    wanted: str = ""
    page: bool = True
    _discovery: Discovery | None = None

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.limits = TimeLimits()
        # The package logs a login that fails with its traceback, which nobody asked for.
        package = logging.getLogger("mcp.client.auth")
        if not package.handlers:
            package.addHandler(logging.NullHandler())

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)
        self._discovery = found = Discovery(page=self.page)
        try:
            asked = await anext(flow)
            while True:
                kind = None if asked is request else kind_of(asked)
                if asked is not request and kind != "resource":
                    found.check("resource")
                response = yield asked
                if kind is not None:
                    await found.look(kind, response)
                    if found.pageless is not None:
                        validate_metadata_issuer(found.pageless, self._expected_issuer())
                        self.context.oauth_metadata = found.pageless
                asked = await flow.asend(response)
                if asked is not request and kind_of(asked) is None:
                    found.check("issuer")
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        try:
            await super()._handle_token_response(response)
        except OAuthTokenError:
            if response.is_success:
                # The package's words repeat the answer, and with it what may be a token.
                raise Unavailable(
                    "the authorisation server's answer holds no token that can be used"
                ) from None
            raise

    async def _perform_authorization(self) -> httpx2.Request:
        if self._discovery is not None:
            # Before anybody is sent to a page that nobody has named.
            self._discovery.check("resource")
            self._discovery.check("issuer")
        if self.wanted:
            asked = self.context.client_metadata
            asked.scope = " ".join(dict.fromkeys([*(asked.scope or "").split(), *self.wanted.split()]))
        return await super()._perform_authorization()

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        # A code that is not bound to this login is anybody's who sees it (RFC 7636; MCP 2025-11-25, authorization).
        found = self.context.oauth_metadata
        if found is not None and "S256" not in (found.code_challenge_methods_supported or ()):
            raise Unavailable(
                f"the authorisation server {found.issuer} does not promise PKCE with S256, so its codes could be stolen"
            )
        with self.limits.paused():
            return await super()._perform_authorization_code_grant()


class _Kept(Authorisation):
    """Knows from an earlier process when the token ends and where it is renewed, which the package forgets."""

    def __init__(self, kept: FileTokens, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._kept = kept

    async def _initialize(self) -> None:
        await super()._initialize()
        self.context.token_expiry_time = self._kept.expires_at
        self.context.oauth_metadata = self.context.oauth_metadata or self._kept.endpoints()


def openable(address: str) -> str:
    """The address, where a browser may be sent there.

    Raises:
        Unavailable: it is no web address, or holds characters that have no place in one.
    """
    try:
        parts = urlsplit(plain_address(address))
        # A user before the host is there to be taken for the host.
        if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc:
            return address
    except ValueError:
        pass
    raise Unavailable(
        f"the server names {sanitise(address)[:200]!r} for the login, which is no plain web address"
    )


def _metadata(back: str, scope: str | None) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        redirect_uris=[AnyUrl(back)], client_name="Pegboard", grant_types=["authorization_code", "refresh_token"],
        response_types=["code"], scope=scope,
    )  # fmt: skip


Kind = Literal["resource", "issuer"]

_WHAT: Final[dict[Kind, tuple[str, type[BaseModel]]]] = {
    "resource": ("the description of who protects the server", ProtectedResourceMetadata),
    "issuer": ("the description of the authorisation server", OAuthMetadata),
}
_TOO_MANY: Final = 429
_PAGE: Final = ("authorization_endpoint",)


def kind_of(request: httpx2.Request) -> Kind | None:
    """Which document a request of a login asks for; None = none."""
    if request.method != "GET":
        return None
    path = request.url.path
    known = "/.well-known/oauth-authorization-server" in path or "/.well-known/openid-configuration" in path
    return "issuer" if known else "resource"


class Discovery:
    """One login's documents: where several places are tried, one that can be read makes up for the others.

    Args:
        page: a person has to be sent to the issuer's page. An issuer that serves programs alone has none (RFC 8414 §2).

    Attributes:
        pageless: the description of such an issuer, which the package does not take.
    """

    def __init__(self, *, page: bool = True) -> None:
        self._page = page
        self.pageless: OAuthMetadata | None = None
        self._faults: dict[Kind, str] = {}
        self._found: set[Kind] = set()

    async def look(self, kind: Kind, response: httpx2.Response) -> None:
        """Take in an answer."""
        what, shape = _WHAT[kind]
        parts = urlsplit(str(response.request.url))
        where = sanitise(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")[:200]
        if response.status_code == _TOO_MANY or response.status_code >= 500:
            self._faults.setdefault(
                kind, f"{what} cannot be had: {where} answers HTTP {response.status_code}"
            )
        if response.status_code != 200:
            return
        body = await response.aread()
        try:
            shape.model_validate_json(body)
        except ValidationError as error:
            if kind == "issuer" and not self._page and [e["loc"] for e in error.errors()] == [_PAGE]:
                row = json.loads(body)
                self.pageless = OAuthMetadata.model_validate({**row, _PAGE[0]: row["token_endpoint"]})
                self._found.add(kind)
                return
            faults = [
                ": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"]))) for e in error.errors()[:3]
            ]
            self._faults.setdefault(
                kind, f"{what} at {where} is malformed: {sanitise('; '.join(faults))[:300]}"
            )
        else:
            self._found.add(kind)

    def check(self, kind: Kind) -> None:
        """Refuse to go on by default where there is a document, only a broken one.

        Raises:
            Unavailable: so it is.
        """
        if kind in self._faults and kind not in self._found:
            raise Unavailable(
                f"the login is not tried: {self._faults[kind]}",
                hint="Whoever runs that server has to mend it; a token of your own can stand under headers.",
            )
