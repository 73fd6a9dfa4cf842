"""Cost and windows by genai-prices' tables, without a network (ledger G-21)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from genai_prices import Usage as Tokens
from genai_prices import calc_price

from pegboard import Agent
from pegboard.app.pricing import price, window_tokens
from pegboard.core.transcript import Usage
from pegboard.models import ScriptedModel
from tests.ledger import owes


@owes("G-21")
def test_cached_tokens_cost_what_cached_tokens_cost() -> None:
    ours = price(
        "anthropic:claude-sonnet-4-5", "", Usage(input_tokens=1000, output_tokens=200, cache_read_tokens=9000)
    )

    # By hand, dollars a million: 3 in, 0.30 cached, 15 out.
    assert ours == pytest.approx(0.003 + 0.0027 + 0.003)
    theirs = calc_price(
        Tokens(input_tokens=10_000, output_tokens=200, cache_read_tokens=9000),
        model_ref="claude-sonnet-4-5", provider_id="anthropic",
    )  # fmt: skip
    assert theirs.total_price == Decimal(str(ours)).quantize(Decimal("0.0001"))


@owes("G-21")
async def test_a_run_counts_what_its_turns_cost_where_the_model_has_a_price() -> None:
    usage = {"input_tokens": 1000, "output_tokens": 200}
    turns = [
        {"calls": [{"name": "nothing", "arguments": {}}], "usage": usage},
        {"text": "ok", "usage": usage},
    ]

    priced = await Agent(model=ScriptedModel(turns, name="anthropic:claude-sonnet-4-5")).run("go")
    free = await Agent(model=ScriptedModel(turns, name="mine")).run("go")

    # By hand, dollars a million: 3 in, 15 out, twice.
    assert priced.usage.cost_usd == pytest.approx(2 * (0.003 + 0.003))
    assert free.usage.cost_usd is None


@owes("G-21")
@pytest.mark.parametrize(
    "model", ["local", "gguf:smollm2", "openai:gpt-5@http://h/v1", "openai:no-such-model", "scripted"]
)
def test_what_has_no_known_price_costs_nothing_that_we_would_know(model: str) -> None:
    assert price(model, "", Usage(input_tokens=10)) is None
    assert window_tokens(model) is None


def test_the_window_of_a_known_model_is_known() -> None:
    assert window_tokens("anthropic:claude-sonnet-4-5") in (200_000, 1_000_000)
