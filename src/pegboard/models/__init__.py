"""models: one module a provider; names resolve lazily through the family's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pegboard.models.local import LocalModel as LocalModel
    from pegboard.models.resolve import choose_model as choose_model
    from pegboard.models.scripted import ScriptedModel as ScriptedModel

MODELS: dict[str, str] = {
    "openai": "pegboard.models.openai:OpenAIModel",
    "openai-responses": "pegboard.models.openai_responses:OpenAIResponsesModel",
    "anthropic": "pegboard.models.anthropic:AnthropicModel",
    "gemini": "pegboard.models.gemini:GeminiModel",
    "gguf": "pegboard.models.gguf:GgufModel",
    "local": "pegboard.models.local:LocalModel",
    "scripted": "pegboard.models.scripted:ScriptedModel",
}
"""The family: `--model` prefix to `module:class`; nothing is imported before it is used.

A class is made with `(name, api_key=, base_url=, waiting=)`, the key from `PREFIX_API_KEY`; one that is opened otherwise
has a class method `open_named(name, sources)`."""

_PUBLIC = {
    "ScriptedModel": "pegboard.models.scripted",
    "LocalModel": "pegboard.models.local",
    "choose_model": "pegboard.models.resolve",
}

__all__ = ["MODELS", "LocalModel", "ScriptedModel", "choose_model"]


def __getattr__(name: str) -> Any:
    """The public names, imported on first use."""
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
