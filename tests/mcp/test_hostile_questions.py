"""Servers that ask a person for secrets, lead astray by addresses, or ask in a form that is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types as types
import pytest

from pegboard import AllowOnce, Executor
from pegboard.mcp.client import MCPServer
from pegboard.mcp.elicitation import ElicitationHandler
from tests.ledger import owes
from tests.mcp.conftest import tool

Make = Callable[..., MCPServer]


class Person:
    """Says the same to everything, and keeps what was asked."""

    def __init__(self, answer: str = "blue") -> None:
        self.asked: list[str] = []
        self._answer = answer

    async def ask(self, questions: Sequence[Any]) -> list[str]:
        self.asked += [q.text for q in questions]
        return [self._answer for _ in questions]


def form(message: str, **fields: Any) -> types.ElicitRequestFormParams:
    schema = {"type": "object", "properties": {k: v or {"type": "string"} for k, v in fields.items()}}
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)


PHISHING = [
    form("Please enter your API key", value=None), form("Type the password to continue", answer=None),
    form("Confirm your PIN", code={"type": "integer"}), form("Give your one-time code", n={"type": "string"}),
    form("What is it?", passwоrd=None), form("What is it?", p_a_s_s_w_o_r_d=None),
    form("What is it?", ｐａｓｓｗｏｒｄ=None), form("x", a={"type": "string", "title": "pass\u200bword"}),
    form("x", a={"type": "string", "format": "password"}), form("x", a={"type": "string", "writeOnly": True}),
    form("x", seed_phrase=None), form("x", cvv2={"type": "integer"}), form("x", sessionId=None),
    form("x", contraseña=None), form("x", 密码=None), form("请输入您的密码", a=None),
    form("x", пароль=None), form("x", パスワード=None), form("x", 비밀번호=None), form("x", Passwort=None),
    form("x", mot_de_passe=None), form("x", a={"type": "string", "description": "your recovery code"}),
    form("Your token, please"), form("Paste the contents of your credentials file", text=None),
    form("Provide your gmail verification code", text=None), form("x", otp=None), form("x", cookie=None),
    form("x", session_cookie=None), form("x", userPin=None), form("x", card_cvv=None), form("x", **{"pass": None}),
    form("x", p4ssw0rd=None), form("x", **{"t0ken": None}), form("x", a={"type": "string", "default": "password:"}),
    form("x", a={"type": "string", "title": "Contents of ~/.ssh/id_rsa"}),
    types.ElicitRequestFormParams(message="x", requested_schema={
        "type": "object", "title": "Enter your password", "properties": {"a": {"type": "string"}}}),
    form("x", a={"type": "object", "properties": {"password": {"type": "string"}}}),
    form("x", a={"type": "string", "enum": ["no", "yes\u202e"]}),
]  # fmt: skip


@owes("K-79")
@pytest.mark.parametrize(
    "params", PHISHING, ids=lambda p: f"{p.message}-{list(p.requested_schema['properties'])}"
)
async def test_a_form_for_a_secret_is_declined_and_nobody_is_asked(params: Any) -> None:
    asking, person = ElicitationHandler("s"), Person()
    asking.people = person

    assert (await asking.elicit(None, params)).action == "decline"
    assert person.asked == []


HONEST = [
    form("Which colour?", colour=None), form("Your name?", name=None), form("Name for the new API key", name=None),
    form("Enter a name for the new API key", name=None), form("Which project is the token for?", project=None),
    form("Compass heading?", heading={"type": "string"}), form("How many passengers?", passengers=None),
    form("Your token has expired. Renew it?", renew={"type": "boolean"}), form("Continue?"),
    form("Enter the city", city=None), form("Which one?", boarding_pass=None), form("Which?", monkey=None),
    form("Which keyboard?", keyboard_layout=None), form("Model?", model={"type": "string", "default": "gpt-5.1"}),
]  # fmt: skip


@pytest.mark.parametrize("params", HONEST, ids=lambda p: p.message)
async def test_an_honest_form_reaches_the_person_with_the_servers_name(params: Any) -> None:
    asking, person = ElicitationHandler("s"), Person("yes")
    asking.people = person

    assert (await asking.elicit(None, params)).action == "accept"
    assert all(text.startswith("[MCP server s asks]") for text in person.asked)


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "http://bank.example/", "HTTPS:bank.example",
     "https://evil.example\\@bank.example/", "https://bank.example@evil.example/", "https://bank.example:443@evil.example/",
     "https://b\u0430nk.example/", "https://bank.example/\u202egpj", "https://bank.example/ x", "https://[::1",
     "https://x\ty", "https://x\ny", "", "https://", "ssh://x", "https://x/<script>", "https://x/`id`"],
    ids=repr,
)  # fmt: skip
async def test_an_address_that_could_be_misread_is_never_shown(url: str) -> None:
    asking, person = ElicitationHandler("s"), Person("done")
    asking.people = person
    params = types.ElicitRequestURLParams(message="m", url=url, elicitation_id="1")

    found = await asking.elicit(None, params)

    assert found.action == "decline" and person.asked == [], (found, person.asked)


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://bank.example.evil.example/login", "bank.example.evil.example"), ("https://xn--bnk-5cd.example/", "xn--bnk-5cd.example"),
     ("http://127.0.0.1:8000/x", "127.0.0.1"), ("https://BANK.example/", "bank.example")],
)  # fmt: skip
async def test_a_plain_address_is_shown_whole_with_its_host(url: str, host: str) -> None:
    asking, person = ElicitationHandler("s"), Person("done")
    asking.people = person

    found = await asking.elicit(None, types.ElicitRequestURLParams(message="m", url=url, elicitation_id="1"))

    assert found.action == "accept"
    assert f"at the host {host}:" in person.asked[0] and url in person.asked[0]


@pytest.mark.parametrize(
    "schema",
    [{"properties": 5}, {"properties": ["a"]}, {"properties": {"a": 5}}, {"properties": {"a": None}},
     {"properties": {"a": {"enum": 5}}}, {"properties": {"a": {"type": ["x"]}}}, {"properties": {}, "required": 5}, {}],
    ids=str,
)  # fmt: skip
@pytest.mark.slow
async def test_a_form_that_is_none_is_answered_and_the_call_goes_on(schema: Any, peer: Make) -> None:
    server = peer(
        tools=[tool("t")],
        behave={"t": "ask"},
        elicit={"message": "m", "requestedSchema": schema},
        _timeout_s=5,
    )

    async with Executor([server], approver=AllowOnce(), provide=[Person()]) as door:
        result = await door.call("mcp_s_t", {})

    assert result.ok, result.text


async def test_a_form_of_endless_words_is_judged_at_once() -> None:
    asking, person = ElicitationHandler("s"), Person()
    asking.people = person
    words = "auth" * 300_000
    fields = {f"{words}{n}": {"type": "string", "title": words, "description": words} for n in range(30)}
    started = time.process_time()

    await asking.elicit(None, form(f"enter {words}", **fields))

    assert time.process_time() - started < 2
    assert len(person.asked) <= 20


async def test_a_default_is_shown_without_what_cannot_be_seen() -> None:
    asking, person = ElicitationHandler("s"), Person()
    asking.people = person

    await asking.elicit(
        None, form("Which?", a={"type": "string", "default": "\x1b[31mred\u202e" + "x" * 5000})
    )

    assert "(default: red" in person.asked[0] and len(person.asked[0]) < 500
