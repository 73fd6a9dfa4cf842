"""Logging in against authorisation servers on loopback that are honest, mixed up with another, or want too much."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from pegboard.core.errors import ConfigError, Unavailable
from pegboard.mcp.auth import MAX_LOGINS, FileTokens, interactive_auth, silent_auth
from pegboard.mcp.client import MCPServer
from pegboard.mcp.client_credentials import own_auth
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.config_formats import servers_of
from tests.ledger import owes
from tests.mcp.test_posting import Asked, Server, served, text
from tests.serving import ending

pytestmark = pytest.mark.slow


class Issuer(Server):
    """An authorisation server; `says` replaces parts of its metadata."""

    def __init__(self, **says: Any) -> None:
        super().__init__(_never)
        self.says = says
        self.granted: list[dict[str, str]] = []
        self.gives: dict[str, Any] = {}

    async def serve(self, asked: Asked) -> None:
        path = urlsplit(asked.path).path
        if path.startswith("/.well-known/"):
            await asked.answer(*self.documents(path, {**self.metadata(), **self.says}))
        elif path == "/register":
            await asked.answer(201, json.dumps({**json.loads(asked.body), "client_id": "registered"}))
        elif path == "/token":
            self.granted.append({k: v[0] for k, v in parse_qs(asked.body.decode()).items()})
            self.granted[-1]["authorization"] = asked.headers.get("authorization", "")
            token = {"access_token": "good", "token_type": "Bearer", "expires_in": 3600, **self.gives}
            await asked.answer(200, json.dumps(token))
        else:
            await asked.answer(404, kind="")

    def documents(self, path: str, row: dict[str, Any]) -> tuple[int, str]:
        """Status and body of a well-known document."""
        return 200, json.dumps(row)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "registration_endpoint": f"{self.base}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none", "private_key_jwt"],
        }


class Guarded(Server):
    """An MCP server that wants a token of the issuers that it names."""

    documents = Issuer.documents

    def __init__(self, *issuers: str, **says: Any) -> None:
        super().__init__(_answers)
        self.issuers = issuers
        self.says = says

    async def serve(self, asked: Asked) -> None:
        if urlsplit(asked.path).path.startswith("/.well-known/oauth-protected-resource"):
            row = {"resource": self.url, "authorization_servers": list(self.issuers), **self.says}
            await asked.answer(*self.documents(asked.path, row))
        elif asked.headers.get("authorization") != "Bearer good":
            where = f"http://127.0.0.1:{self.port}/.well-known/oauth-protected-resource/mcp"
            await asked.answer(401, kind="", www_authenticate=f'Bearer resource_metadata="{where}"')
        else:
            await super().serve(asked)


class Both(Guarded):
    """A guarded server of both eras."""

    async def serve(self, asked: Asked) -> None:
        authorised = asked.headers.get("authorization") == "Bearer good"
        if authorised and asked.message.get("method") == "server/discover":
            await asked.result(
                {
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"},
                }
            )
        else:
            await super().serve(asked)


async def _never(asked: Asked) -> None:
    raise AssertionError(asked.path)


async def _answers(asked: Asked) -> None:
    await asked.result(text("in"))


@asynccontextmanager
async def on(server: Server) -> AsyncIterator[Any]:
    listening = await asyncio.start_server(server.visit, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{server.port}/mcp"
    async with ending(listening):
        yield server


async def tools_of(url: str, auth: Any) -> list[Any]:
    config = ServerConfig(name="s", transport="streamable_http", url=url, protocol="2025-11-25")
    server = MCPServer(config=config, auth=auth)
    try:
        async with asyncio.timeout(20):
            return await server.tools()
    finally:
        await server.aclose()


def own(issuer: str, **more: str) -> dict[str, str]:
    return {"client_id": "me", "issuer": issuer, "client_secret": "hush", **more}


@owes("K-79")
async def test_a_client_logs_in_by_its_own_secret_and_keeps_the_token_for_itself(tmp_path: Path) -> None:
    tokens = FileTokens(tmp_path / "tokens.json")
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        first = await tools_of(server.url, own_auth(server.url, tokens, own(issuer.base, scope="read")))
        again = await tools_of(server.url, own_auth(server.url, tokens, own(issuer.base, scope="read")))

    assert [t.name for t in first] == [t.name for t in again] == ["mcp_s_t", "mcp_s_u"]
    (grant,) = issuer.granted
    assert grant["grant_type"] == "client_credentials" and grant["scope"] == "read"
    assert grant["resource"] == server.url
    assert "hush" not in str(grant) and grant["authorization"].startswith("Basic ")
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600


@owes("K-79")
async def test_a_client_logs_in_by_a_signed_word_that_names_whom_it_is_for(tmp_path: Path) -> None:
    import jwt
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        login = {"client_id": "me", "issuer": issuer.base, "private_key": pem, "algorithm": "ES256"}
        await tools_of(server.url, own_auth(server.url, FileTokens(tmp_path / "t.json"), login))

    said = jwt.decode(
        issuer.granted[0]["client_assertion"], key.public_key(), algorithms=["ES256"], audience=issuer.base,
        options={"verify_aud": False},
    )  # fmt: skip
    assert (said["iss"], said["sub"]) == ("me", "me")
    assert str(said["aud"]).rstrip("/") == issuer.base


@owes("K-79")
async def test_a_server_that_names_another_issuer_gets_no_secret_sent_there(tmp_path: Path) -> None:
    async with on(Issuer()) as honest, on(Issuer()) as evil, on(Guarded(evil.base)) as server:
        auth = own_auth(server.url, FileTokens(tmp_path / "t.json"), own(honest.base))
        with pytest.raises(Unavailable, match="'s'"):
            await tools_of(server.url, auth)

    assert evil.granted == [] and honest.granted == []


async def test_metadata_that_speaks_for_another_issuer_is_not_believed(tmp_path: Path) -> None:
    async with on(Issuer()) as honest, on(Issuer()) as evil:
        evil.says = {"issuer": honest.base}
        async with on(Guarded(evil.base)) as server:
            with pytest.raises(Unavailable):
                auth = own_auth(server.url, FileTokens(tmp_path / "t.json"), own(honest.base))
                await tools_of(server.url, auth)

    assert evil.granted == []


@asynccontextmanager
async def browser(issuer: Issuer, **answer: str) -> AsyncIterator[Any]:
    """What the person's browser is sent back with: code and state, unless `answer` says otherwise."""
    tasks: list[asyncio.Task[None]] = []
    opened: list[str] = []

    async def show(address: str) -> None:
        opened.append(address)
        query = {k: v[0] for k, v in parse_qs(urlsplit(address).query).items()}
        back = {"code": "c", "state": query.get("state", ""), **answer}

        async def follow() -> None:
            async with httpx2.AsyncClient(trust_env=False) as http:
                sent = {k: v for k, v in back.items() if v != "left out"}
                await http.get(f"{query['redirect_uri']}?{urlencode(sent)}")

        tasks.append(asyncio.create_task(follow()))

    try:
        yield show, opened
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"state": "of somebody else"}, {}),
        ({"state": "left out"}, {}),
        ({"iss": "http://127.0.0.1:1"}, {"authorization_response_iss_parameter_supported": True}),
        ({"code": "left out", "error": "access_denied"}, {}),
        ({}, {"code_challenge_methods_supported": ["plain"]}),
    ],
    ids=["state", "no-state", "mix-up", "denied", "no-pkce"],
)
@owes("K-79")
async def test_an_answer_that_is_not_for_this_login_buys_no_token(
    answer: dict[str, str], says: dict[str, Any], tmp_path: Path
) -> None:
    async with on(Issuer(**says)) as issuer, on(Guarded(issuer.base)) as server:
        async with browser(issuer, **answer) as (show, _):
            tokens = FileTokens(tmp_path / "t.json")
            with pytest.raises(Unavailable):
                async with interactive_auth(server.url, tokens, show=show, timeout_s=5) as auth:
                    await tools_of(server.url, auth)

    assert issuer.granted == []
    assert await tokens.get_tokens() is None


@owes("K-79")
async def test_a_login_in_the_browser_is_for_this_server_and_proves_that_it_began_it(tmp_path: Path) -> None:
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        async with browser(issuer) as (show, opened):
            tokens = FileTokens(tmp_path / "t.json")
            async with interactive_auth(server.url, tokens, show=show, timeout_s=5) as auth:
                found = await tools_of(server.url, auth)

    asked = {k: v[0] for k, v in parse_qs(urlsplit(opened[0]).query).items()}
    assert len(found) == 2
    assert asked["code_challenge_method"] == "S256" and asked["resource"] == server.url
    assert issuer.granted[0]["code_verifier"] and issuer.granted[0]["resource"] == server.url


class LateLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is set on by hand."""

    late_s = 0.0

    def time(self) -> float:
        return super().time() + self.late_s


@pytest.mark.parametrize("late_s", [15.0, 240.0])
@pytest.mark.parametrize("protocol", ["auto", "2026-07-28", "2025-11-25"])
def test_no_limit_of_a_request_runs_while_a_person_logs_in(
    protocol: str, late_s: float, tmp_path: Path
) -> None:
    opened: list[str] = []

    async def login() -> list[Any]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LateLoop)
        tasks: list[asyncio.Task[None]] = []
        async with on(Issuer()) as issuer, on(Both(issuer.base)) as server, browser(issuer) as (show, _):

            async def read_first(address: str) -> None:
                opened.append(address)

                async def read() -> None:
                    loop.late_s += late_s
                    # Whatever was due meanwhile comes now.
                    for _ in range(10):
                        await asyncio.sleep(0)
                    await show(address)

                tasks.append(asyncio.create_task(read()))

            tokens = FileTokens(tmp_path / "t.json")
            config = ServerConfig(
                name="s", transport="streamable_http", url=server.url, protocol=protocol, start_s=8
            )
            async with interactive_auth(server.url, tokens, show=read_first) as auth:
                async with MCPServer(config=config, auth=auth) as client:
                    return await client.tools()

    with asyncio.Runner(loop_factory=LateLoop) as runner:
        tools = runner.run(login())

    assert len(tools) == 2 and len(opened) == 1


async def test_a_server_that_asks_for_a_token_for_another_gets_none(tmp_path: Path) -> None:
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        server.says = {"resource": "https://bank.example/mcp"}
        async with browser(issuer) as (show, opened):
            with pytest.raises(Unavailable):
                tokens = FileTokens(tmp_path / "t.json")
                async with interactive_auth(server.url, tokens, show=show, timeout_s=5) as auth:
                    await tools_of(server.url, auth)

    assert opened == [] and issuer.granted == []


@pytest.mark.parametrize(
    ("endpoint", "refused"),
    [("javascript:alert(1)", True), ("file:///bin/sh", True), ("http://127.0.0.1:1/`id`", False),
     ("http://127.0.0.1:1/\u202e$(id)", False), ("http://bank.example@127.0.0.1:1/", True),
     ("http://bank.example:443@127.0.0.1:1/login", True), ("-http://127.0.0.1:1/", True)],
)  # fmt: skip
async def test_a_login_address_is_opened_only_as_a_plain_web_address(
    endpoint: str, refused: bool, tmp_path: Path
) -> None:
    async with on(Issuer(authorization_endpoint=endpoint)) as issuer, on(Guarded(issuer.base)) as server:
        async with browser(issuer) as (show, opened):
            with pytest.raises(Unavailable) if refused else contextlib.nullcontext():
                tokens = FileTokens(tmp_path / "t.json")
                async with interactive_auth(server.url, tokens, show=show, timeout_s=5) as auth:
                    await tools_of(server.url, auth)

    assert bool(opened) is not refused
    assert all(urlsplit(o).scheme in ("http", "https") and o.isascii() and "`" not in o for o in opened)


@pytest.mark.parametrize(
    "gives",
    [
        {"access_token": "hush\r\nX-Evil: 1"}, {"access_token": "hu\0sh"}, {"access_token": "hüsh"},
        {"access_token": ""}, {"access_token": "hush hush"}, {"access_token": "hush", "token_type": "mac"},
        {"access_token": "hush", "expires_in": "soon"}, {"access_token": ["hush"]},
    ],
    ids=str,
)  # fmt: skip
@owes("K-79")
async def test_a_token_that_cannot_be_used_is_neither_kept_nor_told(
    gives: dict[str, Any], tmp_path: Path
) -> None:
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        issuer.gives = gives
        async with browser(issuer) as (show, _):
            tokens = FileTokens(tmp_path / "t.json")
            with pytest.raises(Unavailable, match="token") as caught:
                async with interactive_auth(server.url, tokens, show=show, timeout_s=5) as auth:
                    await tools_of(server.url, auth)

    assert "hush" not in str(caught.value)
    assert await tokens.get_tokens() is None


async def test_tokens_that_end_at_once_send_nobody_to_the_browser_again_and_again(tmp_path: Path) -> None:
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        issuer.gives = {"expires_in": -5}
        async with browser(issuer) as (show, opened):
            with pytest.raises(Unavailable, match="again and again"):
                async with interactive_auth(
                    server.url, FileTokens(tmp_path / "t"), show=show, timeout_s=5
                ) as auth:
                    await tools_of(server.url, auth)

    assert len(opened) == MAX_LOGINS


@owes("K-79")
async def test_a_login_that_has_ended_says_how_to_log_in_again_and_asks_nobody(tmp_path: Path) -> None:
    tokens = FileTokens(tmp_path / "t.json")
    tokens.path.write_text(
        json.dumps({"tokens": {"access_token": "old", "token_type": "Bearer"}, "expires_at": 1})
    )
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        with pytest.raises(Unavailable) as caught:
            await tools_of(server.url, silent_auth(server.url, tokens))

    assert "pegboard mcp login s" in caught.value.hint
    assert issuer.granted == []


async def test_a_file_of_tokens_that_cannot_be_read_counts_as_none(tmp_path: Path) -> None:
    tokens = FileTokens(tmp_path / "t.json")
    for content in ("", "{", '{"tokens": 5, "client": 5, "endpoints": 5, "expires_at": "soon"}'):
        tokens.path.write_text(content)
        assert await tokens.get_tokens() is None and await tokens.get_client_info() is None
        assert tokens.endpoints() is None and tokens.expires_at is None

    assert tokens.forget() and not tokens.forget()
    tokens.keep_endpoints(None)
    assert not tokens.path.exists()


@pytest.mark.parametrize(
    ("oauth", "why"),
    [
        ({"client_secret": "x"}, "needs client_id and issuer"),
        ({"clientId": "a", "privateKey": "x"}, "needs client_id and issuer"),
        ({"client_id": "a", "issuer": "https://i", "client_secret": "x", "private_key": "y"}, "give one"),
        ({"client_idd": "a"}, "unknown key 'client_idd'"),
        ("yes", "must be a table"),
    ],
)
def test_settings_of_a_login_that_cannot_work_are_named(oauth: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        servers_of({"s": {"url": "https://h/mcp", "oauth": oauth}}, environment={})


def test_an_issuer_is_never_spoken_to_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="in the clear"):
        own_auth("https://h/mcp", FileTokens(tmp_path / "t"), own("http://issuer.example"))


async def test_settings_with_a_secret_need_no_person(tmp_path: Path) -> None:
    from pegboard.config.paths import Paths
    from pegboard.services.servers import stored_auth

    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        row = {"url": server.url, "oauth": {"clientId": "me", "issuer": issuer.base, "clientSecret": "${S}"}}
        (config,) = servers_of({"s": row}, environment={"S": "hush"})
        paths = Paths.of({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
        found = await tools_of(server.url, stored_auth(config, paths))

    assert len(found) == 2


async def test_a_plain_server_needs_no_login() -> None:
    async with served(_answers) as server:
        assert len(await tools_of(server.url, None)) == 2


# -- broken documents -------------------------------------------------------------------------

BROKEN: dict[str, Any] = {
    "no-json": "<html>",
    "empty": "",
    "list": "[]",
    "nothing": "{}",
    "null": "null",
    "half": '{"issuer": "http://',
}
ISSUERS_FAULTS: dict[str, Any] = {
    **BROKEN,
    "no-token-endpoint": {"token_endpoint": None},
    "no-page": {"authorization_endpoint": None},
    "endpoint-number": {"token_endpoint": 5},
    "endpoint-no-address": {"authorization_endpoint": "/authorize"},
    "endpoint-script": {"authorization_endpoint": "javascript:alert(1)"},
    "methods-text": {"code_challenge_methods_supported": "S256"},
    "other-issuer": {"issuer": "https://other.example"},
    "status-500": 500,
    "status-503": 503,
    "status-429": 429,
}
RESOURCE_FAULTS: dict[str, Any] = {
    **BROKEN,
    "no-issuers": {"authorization_servers": []},
    "issuers-text": {"authorization_servers": "http://127.0.0.1:1"},
    "issuers-number": {"authorization_servers": [5]},
    "no-resource": {"resource": None},
    "status-500": 500,
    "other-resource": {"resource": "https://other.example/mcp"},
}


def broken(fault: Any) -> Any:
    def documents(path: str, row: dict[str, Any]) -> tuple[int, str]:
        if isinstance(fault, int):
            return fault, "{}"
        return 200, fault if isinstance(fault, str) else json.dumps({**row, **fault})

    return documents


async def refused(server: Any, issuer: Any, tokens: FileTokens) -> tuple[str, list[Any]]:
    """What is told of a login that fails, and the pages that a person was shown."""
    async with browser(issuer) as (show, opened):
        async with interactive_auth(server.url, tokens, show=show, timeout_s=5) as auth:
            with pytest.raises(Unavailable) as caught:
                await tools_of(server.url, auth)
    return caught.value.message, opened


@owes("K-79")
@pytest.mark.parametrize("fault", list(ISSUERS_FAULTS))
async def test_a_broken_description_of_an_issuer_ends_the_login_in_words(fault: str, tmp_path: Path) -> None:
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        issuer.documents = broken(ISSUERS_FAULTS[fault])
        told, opened = await refused(server, issuer, FileTokens(tmp_path / "t.json"))

    assert opened == [] and issuer.granted == []
    assert not [
        a.path for s in (issuer, server) for a in s.seen if a.path in ("/register", "/token", "/authorize")
    ]
    assert "issuer" in told or "authorisation server" in told, told
    if fault.startswith("status"):
        assert fault.removeprefix("status-") in told
    elif fault != "other-issuer":
        assert "malformed" in told and issuer.base in told, told


@owes("K-79")
@pytest.mark.parametrize("fault", list(RESOURCE_FAULTS))
async def test_a_broken_description_of_who_protects_a_server_ends_the_login_in_words(
    fault: str, tmp_path: Path
) -> None:
    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        server.documents = broken(RESOURCE_FAULTS[fault])
        told, opened = await refused(server, issuer, FileTokens(tmp_path / "t.json"))

    assert opened == [] and issuer.seen == []
    assert not [a.path for a in server.seen if a.path in ("/register", "/token", "/authorize")]
    if fault == "other-resource":
        assert "resource" in told
    elif fault.startswith("status"):
        assert "500" in told
    else:
        assert "malformed" in told and "who protects" in told, told


async def test_one_place_that_can_be_read_makes_up_for_the_broken_ones(tmp_path: Path) -> None:
    def second(path: str, row: dict[str, Any]) -> tuple[int, str]:
        # What answers every unknown path with its start page.
        return (200, json.dumps(row)) if "openid" in path else (200, "<html>")

    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        issuer.documents = second
        auth = own_auth(server.url, FileTokens(tmp_path / "t.json"), own(issuer.base))
        assert await tools_of(server.url, auth)

    assert len(issuer.granted) == 1


async def test_an_issuer_for_programs_alone_needs_no_page_and_must_still_be_itself(tmp_path: Path) -> None:
    def pageless(path: str, row: dict[str, Any]) -> tuple[int, str]:
        return 200, json.dumps({k: v for k, v in row.items() if k != "authorization_endpoint"})

    async with on(Issuer()) as issuer, on(Guarded(issuer.base)) as server:
        issuer.documents = pageless
        auth = own_auth(server.url, FileTokens(tmp_path / "t.json"), own(issuer.base))
        assert await tools_of(server.url, auth)

        issuer.says["issuer"] = "https://other.example"
        auth = own_auth(server.url, FileTokens(tmp_path / "u.json"), own(issuer.base))
        with pytest.raises(Unavailable, match="issuer"):
            await tools_of(server.url, auth)

    assert len(issuer.granted) == 1


async def test_where_nothing_is_published_the_default_places_are_asked(tmp_path: Path) -> None:
    class Both(Guarded):
        """Its own issuer, as in 2025-03-26, without any document."""

        async def serve(self, asked: Asked) -> None:
            path = urlsplit(asked.path).path
            if path.startswith("/.well-known/"):
                await asked.answer(404, kind="")
            elif path in ("/register", "/token"):
                await Issuer.serve(self, asked)  # type: ignore[arg-type]
            else:
                await super().serve(asked)

    async with on(Both()) as server:
        server.granted, server.gives = [], {}
        async with browser(server) as (show, opened):
            async with interactive_auth(
                server.url, FileTokens(tmp_path / "t.json"), show=show, timeout_s=10
            ) as auth:
                tools = await tools_of(server.url, auth)

    assert len(tools) == 2 and len(server.granted) == 1
    assert opened[0].startswith(f"http://127.0.0.1:{server.port}/authorize?")
