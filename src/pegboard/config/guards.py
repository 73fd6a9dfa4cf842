"""The tables `[budgets.NAME]`, `[secrets.NAME]` and `[taint]` of a settings file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pegboard.config.reading import table_of, texts
from pegboard.config.secrets import SecretSpec
from pegboard.core.errors import ConfigError
from pegboard.core.policy.budgets import MEASURES, Budget
from pegboard.core.policy.taint import TaintRules
from pegboard.core.secrets.handles import SecretBinding

_BUDGET: Final = ("per", "tool", "agent", "session", "each", "soft", *MEASURES)
_BINDING: Final = ("hosts", "commands", "servers", "recipients")


def read_budgets(table: Mapping[str, Any], path: Path) -> tuple[Budget, ...]:
    """The budgets of a file.

    Raises:
        ConfigError: an unknown key, a wrong value; the message names file and key.
    """
    out: list[Budget] = []
    for name, given in table.items():
        row = table_of(given, path, f"budgets.{name}", _BUDGET)
        for key in (*MEASURES, "soft"):
            if key in row and (isinstance(row[key], bool) or not isinstance(row[key], int | float)):
                raise ConfigError(f"{path}: budgets.{name}.{key} must be a number, not {row[key]!r}")
        for key in ("per", "tool", "agent", "session"):
            if key in row and not isinstance(row[key], str):
                raise ConfigError(f"{path}: budgets.{name}.{key} must be text, not {row[key]!r}")
        if "each" in row:
            row["each"] = texts(row["each"], path, f"budgets.{name}.each")
        try:
            out.append(Budget(name=name, **row))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
    return tuple(out)


def read_secrets(table: Mapping[str, Any], path: Path) -> dict[str, SecretSpec]:
    """The secrets of a file by name.

    Raises:
        ConfigError: see read_budgets; a secret that may go nowhere is an error too.
    """
    out: dict[str, SecretSpec] = {}
    for name, given in table.items():
        row = table_of(given, path, f"secrets.{name}", ("from", *_BINDING))
        bound = {k: texts(row[k], path, f"secrets.{name}.{k}") for k in _BINDING if k in row}
        if not any(bound.values()) or not isinstance(row.get("from"), str):
            raise ConfigError(
                f'{path}: secrets.{name} needs from = "env:NAME" (or file:, keyring:) and at least one of '
                f"{', '.join(_BINDING)}"
            )
        try:
            out[name] = SecretSpec(binding=SecretBinding(name=name, **bound), source=row["from"])
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
    return out


def read_taint(table: Mapping[str, Any], path: Path, *, before: TaintRules) -> TaintRules:
    """What is private or trusted, added to what was so before.

    Raises:
        ConfigError: see read_budgets.
    """
    row = table_of(table, path, "taint", ("private", "trusted"))
    return TaintRules(
        private=before.private + texts(row.get("private", []), path, "taint.private"),
        trusted=before.trusted + texts(row.get("trusted", []), path, "taint.trusted"),
    )
