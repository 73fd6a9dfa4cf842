"""Promises that held only by luck: names that meet, prompts that are not allowed, defaults, addresses with a password."""

from __future__ import annotations

import pytest

from pegboard.core.errors import ConfigError
from pegboard.mcp.catalogue import build_catalogue
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.config_formats import servers_of
from pegboard.mcp.http import refuse_clear_credentials
from pegboard.mcp.naming import exposed_name, name_all
from tests.ledger import owes
from tests.mcp.conftest import tool


@owes("X-39")
def test_a_name_that_imitates_the_name_of_another_tool_gets_one_of_its_own() -> None:
    made = exposed_name("s", "a.b")  # changed, so that it ends in a digest
    imitation = made.removeprefix("mcp_s_")

    first, second = name_all("s", ["a.b", imitation])

    assert (first.name, exposed_name("s", imitation)) == (made, made)
    assert second.name not in ("", made) and second.original == imitation


@owes("K-80")
def test_prompts_that_are_not_allowed_are_not_listed() -> None:
    prompts = [{"name": "greet"}, {"name": "grow"}, {"name": "drop"}]

    found = build_catalogue("s", tools=[tool("greet")], prompts=prompts, allow=("gr*",), deny=("grow",))

    assert [p["name"] for p in found.prompts] == ["greet"]


@owes("X-46")
def test_calls_of_a_server_go_in_order_unless_its_settings_say_otherwise() -> None:
    (read,) = servers_of({"s": {"command": "x"}}, environment={})

    assert ServerConfig(name="s", command="x").parallel is False
    assert read.parallel is False


@owes("mcp-084")
@pytest.mark.parametrize("url", ["http://me:secret@host.example/mcp", "http://:secret@10.0.0.1/mcp"])
def test_a_password_in_an_address_is_a_credential_too(url: str) -> None:
    with pytest.raises(ConfigError, match="in the clear"):
        refuse_clear_credentials(url, {}, has_auth=False)
    refuse_clear_credentials(url.replace("http:", "https:"), {}, has_auth=False)
