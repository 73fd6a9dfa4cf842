"""Spans and metrics by the GenAI semantic conventions; off without an SDK (ledger G-21)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pegboard import Agent, tool
from pegboard.core.effects import PURE, Effect
from pegboard.models import ScriptedModel
from tests.ledger import owes

ROOT = Path(__file__).parents[2]
SPANS = InMemorySpanExporter()
METRICS = InMemoryMetricReader()


@pytest.fixture(scope="module", autouse=True)
def sdk() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider(metric_readers=[METRICS]))


@pytest.fixture(autouse=True)
def empty(sdk: None) -> Iterator[None]:
    SPANS.clear()
    yield


@tool(effects=PURE)
async def add(a: int, b: int) -> int:
    """Add."""
    with trace.get_tracer("test").start_as_current_span("inside"):
        return a + b


@tool(effects=PURE)
async def boom() -> str:
    """Fail."""
    raise ValueError("secret words")


def spans() -> dict[str, Any]:
    return {s.name: s for s in SPANS.get_finished_spans()}


@owes("G-21")
async def test_a_run_is_an_agent_span_with_its_model_turns_and_calls_inside() -> None:
    usage = {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 50, "cost_usd": 0.01}
    call = {"name": "add", "arguments": {"a": 1, "b": 2}}
    model = ScriptedModel([{"calls": [call], "usage": usage}, {"text": "3"}], name="openai:gpt-9")

    answer = await Agent(tools=[add], model=model).run("the task", session="s1")

    found = spans()
    agent, chat, call_span = found["invoke_agent main"], found["chat gpt-9"], found["execute_tool add"]
    assert chat.parent.span_id == agent.context.span_id
    assert call_span.parent.span_id == agent.context.span_id
    assert found["inside"].parent.span_id == call_span.context.span_id
    first = next(s for s in SPANS.get_finished_spans() if s.name == "chat gpt-9")
    assert dict(first.attributes) == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-9",
        "gen_ai.response.model": "openai:gpt-9", "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 150, "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 50, "gen_ai.usage.cache_creation.input_tokens": 0,
        "pegboard.usage.cost_usd": 0.01,
    }  # fmt: skip
    assert first.kind is trace.SpanKind.CLIENT
    assert dict(call_span.attributes) == {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1_1",
    }  # fmt: skip
    assert agent.attributes["gen_ai.conversation.id"] == "s1"
    assert agent.attributes["pegboard.run.id"] == answer.run_id
    assert not any("the task" in str(s.attributes) for s in SPANS.get_finished_spans())


@owes("G-21")
async def test_a_failed_call_marks_its_span_and_tells_no_words() -> None:
    model = ScriptedModel([{"calls": [{"name": "boom", "arguments": {}}]}, {"text": "sorry"}])

    await Agent(tools=[boom], model=model).run("go")

    span = spans()["execute_tool boom"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes["error.type"] == "ValueError"
    assert "secret words" not in span.to_json()


@owes("G-21")
async def test_a_failed_model_turn_marks_chat_and_agent() -> None:
    await Agent(model=ScriptedModel([{"error": "overloaded"}])).run("go")

    found = spans()
    assert found["chat scripted"].attributes["error.type"] == "ModelError"
    assert found["invoke_agent main"].status.status_code is trace.StatusCode.ERROR


@owes("G-21")
async def test_tokens_and_times_are_measured() -> None:
    usage = {"input_tokens": 11, "output_tokens": 3}
    await Agent(model=ScriptedModel([{"text": "x", "usage": usage}], name="gemini:measured")).run("go")

    data = METRICS.get_metrics_data()
    assert data is not None
    found = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    points: Any = found["gen_ai.client.token.usage"].data.data_points
    mine = {
        p.attributes["gen_ai.token.type"]: p.sum
        for p in points
        if p.attributes["gen_ai.request.model"] == "measured"
    }
    assert mine == {"input": 11, "output": 3}
    assert {
        p.attributes["gen_ai.provider.name"]
        for p in points
        if p.attributes["gen_ai.request.model"] == "measured"
    } == {"gcp.gemini"}
    assert found["gen_ai.client.operation.duration"].unit == "s"


@owes("G-21")
async def test_a_call_that_never_came_to_run_has_its_span_and_time_too() -> None:
    @tool(effects=[Effect("write", "a.txt")])
    async def risky() -> str:
        """Write."""
        return "done"

    calls = [{"name": "risky", "arguments": {}}, {"name": "my secret words", "arguments": {}},
             {"name": "add", "arguments": {"a": "x"}}, {"name": "add", "arguments": {"a": 1, "b": 1}}]  # fmt: skip
    agent = Agent(
        tools=[risky, add], mode="read-only", model=ScriptedModel([{"calls": calls}, {"text": "sorry"}])
    )
    await agent.run("go")

    found = [s for s in SPANS.get_finished_spans() if s.name.startswith("execute_tool")]
    told = sorted((s.name, str((s.attributes or {}).get("error.type"))) for s in found)
    assert told == [
        ("execute_tool _OTHER", "unknown_tool"), ("execute_tool add", "None"),
        ("execute_tool add", "invalid_arguments"), ("execute_tool risky", "permission_denied"),
    ]  # fmt: skip
    run = spans()["invoke_agent main"].context
    assert all(s.parent is not None and s.parent.span_id == run.span_id for s in found)
    data = METRICS.get_metrics_data()
    assert data is not None
    points: Any = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}[
        "gen_ai.client.operation.duration"
    ].data.data_points
    assert "permission_denied" in {p.attributes.get("error.type") for p in points}
    assert not any("secret" in str(p.attributes) for p in points)


@owes("G-21")
def test_every_name_is_one_of_the_semantic_conventions() -> None:
    from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

    known = {
        v
        for m in (gen_ai_attributes, error_attributes, gen_ai_metrics)
        for v in vars(m).values()
        if isinstance(v, str)
    }
    source = (ROOT / "src/pegboard/runtime/telemetry.py").read_text()
    used = set(re.findall(r'"((?:gen_ai|error)\.[a-z_.]+)"', source))

    assert len(used) > 12
    assert used - known == set()


@owes("G-21")
def test_without_an_sdk_nothing_of_it_is_loaded() -> None:
    code = (
        "import asyncio, sys\n"
        "from pegboard import Agent\n"
        "from pegboard.models import ScriptedModel\n"
        "asyncio.run(Agent(model=ScriptedModel([{'text': 'x'}])).run('go'))\n"
        "print(sorted(m for m in sys.modules if m.startswith(('opentelemetry', 'genai_prices'))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.strip() == "[]", done.stdout + done.stderr
