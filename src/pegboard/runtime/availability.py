"""Availability: which tools a model may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from pegboard.core.toolkit import Toolkit


class Availability:
    """Tools that only some models get.

    Args:
        allow_models: patterns of model names by tool name or pattern, with or without the provider
            (`{"apply_patch": ["openai:*", "gpt-*"]}`). A tool that is not named is for all models.
    """

    def __init__(self, allow_models: Mapping[str, Sequence[str]]) -> None:
        self._rules = {name: tuple(models) for name, models in allow_models.items()}
        self._kits: dict[tuple[str, int], Toolkit] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def allows(self, tool: str, model: str) -> bool:
        """Whether a model may have a tool."""
        return all(
            any(matches_model(model, m) for m in models)
            for pattern, models in self._rules.items()
            if fnmatchcase(tool, pattern)
        )

    def kit(self, model: str, toolkit: Toolkit) -> Toolkit:
        """The tools of a kit that a model may have; always the same object for the same kit."""
        if not self._rules:
            return toolkit
        key = (model, id(toolkit))
        if key not in self._kits:
            allowed = [t for t in toolkit if self.allows(t.name, model)]
            self._kits[key] = toolkit if len(allowed) == len(toolkit) else Toolkit(allowed)
        return self._kits[key]


def matches_model(model: str, pattern: str) -> bool:
    """`openai:gpt-5`, `gpt-5` and `gpt-*` all name `openai:gpt-5` and `openai:gpt-5@http://host/v1`."""
    model, pattern = model.lower(), pattern.lower()
    family, colon, name = model.partition(":")
    bare = name.partition("@http")[0]
    return any(
        fnmatchcase(m, pattern) for m in (model, f"{family}:{bare}" if colon else model, bare or model)
    )
