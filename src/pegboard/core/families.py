"""Families: how names become modules, as strings, so that nothing is imported before it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_object(path: str) -> Any:
    """The object behind `package.module:name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
