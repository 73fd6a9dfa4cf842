"""Streams that no document shows, from a loopback server through the whole loop: every call is made once and answered (ledger K-49)."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import Agent, tool
from pegboard.core.effects import PURE
from pegboard.core.events import CallFinished
from tests.dialects.test_odd_streams import CHAT, MESSAGES, RESPONSES, Row, delta
from tests.ledger import owes
from tests.models.test_contract import PROVIDERS, Spoken, model_at
from tests.models.test_providers import a_start, r_response
from tests.models.wire import answer, serving

ROWS: list[tuple[str, str, Row]] = [
    *(("openai", name, row) for name, row in CHAT.items() if row[2]),
    *(("anthropic", name, row) for name, row in MESSAGES.items()),
    *(("openai-responses", name, row) for name, row in RESPONSES.items() if row[1] or row[2]),
]


def whole(provider: str, chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events with what stands around them on the wire."""
    if provider == "openai":
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return [{**head, **chunk} for chunk in [*chunks, delta({}, finish_reason="tool_calls")]]
    if provider == "anthropic":
        return [a_start(), *chunks, {"type": "message_stop"}]
    last = {"type": "response.completed", "sequence_number": 9, "response": r_response("completed", [])}
    return [*chunks[:-1], last]


@owes("K-49", "args-20", "args-21")
@pytest.mark.parametrize(("name", "what", "row"), ROWS, ids=lambda v: v if isinstance(v, str) else "")
async def test_every_call_of_an_odd_stream_is_made_once_and_answered(name: str, what: str, row: Row) -> None:
    chunks, text, calls = row
    made: list[tuple[str, str]] = []

    @tool(effects=PURE)
    async def read(path: Any = None) -> str:
        """Read."""
        made.append(("read", path))
        return "ok"

    @tool(effects=PURE)
    async def look(path: Any = None) -> str:
        """Look."""
        made.append(("look", path))
        return "ok"

    provider: Spoken = next(p for p in PROVIDERS if p.name == name)
    odd = answer(*whole(name, chunks), done=name == "openai", names=name != "openai")
    async with serving(odd, provider.text("done")) as server:
        model, _ = model_at(provider, server)
        answered = await Agent(tools=[read, look], model=model).run("go", session="s")

    good = [(n, (a or {}).get("path")) for _, n, a in calls if not a or isinstance(a, dict)]
    results = [e.result for e in answered.events if isinstance(e, CallFinished)]
    assert answered.status == "done"
    assert answered.answer == ("done" if calls else text)
    assert sorted(made, key=str) == sorted(good, key=str)
    assert len(results) == len(calls)
    assert len({r.call_id for r in results}) == len(calls)
