"""The table `[diagnostics]` of a settings file: which checkers look at a file after a call has changed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from pegboard.config.reading import table_of, texts, typed
from pegboard.core.errors import ConfigError
from pegboard.core.schema.problems import did_you_mean

if TYPE_CHECKING:
    from pegboard.lsp.programs import Checker


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticsSettings:
    """`[diagnostics]`.

    Attributes:
        enabled: results say what a write broke.
        files: by pattern of a file's path, what looks at it beside Python's compiler.
    """

    enabled: bool = True
    files: Mapping[str, tuple[Checker, ...]] = field(default_factory=dict[str, "tuple[Checker, ...]"])

    def wants(self, path: str) -> bool:
        """Whether anything may look at a file."""
        return self.enabled and (bool(self.files) or path.endswith((".py", ".pyi")))


def read_diagnostics(value: Any, path: Path, *, before: DiagnosticsSettings) -> DiagnosticsSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key, checker or pattern, or a wrong value; the message names file and key.
    """
    import re

    from pegboard.core.policy.patterns import path_glob

    table = table_of(value, path, "diagnostics", ("enabled", "files"))
    enabled = typed(bool, table.get("enabled", before.enabled), path, "diagnostics.enabled")
    files = dict(before.files)
    for pattern, named in typed(dict, table.get("files", {}), path, "diagnostics.files").items():
        key = f"diagnostics.files.{pattern!r}"
        try:
            path_glob(pattern)
        except re.error as error:
            raise ConfigError(f"{path}: {key} is not a pattern of file names: {error}") from None
        rows = cast("list[Any]", named) if isinstance(named, list) else [named]
        files[pattern] = tuple(_checker(row, path, key) for row in rows)
    _check_names(files, path)
    return replace(before, enabled=enabled, files=files)


def _checker(row: Any, path: Path, key: str) -> Checker:
    from pegboard.lsp.programs import KNOWN, Checker

    if isinstance(row, str):
        if row not in KNOWN:
            meant = did_you_mean(row, KNOWN, otherwise=f"; known: {', '.join(KNOWN)}")
            raise ConfigError(
                f'{path}: {key}: {row!r} is not the name of a known checker; write {{ command = ["PROGRAM", "{{file}}"] }} '
                f'or {{ server = ["PROGRAM"] }}{meant}'
            )
        return KNOWN[row]
    table = table_of(row, path, key, ("command", "server", "name"))
    kinds = [kind for kind in ("command", "server") if kind in table]
    if len(kinds) != 1:
        raise ConfigError(
            f"{path}: {key} needs either command or server, each a list of a program and its arguments"
        )
    argv = texts(table[kinds[0]], path, f"{key}.{kinds[0]}")
    if not argv or not argv[0]:
        raise ConfigError(f"{path}: {key}.{kinds[0]} names no program")
    name = typed(str, table.get("name", PurePosixPath(argv[0]).name), path, f"{key}.name")
    return Checker(name=name, argv=argv, kind="server" if kinds[0] == "server" else "command")


def _check_names(files: Mapping[str, tuple[Checker, ...]], path: Path) -> None:
    seen: dict[str, Checker] = {}
    for checker in (c for several in files.values() for c in several):
        if seen.setdefault(checker.name, checker).argv != checker.argv:
            raise ConfigError(
                f"{path}: diagnostics.files starts {checker.name} in two ways; give one of them another name with "
                'name = "…"'
            )
