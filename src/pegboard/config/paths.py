"""Paths: where Pegboard keeps what is its own, by the XDG Base Directory Specification."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pegboard.config.environment import environment as this_environment
from pegboard.core.errors import ConfigError

if TYPE_CHECKING:
    from pegboard.store.chain import Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Our folders.

    Attributes:
        home: the user's home folder.
        config: settings, keys, trust (`$XDG_CONFIG_HOME/pegboard`).
        state: history, journal, grants, spills (`$XDG_STATE_HOME/pegboard`).
        data: model weights and the like (`$XDG_DATA_HOME/pegboard`).
        cache: what may be lost (`$XDG_CACHE_HOME/pegboard`).
    """

    home: Path
    config: Path
    state: Path
    data: Path
    cache: Path

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None) -> Paths:
        """The folders that an environment names; a relative XDG value is ignored, as the specification says.

        Raises:
            ConfigError: `HOME` is relative: all would be kept in whatever folder is the current one.
        """
        env = this_environment() if environment is None else environment
        home = Path(env.get("HOME") or tempfile.gettempdir())
        if not home.is_absolute():
            raise ConfigError(
                f"HOME is {str(home)!r}, which is not an absolute path; set it to your home folder"
            )

        def folder(variable: str, default: str) -> Path:
            named = env.get(variable, "")
            return (Path(named) if named.startswith("/") else home / default) / "pegboard"

        return cls(
            home=home,
            config=folder("XDG_CONFIG_HOME", ".config"),
            state=folder("XDG_STATE_HOME", ".local/state"),
            data=folder("XDG_DATA_HOME", ".local/share"),
            cache=folder("XDG_CACHE_HOME", ".cache"),
        )

    def recovery_hint(self, path: str) -> str:
        """What to do where something at `path` failed; empty where it is none of our own folders."""
        at = Path(path)
        named = {"STATE": self.state, "CONFIG": self.config, "CACHE": self.cache, "DATA": self.data}
        for name, own in named.items():
            # One above it: the folder could not even be made.
            above = own.is_relative_to(at) and at.is_relative_to(self.home)
            if above or at.is_relative_to(own):
                return f"XDG_{name}_HOME can name a folder that can be written."
        return ""

    def key(self) -> bytes:
        """The audit chain's key, 32 random bytes made at first use, 0600."""
        return self._random("audit.key")

    def chain(self) -> Chain:
        """What records, rows and lists of this machine are chained and sealed with."""
        from pegboard.store.chain import Chain

        return Chain(key=self.key(), heads=self.config / "heads")

    def signing_key(self) -> bytes:
        """The private Ed25519 key that signs exports, made like the chain's."""
        return self._random("export.key")

    def gateway_key(self) -> bytes:
        """The private Ed25519 key that proves this machine's gateway to its nodes, made like the chain's."""
        return self._random("gateway.key")

    def node_key(self) -> bytes:
        """The private Ed25519 key that proves this machine as a node to gateways, made like the chain's."""
        return self._random("node.key", self.state)

    def _random(self, name: str, folder: Path | None = None) -> bytes:
        folder = folder or self.config
        path = folder / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = os.urandom(32)
            mine = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
            descriptor = os.open(mine, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(fresh)
            try:
                # Linked whole: another process must never read a key that is half written.
                os.link(mine, path)
            except FileExistsError:
                # Another process was faster; its key is the key.
                return path.read_bytes()
            finally:
                mine.unlink()
            return fresh


SYSTEM_FOLDERS = frozenset(
    Path(p)
    for p in ("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run",
              "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var")
)  # fmt: skip

SYSTEM_TREES = tuple(
    Path(p) for p in ("/boot", "/dev/pts", "/etc", "/proc", "/sys", "/usr/bin", "/usr/lib", "/usr/sbin")
)
"""Folders below which nobody works on a project."""


def current_folder() -> Path:
    """The current folder.

    Raises:
        ConfigError: it has been removed meanwhile.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            "the current folder no longer exists; change folder, or pass --workspace DIR"
        ) from None


def check_implicit(folder: Path, paths: Paths) -> None:
    """Refuse a folder that nobody named as workspace.

    Raises:
        ConfigError: it is the home folder, a system folder or the like.
    """
    why = refused_workspace(folder, paths)
    if why is not None:
        raise ConfigError(f"{why}, so it is not used by default; choose a folder with --workspace DIR")


def refused_workspace(folder: Path, paths: Paths) -> str | None:
    """Why a folder is refused as an implicit workspace, None where it is not."""
    real = folder.resolve()
    system = {p.resolve() for p in SYSTEM_FOLDERS}
    if real in system or any(real.is_relative_to(p) for p in SYSTEM_TREES):
        return f"{real} is a system folder"
    if real == paths.home.resolve():
        return f"{real} is your home folder"
    for own in (paths.config, paths.state, paths.data, paths.cache):
        if own.resolve().is_relative_to(real) or real.is_relative_to(own.resolve()):
            return f"{real} contains Pegboard's own folders"
    return None
