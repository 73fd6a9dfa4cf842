"""The environment of this process: the one place that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """This process's environment variables, live: what is set later shows."""
    return os.environ


def secrets_of(values: Mapping[str, str]) -> dict[str, str]:
    """The values in an environment that are secrets by their names; they never reach a model."""
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
    return {
        name: value
        for name, value in values.items()
        if len(value) >= 8 and any(w in name.upper() for w in words) and not value.startswith("/")
    }
