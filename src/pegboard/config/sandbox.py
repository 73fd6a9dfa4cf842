"""The table `[sandbox]` of a settings file: the backend, a container's image and runtime, and the limits of a command."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.config.reading import table_of
from pegboard.core.errors import ConfigError
from pegboard.process.limits import ResourceLimits

BACKENDS: Final = ("auto", "bubblewrap", "docker", "podman", "none")

_LIMITS: Final = tuple(one.name for one in fields(ResourceLimits))
_KEYS: Final = ("backend", "require", "image", "runtime", "ca_file", *_LIMITS)
_SIZE: Final = re.compile(r"(\d+)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Below these bash itself does not start, so every command would fail with a riddle.
_LEAST: Final = {"memory_bytes": 4 << 20, "processes": 8, "file_bytes": 4096, "cpu_s": 1, "open_files": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """How commands are confined.

    Attributes:
        backend: auto, bubblewrap, docker, podman or none.
        require: refuse to run a command where the backend does not work; None = not said here.
        image: of docker and podman; None = ours.
        runtime: OCI runtime of docker and podman; None = theirs.
        ca_file: certificates of further authorities (PEM) for the hosts that commands reach.
        limits: what one command with its children may take.
    """

    backend: str = "auto"
    require: bool | None = None
    image: str | None = None
    runtime: str | None = None
    ca_file: str | None = None
    limits: ResourceLimits = field(default_factory=ResourceLimits)


def read_sandbox(value: Any, path: Path, *, before: SandboxSettings) -> SandboxSettings:
    """The settings with a file's `sandbox` on top: a backend's name, or a table.

    Sizes are bytes, or text such as `"2GiB"` (units of 1024); 0 takes a limit away.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    if isinstance(value, str):
        return replace(before, backend=_backend(value, path, "sandbox"))
    table = table_of(value, path, "sandbox", _KEYS)
    changes: dict[str, Any] = {}
    limits: dict[str, int] = {}
    for key, given in table.items():
        where = f"sandbox.{key}"
        match key:
            case "backend":
                changes[key] = _backend(given, path, where)
            case "require":
                if not isinstance(given, bool):
                    raise ConfigError(f"{path}: {where} must be true or false, not {given!r:.60}")
                changes[key] = given
            case "image" | "runtime":
                if not isinstance(given, str) or not given or given.startswith("-"):
                    raise ConfigError(f"{path}: {where} must be a name, not {given!r:.60}")
                changes[key] = given
            case "ca_file":
                changes[key] = _file(given, path, where)
            case _:
                limits[key] = _limit(key, given, path, where)
    return replace(before, **changes, limits=replace(before.limits, **limits))


def _backend(value: Any, path: Path, where: str) -> str:
    if value not in BACKENDS:
        raise ConfigError(f"{path}: {where} {value!r:.60} is none of {', '.join(BACKENDS)}")
    return cast(str, value)


def _file(value: Any, path: Path, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{path}: {where} must be the path of a file, not {value!r:.60}")
    return str(path.parent / Path(value).expanduser())


def _limit(key: str, value: Any, path: Path, where: str) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and key.endswith("_bytes") and (found := _SIZE.fullmatch(value.strip())):
        number = int(found[1]) * _UNITS[(found[2] or "").upper()]
    if number is None or number < 0:
        kind = "bytes or a size such as '512MiB'" if key.endswith("_bytes") else "a whole number"
        raise ConfigError(f"{path}: {where} must be {kind}, 0 for none, not {value!r:.60}")
    if 0 < number < _LEAST[key]:
        raise ConfigError(f"{path}: {where} is {number:,}: at least {_LEAST[key]:,}, or no command starts")
    if number >= 1 << 62:
        raise ConfigError(f"{path}: {where} is too large: {number:,}")
    return number
