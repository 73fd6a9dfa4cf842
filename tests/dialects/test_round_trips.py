"""Calls and schemas of outside corpora survive every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pegboard.core.content import ToolCall
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.dialects import DIALECTS, dialect
from tests.dialects.corpora import bfcl, sampled, tau_bench
from tests.dialects.kit import FakeKit, kit_of
from tests.ledger import owes
from tests.transcript import CHECKS, assert_valid_transcript

ALL = sorted(DIALECTS)


def reply_of(name: str, wire: list[dict[str, Any]]) -> Any:
    """The provider's reply that holds what was encoded."""
    if name.startswith("openai-chat"):
        return {"choices": [{"message": wire[0], "finish_reason": "tool_calls"}]}
    if name.startswith("openai-responses"):
        return {"output": wire, "status": "completed"}
    if name == "anthropic":
        return {**wire[0], "stop_reason": "tool_use"}
    if name == "gemini":
        return {"candidates": [{"content": wire[0], "finishReason": "STOP"}]}
    if name == "mcp":
        return wire
    return wire[0]["content"]


def survives(name: str, tools: list[dict[str, Any]], calls: list[dict[str, Any]]) -> bool:
    """Whether the calls come back as they were, through JSON as on a wire."""
    spoken = dialect(name)
    kit = kit_of(list({t["name"]: t for t in tools}.values()))
    given = tuple(ToolCall(f"c{n}", c["name"], c["arguments"]) for n, c in enumerate(calls))
    rendered = spoken.render_tools(kit)
    json.dumps(rendered, allow_nan=False)
    wire = json.loads(json.dumps(spoken.encode(AssistantMessage(content=given)), allow_nan=False))
    if name in CHECKS:
        results = tuple(ToolResult(call_id=c.id or "", tool=c.name) for c in given)
        asked = spoken.encode(UserMessage.of("go"))
        assert_valid_transcript([*asked, *wire, *spoken.encode(ResultsMessage(results))], name)
    back = spoken.decode(reply_of(name, wire), kit)
    return [(c.name, _object(c.arguments)) for c in back] == [
        (c["name"], json.dumps(c["arguments"], sort_keys=True)) for c in calls
    ]


def _object(arguments: Any) -> str:
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    return json.dumps(value, sort_keys=True)


@owes("K-09", "D-11", "N-119")
@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_sampled_calls_come_back_as_they_were(name: str) -> None:
    rows = sampled(list(bfcl()), 120) + sampled(list(tau_bench()), 30)

    lost = [calls for tools, calls in rows if calls and not survives(name, tools, calls)]

    assert lost == []


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_call_of_the_corpora_comes_back_as_it_was(name: str) -> None:
    rows = [*bfcl(), *tau_bench()]

    lost = [calls for tools, calls in rows if calls and not survives(name, tools, calls)]

    assert (len([calls for _, calls in bfcl() if calls]), lost) == (2462, [])


@owes("X-07", "K-07")
@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_schema_of_the_corpora_is_rendered_as_the_provider_takes_it(name: str) -> None:
    kits = [tools for tools, _ in bfcl()]
    spoken = dialect(name)

    schemas = 0
    for tools in kits:
        kit = kit_of(list({t["name"]: t for t in tools}.values()))
        rendered = spoken.render_tools(kit)
        schemas += len(tools)
        for parameters in parameters_of(rendered):
            assert parameters["type"] == "object"
            assert isinstance(parameters["properties"], dict)
            assert isinstance(parameters.get("required", []), list)
            assert not {"oneOf", "anyOf", "allOf", "enum", "not"}.intersection(parameters)

    assert schemas == 6376


def parameters_of(rendered: Any) -> list[dict[str, Any]]:
    """The schemas in rendered tools, whatever the provider calls them."""
    if isinstance(rendered, str):
        return []
    flat = [d for t in rendered for d in t.get("functionDeclarations", [t.get("function", t)])]
    return [d.get("parameters") or d.get("input_schema") or d.get("inputSchema") for d in flat]


def test_no_tools_render_to_nothing() -> None:
    assert [dialect(name).render_tools(FakeKit()) for name in ALL] == [
        "" if name in ("text", "xml") else [] for name in ALL
    ]
