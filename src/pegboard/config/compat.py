"""`[compat.DOCUMENT]`: the security settings of another system, as rules of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.config.web import FROM_DOCUMENTS
from pegboard.core.errors import ConfigError
from pegboard.core.schema.problems import did_you_mean, fold

if TYPE_CHECKING:
    from pegboard.compat.rules import CompiledRules

_KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "nanobot": ("deny_patterns", "allow_patterns", "restrict_to_workspace", "timeout", "working_dir"),
    "nanobot-hook": ("dangerous_tools", "dangerous_patterns"),
    "nanobot-net": ("additionalDeniedPatterns", "timeout"),
    "moltbot": ("exec", "web", "message", "tools", "applyPatch"),
    "artifactflow": (),
}
"""The keys of each document's table; artifactflow's are tool names."""

_USED: Final = frozenset({"exec.timeout_s", "exec.path_prepend"}) | FROM_DOCUMENTS
"""Settings beside rules that have a place here."""


def read_documents(table: Mapping[str, Any], path: Path) -> CompiledRules:
    """All documents' settings of a file together, in the order of the file.

    Raises:
        ConfigError: an unknown document or key, a pattern or word that cannot be read; the message names
            file and key, and the nearest known one.
    """
    # Not at the top: nearly no file has such a table, and the rules bring the shell's parser with them.
    from pegboard.compat.rules import CompiledRules, compile_rules

    found = CompiledRules()
    for name, settings in table.items():
        document = _named(name, path)
        if not isinstance(settings, Mapping):
            raise ConfigError(f"{path}: compat.{name} must be a table, not {settings!r:.60}")
        given = cast("Mapping[str, Any]", settings)
        _check_keys(document, given, path)
        try:
            meant = compile_rules(document, given)
        except ConfigError as error:
            raise ConfigError(f"{path}: compat.{name}: {error}") from None
        idle = [
            f"compat.{name} sets {s}, which Pegboard does not support"
            for s in meant.settings
            if s not in _USED
        ]
        found = CompiledRules(
            rules=found.rules + meant.rules,
            mode=found.mode or meant.mode,
            settings={**found.settings, **meant.settings},
            warnings=(*found.warnings, *(f"compat.{name}: {w}" for w in meant.warnings), *idle),
        )
    return found


def without_servers(section: Mapping[str, Any]) -> dict[str, Any]:
    """A section `tools` of another system without its servers, which `config.servers` reads."""
    return {k: v for k, v in section.items() if fold(k) != "mcpservers"}


def _named(name: str, path: Path) -> str:
    plain = name.lower().replace("_", "-")
    if plain not in _KNOWN:
        meant = did_you_mean(plain, _KNOWN, otherwise=f"; known keys: {', '.join(_KNOWN)}")
        raise ConfigError(f"{path}: unknown key compat.{name}{meant}")
    return plain


def _check_keys(document: str, given: Mapping[str, Any], path: Path) -> None:
    known = _KNOWN[document]
    folded = {fold(k) for k in known}
    for key in given:
        if known and fold(key) not in folded:
            meant = did_you_mean(key, known, otherwise=f"; known keys: {', '.join(known)}")
            raise ConfigError(f"{path}: unknown key compat.{document}.{key}{meant}")


__all__ = ["read_documents", "without_servers"]
