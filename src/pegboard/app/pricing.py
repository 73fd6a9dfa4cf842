"""Pricing: dollars of a model turn and sizes of models' windows, from genai-prices' tables (no network)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pegboard.core.transcript import Usage

PROVIDERS: Final = {
    "openai": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
}
"""genai-prices' name of each family whose models cost money."""


def price(asked: str, replied: str, usage: Usage) -> float | None:
    """Dollars of one turn, None where no price is known: an own server, a local model, a new name.

    Args:
        asked: the model as `--model` names it.
        replied: the model as its answer names itself; may be empty.
        usage: tokens; cached ones apart.
    """
    if replied.partition(":")[0] in PROVIDERS:
        # One of several models: its answer carries its whole name.
        asked, replied = replied, ""
    provider = _provider(asked)
    if provider is None:
        return None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(
        # Theirs counts every token that was read, ours the fresh ones apart from cached ones.
        input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens or None,
        cache_write_tokens=usage.cache_write_tokens or None,
    )
    for name in dict.fromkeys((replied, _bare(asked))):
        if name:
            try:
                return float(calc_price(tokens, model_ref=name, provider_id=provider).total_price)
            except (LookupError, ValueError):
                continue
    return None


def price_of_media(provider: str, model: str, counted: Mapping[str, int]) -> float | None:
    """Dollars of a picture or a spoken text, None where no price is known.

    Args:
        provider: `openai` or `gemini`.
        model: the provider's name of it.
        counted: what is paid for, by genai-prices' names: `input_tokens`, `output_image_tokens`, `input_characters`, …
    """
    known = PROVIDERS.get(provider)
    if known is None or not counted:
        return None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    try:
        # A model that is paid by other things than were counted would seem to cost nothing.
        return float(calc_price(Tokens(**counted), model_ref=model, provider_id=known).total_price) or None
    except (LookupError, ValueError):
        return None


@lru_cache(maxsize=64)
def window_tokens(asked: str) -> int | None:
    """Tokens of a model's window, None where it is not known."""
    provider = _provider(asked)
    if provider is None:
        return None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    try:
        found: Any = calc_price(Tokens(input_tokens=1), model_ref=_bare(asked), provider_id=provider)
    except (LookupError, ValueError):
        return None
    size = found.model.context_window
    return size if isinstance(size, int) and size > 0 else None


def _provider(asked: str) -> str | None:
    family, _, name = asked.partition(":")
    # Another server may serve any model under any name, at its own price.
    return None if "@http" in name else PROVIDERS.get(family)


def _bare(asked: str) -> str:
    return asked.partition(":")[2]
