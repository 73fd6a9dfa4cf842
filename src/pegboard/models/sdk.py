"""sdk: a provider's SDK, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pegboard.core.errors import ModelError


def sdk(module: str, extra: str) -> Any:
    """The SDK's module; untyped, since the SDKs are optional and differ in how they export.

    Raises:
        ModelError: it is not installed; the hint names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ModelError(f"{module} is not installed", hint=f"pip install 'pegboard[{extra}]'") from error
