"""open_model: the model that a name, the config or the environment means (decisions 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import Paths
from pegboard.core.families import load


def open_model(
    name: str | None, *, paths: Paths | None = None, environment: Mapping[str, str] | None = None
) -> Any:
    """Open a model.

    Args:
        name: as `--model` takes it; None = the first that is found.
        paths: where weights lie.
        environment: where keys are looked for; None = the process environment.

    Raises:
        ModelError: an unknown name, a missing key or extra, or no model at all; the message says what to do.
    """
    choose = load("pegboard.models.choose:choose")
    return choose(
        name,
        environment=this_environment() if environment is None else environment,
        data_dir=(paths or Paths.of()).data,
    )


def available_models(paths: Paths, environment: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """`{name, status}` of every model family: ready, or what it needs."""
    rows = load("pegboard.models.choose:available")
    return rows(environment=this_environment() if environment is None else environment, data_dir=paths.data)


def fetch_weights(name: str, paths: Paths) -> Any:
    """Fetch a small model's weights; their path.

    Raises:
        ModelError: an unknown name, no network, or a wrong checksum.
    """
    return load("pegboard.models.weights:get")(name, paths.data)
