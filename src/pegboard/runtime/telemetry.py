"""Telemetry: OpenTelemetry spans and metrics by the GenAI semantic conventions.

Off unless the program has set up an OpenTelemetry SDK; then nothing is imported and nothing costs.
What people and models said is never put into spans, only names, counts and times.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

from pegboard.core.call.call import Invocation
from pegboard.core.events import CallFinished, Event, RunFinished
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage

PROVIDERS: Final = {
    "openai": "openai", "openai-responses": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini",
}  # fmt: skip
"""Well-known values of `gen_ai.provider.name`; other families stand under their own names."""

FINISH: Final = {
    "end": "stop",
    "tools": "tool_calls",
    "filtered": "content_filter",
    "refusal": "content_filter",
}

TOKEN_BUCKETS: Final = (
    1,
    4,
    16,
    64,
    256,
    1024,
    4096,
    16384,
    65536,
    262144,
    1048576,
    4194304,
    16777216,
    67108864,
)
SECOND_BUCKETS: Final = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)


def telemetry() -> Telemetry | None:
    """The telemetry of this process, None where no SDK has been set up."""
    if "opentelemetry.sdk.trace" not in sys.modules and "opentelemetry.sdk.metrics" not in sys.modules:
        return None
    return Telemetry()


class Telemetry:
    """Writes spans and metrics to whatever provider the program has set."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace

        meter = metrics.get_meter("pegboard")
        self._tracer = trace.get_tracer("pegboard")
        self._kinds = trace.SpanKind
        self._ran: set[str] = set()
        """Calls that have a span of their own and no result so far."""
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration",
            explicit_bucket_boundaries_advisory=SECOND_BUCKETS,
        )

    @contextmanager
    def agent(self, name: str, session: str, model: str) -> Generator[Callable[[RunFinished], None]]:
        """The span of a run; give its end to what is yielded."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider_of(model),
            "gen_ai.agent.name": name,
            "gen_ai.conversation.id": session,
            "gen_ai.request.model": bare(model),
        }
        with self._span(f"invoke_agent {name}", self._kinds.INTERNAL, attributes) as span:

            def ended(finished: RunFinished) -> None:
                usage = finished.usage
                span.set_attribute("gen_ai.usage.input_tokens", _read(usage))
                span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
                span.set_attribute("pegboard.run.id", finished.run)
                span.set_attribute("pegboard.run.status", finished.status)
                if usage.cost_usd is not None:
                    span.set_attribute("pegboard.usage.cost_usd", usage.cost_usd)
                if finished.status == "failed":
                    self._failed(span, "failed")

            yield ended

    @contextmanager
    def chat(self, model: str) -> Generator[Callable[[AssistantMessage], None]]:
        """The span of one model turn; give its message to what is yielded."""
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_of(model),
            "gen_ai.request.model": bare(model),
        }
        measured = dict(attributes)
        started = perf_counter()
        try:
            with self._span(f"chat {bare(model)}", self._kinds.CLIENT, attributes) as span:

                def replied(message: AssistantMessage) -> None:
                    usage = message.usage
                    if message.model:
                        span.set_attribute("gen_ai.response.model", message.model)
                        measured["gen_ai.response.model"] = message.model
                    span.set_attribute(
                        "gen_ai.response.finish_reasons", [FINISH.get(message.stop, message.stop)]
                    )
                    span.set_attribute("gen_ai.usage.input_tokens", _read(usage))
                    span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
                    span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens)
                    span.set_attribute("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens)
                    if usage.cost_usd is not None:
                        span.set_attribute("pegboard.usage.cost_usd", usage.cost_usd)
                    for kind, count in (("input", _read(usage)), ("output", usage.output_tokens)):
                        self._tokens.record(count, {**measured, "gen_ai.token.type": kind})

                yield replied
        except BaseException as error:
            measured["error.type"] = type(error).__name__
            raise
        finally:
            self._seconds.record(perf_counter() - started, measured)

    async def tool(self, invocation: Invocation, next: Callable[[], Awaitable[Any]]) -> Any:
        """A middleware: the span of one call that was allowed to run."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": invocation.tool.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": invocation.call.id,
        }
        self._ran.add(invocation.call.id)
        started = perf_counter()
        measured: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": invocation.tool.name,
        }
        try:
            with self._span(f"execute_tool {invocation.tool.name}", self._kinds.INTERNAL, attributes) as span:
                value = await next()
                if isinstance(value, ToolResult) and value.error is not None:
                    self._failed(span, value.error.code)
                return value
        except BaseException as error:
            measured["error.type"] = getattr(error, "code", type(error).__name__)
            raise
        finally:
            self._seconds.record(perf_counter() - started, measured)

    def on_event(self, event: Event) -> None:
        """A listener: a call that never came to run (refused, invalid, beyond a limit) has a span and a time too."""
        if not isinstance(event, CallFinished):
            return
        result = event.result
        if result.call_id in self._ran:
            self._ran.discard(result.call_id)
            return
        if result.error is None or result.error.code == "suspended":
            return
        # A name that no tool has is the model's own words, and each would open a series of its own.
        tool = "_OTHER" if result.error.code == "unknown_tool" else result.tool
        named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        more = {"gen_ai.tool.type": "function", "gen_ai.tool.call.id": result.call_id}
        with self._span(f"execute_tool {tool}", self._kinds.INTERNAL, {**named, **more}) as span:
            self._failed(span, result.error.code)
        self._seconds.record(result.notes.duration_s, {**named, "error.type": result.error.code})

    @contextmanager
    def _span(self, name: str, kind: Any, attributes: dict[str, Any]) -> Generator[Any]:
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                self._failed(span, getattr(error, "code", type(error).__name__))
                raise

    def _failed(self, span: Any, kind: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR))


def provider_of(model: str) -> str:
    """`gen_ai.provider.name` of a model as `--model` names it."""
    family = model.partition(":")[0]
    return PROVIDERS.get(family, family)


def bare(model: str) -> str:
    """The model's name without family and server."""
    return model.partition(":")[2].partition("@http")[0] or model


def _read(usage: Any) -> int:
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
