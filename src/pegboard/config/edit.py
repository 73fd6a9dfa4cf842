"""Editing settings files: the commented file that a person starts from, and one key set or read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from pegboard.config.load import NAMES, load_config
from pegboard.config.paths import Paths
from pegboard.config.reading import KEYS, KeepVariables, read_unfilled
from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.schema.problems import did_you_mean, fold

STARTER: Final = """\
# Settings of Pegboard. Remove the # before a line to use it.

# Which model answers: gpt-5, claude-sonnet-5-5, gemini-3.8-flash, ollama:llama3.2, local, ...
# model = "claude-sonnet-5-5"

# What runs without asking: read-only, plan, ask, workspace, auto or full.
# mode = "workspace"

# Rules, the first that matches wins; a deny always does.
# rules = [
#   "deny read:**/.env",
#   "ask exec:git push **",
#   "allow exec:pytest **",
# ]

# Added to what the model is told.
# instructions = "Answer in one sentence."

# Your own tools, in Python.
# tools = ["my_tools.py"]

# Hosts that every command may reach.
# hosts = ["pypi.org", "files.pythonhosted.org"]

# [limits]            # of one run
# turns = 40
# money = 2.0         # dollars

# [sandbox]
# backend = "auto"    # bubblewrap, docker, podman or none
# require = true      # refuse commands where no sandbox works
"""
"""A settings file in which every line is a comment."""


def settings_file(folder: Path) -> Path:
    """The settings file of a folder: the one that is there, else `pegboard.toml`."""
    return next((p for name in NAMES if (p := folder / name).is_file()), folder / NAMES[0])


def write_starter(folder: Path) -> Path:
    """Write the commented file; where it is.

    Raises:
        BuildError: the folder has settings already.
    """
    path = settings_file(folder)
    if path.exists():
        raise BuildError(
            f"{path} exists already; edit it, or change a key with: pegboard config set KEY VALUE"
        )
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("x", encoding="utf-8") as file:
        file.write(STARTER)
    return path


def read_key(path: Path, key: str) -> Any:
    """The value that a settings file has for a key such as `model` or `limits.turns`; None without one.

    Raises:
        ConfigError: the file cannot be read, or there is no such key.
    """
    parts = _parts(key)
    value: Any = read_unfilled(path) if path.is_file() else {}
    for part in parts:
        if not isinstance(value, Mapping):
            return None
        table = cast("Mapping[str, Any]", value)
        value = next((v for k, v in table.items() if fold(k) == fold(part)), None)
    return value


def set_key(path: Path, key: str, text: str, paths: Paths) -> Any:
    """Set a key of a TOML file, with its comments kept; the value as it was read.

    Args:
        path: the file; made if it is not there.
        key: a key of the first level, or `table.key`.
        text: the value as TOML writes it; what is no TOML is a text.
        paths: of this machine, for checking the result.

    Raises:
        BuildError: the file is not TOML.
        ConfigError: there is no such key, or the value does not fit it; nothing is written then.
    """
    import tomlkit

    if path.suffix != ".toml":
        raise BuildError(f"{path} is not TOML; change the key {key} there by hand")
    parts = _parts(key)
    document = tomlkit.parse(path.read_text(encoding="utf-8") if path.is_file() else "")
    value = _value(text)
    place: Any = document
    for part in parts[:-1]:
        if part not in place:
            place[part] = tomlkit.table()
        place = place[part]
        if not hasattr(place, "items"):
            raise ConfigError(f"{path}: {part} is not a table, so {key} cannot be set in it")
    place[parts[-1]] = value
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Beside it, since relative paths start there; it takes the file's place only if it can be read.
    new = path.with_name(f".{path.stem}-new{path.suffix}")
    try:
        new.write_text(tomlkit.dumps(document), encoding="utf-8")
        if path.exists():
            new.chmod(path.stat().st_mode & 0o777)
        load_config(paths, None, file=new, environment=KeepVariables())
        new.replace(path)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(new), str(path))) from None
    finally:
        new.unlink(missing_ok=True)
    return value


def _parts(key: str) -> list[str]:
    parts = key.split(".")
    known = {fold(k): k for k in KEYS}
    if fold(parts[0]) not in known or not all(parts):
        meant = did_you_mean(parts[0], KEYS, otherwise=f"; known keys: {', '.join(KEYS)}")
        raise ConfigError(f"unknown key {key!r}{meant}")
    return [known[fold(parts[0])], *parts[1:]]


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
