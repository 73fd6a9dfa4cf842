"""Reading a settings file: its text, its keys, its variables, and where in it something stands."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import ConfigError
from pegboard.core.schema.repair import Unrepairable, repair_json

KEYS: Final = (
    "mode", "model", "rules", "instructions", "tools", "allowed_dirs", "read_only_dirs", "sandbox",
    "require_sandbox", "hosts", "network", "limits", "path_prepend", "exec_timeout_s", "mcpservers",
    "budgets", "secrets", "taint", "compat", "http_tools", "openapi", "skills", "plugins",
    "fallback_models", "allow_models", "model_servers", "model_keys",
)  # fmt: skip
"""The keys of the first level."""

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def read_file(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """A settings file as a dict with keys in lower case without `-`, and variables filled in.

    Raises:
        ConfigError: see load_config.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the config file {path}: {error}") from None
    value = _parse(text, path)
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected a table of keys, got {type(value).__name__}")
    return cast("dict[str, Any]", _fill(_folded(cast("dict[str, Any]", value)), path, "", environment))


def raw_file(path: Path) -> Any:
    """A settings file's value as it is written, variables unfilled.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the config file {path}: {error}") from None
    # Editors' .json files carry comments and trailing commas.
    return _parse(text, path.with_suffix(".json5") if path.suffix == ".json" else path)


def _parse(text: str, path: Path) -> Any:
    try:
        match path.suffix:
            case ".toml":
                return tomllib.loads(text)
            case ".yaml" | ".yml":
                import yaml

                return yaml.safe_load(text) or {}
            case ".json":
                return json.loads(text)
            case _:
                # JSON5 is JSON with the slips that the repair knows: comments, single quotes, trailing commas.
                read = repair_json(text)
                if read.truncated:
                    raise ConfigError(f"{path}: the file ends in the middle of a value")
                return read.value
    except (ValueError, Unrepairable) as error:
        raise ConfigError(f"{path}: {error}") from None
    except Exception as error:  # PyYAML's errors share no class with ours, and it is loaded for YAML alone.
        if type(error).__module__.startswith("yaml"):
            raise ConfigError(f"{path}: {error}") from None
        raise


def _folded(value: dict[str, Any]) -> dict[str, Any]:
    """Keys of the first level by their meaning: without regard to case, `_` and `-`."""
    known = {_fold(k): k for k in KEYS}
    return {known.get(_fold(str(k)), str(k)): v for k, v in value.items()}


def _fold(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _fill(value: Any, path: Path, key: str, environment: Mapping[str, str]) -> Any:
    """Fill `${VAR}` and `${VAR:-default}` in every text below `value`."""
    if isinstance(value, str):

        def one(match: re.Match[str]) -> str:
            found = environment.get(match[1])
            if not found and match[2] is not None:
                # As in a shell: the default stands for a variable that is not set, or empty.
                found = match[2]
            if found is None:
                raise ConfigError(
                    f"{path}: key {key} needs the environment variable {match[1]}, which is not set"
                )
            return found

        return _VARIABLE.sub(one, value)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {k: _fill(v, path, f"{key}.{k}".lstrip("."), environment) for k, v in table.items()}
    if isinstance(value, list):
        return [_fill(v, path, f"{key}[{i}]", environment) for i, v in enumerate(cast("list[Any]", value))]
    return value


def read_unfilled(path: Path) -> dict[str, Any]:
    """`read_file` with every `${VAR}` as it is written, for a file that may not see the environment.

    Raises:
        ConfigError: see read_file.
    """
    return read_file(path, KeepVariables())


class KeepVariables(dict[str, str]):
    """Gives every variable back as it was written."""

    def get(self, key: str, default: Any = None) -> Any:
        return "${" + key + "}"


def written(rule: Any) -> str:
    """A piece of a rule as it stands in its file."""
    if isinstance(rule, dict):
        texts = [v for v in cast("dict[Any, Any]", rule).values() if isinstance(v, str)]
        return texts[0] if texts else str(next(iter(cast("dict[Any, Any]", rule)), ""))
    return str(rule)


def place(path: Path, text: str) -> str:
    """`FILE:LINE` where a text stands in exactly one line of the file, else `FILE`."""
    spelt = {text, json.dumps(text)[1:-1], text.replace("'", "\\'")}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return str(path)
    found = [n for n, line in enumerate(lines, 1) if text and any(s in line for s in spelt)]
    return f"{path}:{found[0]}" if len(found) == 1 else str(path)


def typed(kind: Any, value: Any, path: Path, key: str) -> Any:
    """`value`, when it is of one of the kinds.

    Raises:
        ConfigError: it is not; the message names file and key.
    """
    kinds = cast("tuple[type, ...]", kind if isinstance(kind, tuple) else (kind,))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join(k.__name__ for k in kinds)
        raise ConfigError(f"{path}: key {key} must be {names}, not {type(value).__name__} ({value!r:.60})")
    return value
