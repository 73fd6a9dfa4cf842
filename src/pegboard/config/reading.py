"""Reading a settings file: its text, its keys, its variables, and where in it something stands."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import ConfigError
from pegboard.core.schema.problems import did_you_mean, fold

KEYS: Final = (
    "mode", "model", "rules", "instructions", "instructions_files", "tools", "allowed_dirs", "read_only_dirs", "sandbox",
    "require_sandbox", "hosts", "network", "web", "media", "limits", "agents", "subagents", "path_prepend",
    "exec_timeout_s", "mcpservers", "schedules", "channels", "gateway", "auto", "code", "memory", "diagnostics", "sessions", "budgets", "secrets", "taint",
    "compat",
    "http_tools", "openapi",
    "skills", "plugins", "hooks", "browser", "fallback_models", "allow_models", "model_servers", "model_keys", "rate_limits",
    "store",
)  # fmt: skip
"""The keys of the first level."""

_FILLED_LATER: Final = ("mcpservers",)
_AT: Final = re.compile(r"\(at line (\d+), column (\d+)\)|:(\d+) .* at column (\d+)")
_JSON5_PLACE: Final = re.compile(r"^<string>:(\d+) ")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def read_file(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """A settings file as a dict with keys in lower case without `-`, and variables filled in.

    Raises:
        ConfigError: see load_config.
    """
    value = parse_file(path)
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected a table of keys, got {type(value).__name__}")
    try:
        table = _folded(cast("dict[str, Any]", value))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    # Servers are filled one by one where they are read: one that lacks a variable costs only itself.
    return {
        key: value if fold(key) in _FILLED_LATER else _fill(value, path, key, environment)
        for key, value in table.items()
    }


def parse_file(path: Path, *, comments: bool = False) -> Any:
    """A settings file's value as it is written, variables unfilled, by its suffix TOML, YAML, JSON or JSON5.

    Args:
        path: the file.
        comments: `.json` is read as JSON5, since editors allow comments and trailing commas in theirs.

    Raises:
        ConfigError: it cannot be read or parsed, or a key stands twice in one table.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the config file {path}: {error}") from None
    try:
        match path.suffix:
            case ".toml":
                return tomllib.loads(text)
            case ".yaml" | ".yml":
                return _parse_yaml(text) or {}
            case ".json" if not comments:
                return parse_json(text)
            case _:
                return _parse_json5(text)
    except (ValueError, RecursionError) as error:
        said = _JSON5_PLACE.sub(r"line \1: ", str(error))
        raise ConfigError(f"{path}: {said}{_marked(text, error)}") from None


def _marked(text: str, error: Exception) -> str:
    """The line in which a syntax error is, with a mark below the place; empty where the error names none."""
    at = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (0, 0)
    if found := _AT.search(str(error)):
        at = (int(found[1] or found[3]), int(found[2] or found[4]))
    elif str(error).endswith("(at end of document)"):
        at = (len(text.rstrip().splitlines()), 0)
    lines = text.splitlines()
    if not 0 < at[0] <= len(lines):
        return ""
    line = lines[at[0] - 1]
    column = at[1] or len(line) + 1
    start = max(0, column - 60)
    # A tab keeps its width in both lines, so that the mark stands below its character.
    gap = "".join("\t" if c == "\t" else " " for c in line[start : column - 1])
    return f"\n  {line[start : start + 100]}\n  {gap}^"


def parse_json(text: str) -> Any:
    """JSON in which no key stands twice in one object.

    Raises:
        ValueError: it is no JSON, or a key stands twice.
    """
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"the key {key!r} stands twice in one table")
        out[key] = value
    return out


def _parse_json5(text: str) -> Any:
    try:
        return parse_json(text)
    except json.JSONDecodeError:
        import json5  # Imported here: it is slow to load, and most files are plain JSON or TOML.

        return json5.loads(text, object_pairs_hook=_unique)


def _parse_yaml(text: str) -> Any:
    import yaml

    class UniqueKeys(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            _unique([(key.value, None) for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, UniqueKeys)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ValueError(f"{error.problem or error.context}{where}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _folded(value: dict[str, Any]) -> dict[str, Any]:
    """Keys of the first level by their meaning: without regard to case, `_` and `-`."""
    known = {fold(k): k for k in KEYS}
    return _unique((known.get(fold(str(k)), str(k)), v) for k, v in value.items())


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


_WORDS: Final[dict[type, str]] = {
    str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table",
}  # fmt: skip
"""The kinds of values as the guides call them."""


def typed(kind: Any, value: Any, path: Path, key: str) -> Any:
    """`value`, when it is of one of the kinds.

    Raises:
        ConfigError: it is not; the message names file and key.
    """
    kinds = cast("tuple[type, ...]", kind if isinstance(kind, tuple) else (kind,))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join(_WORDS.get(k, k.__name__) for k in kinds if k is not int or float not in kinds)
        hint = f"; write {json.dumps([value])}" if list in kinds and isinstance(value, str) else ""
        raise ConfigError(f"{path}: key {key} must be {names}, not {value!r:.60}{hint}")
    return value


def texts(value: Any, path: Path, key: str) -> tuple[str, ...]:
    """A text, or a list of texts.

    Raises:
        ConfigError: it is neither; the message names file and key.
    """
    rows: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in rows):
        raise ConfigError(f"{path}: {key} must be a list of texts, not {value!r:.60}")
    return tuple(rows)


def table_of(value: Any, path: Path, key: str, known: Collection[str]) -> dict[str, Any]:
    """A table that has none but known keys.

    Raises:
        ConfigError: it is not one, or it has another key; the message names file and key, and the nearest known one.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: {key} must be a table, not {value!r:.60}")
    table = cast("Mapping[str, Any]", value)
    for name in table:
        if name not in known:
            meant = did_you_mean(str(name), known, otherwise=f"; known keys: {', '.join(known)}")
            raise ConfigError(f"{path}: unknown key {key}.{name}{meant}")
    return dict(table)


def path_of(text: str, path: Path, key: str) -> Path:
    """The file or folder that a setting names: `~` is the home folder, a relative one starts at the settings file.

    Raises:
        ConfigError: it starts with the home folder of a user who does not exist.
    """
    try:
        return path.parent / Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: {key}: there is no home folder for {text!r}") from None
