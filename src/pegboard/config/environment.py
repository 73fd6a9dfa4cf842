"""The environment of this process: the one place that reads it (DESIGN 3)."""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """This process's environment variables, live: what is set later shows."""
    return os.environ
