"""ConfiguredSecrets: the secrets that a user has named, from the environment, a file or the keyring."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pegboard.core.errors import ConfigError, Unavailable
from pegboard.core.secrets.handles import SecretBinding

Keyring = Callable[[str, str], str | None]
"""`(service, user) -> password or None`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSpec:
    """One `[secrets.NAME]` table.

    Attributes:
        binding: its name and where it may go.
        source: `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`.
    """

    binding: SecretBinding
    source: str

    def __post_init__(self) -> None:
        kind, colon, rest = self.source.partition(":")
        if not colon or not rest or kind not in ("env", "file", "keyring"):
            raise ConfigError(
                f"secret {self.binding.name!r}: from is {self.source!r}; write env:NAME, file:PATH or "
                "keyring:SERVICE/USER"
            )


class ConfiguredSecrets:
    """Looks values up at each use; nothing is kept.

    Args:
        specs: the named secrets.
        environment: where `env:` looks.
        learn: is told of every value before anybody else sees it, so that it can be redacted.
        keyring: reads the system's keyring; None = the `keyring` package.
    """

    def __init__(
        self,
        specs: Mapping[str, SecretSpec],
        *,
        environment: Mapping[str, str],
        learn: Callable[[Mapping[str, str]], None],
        keyring: Keyring | None = None,
    ) -> None:
        self._specs = dict(specs)
        self._environment = environment
        self._learn = learn
        self._keyring = keyring

    def binding(self, name: str) -> SecretBinding | None:
        """See SecretHandles."""
        spec = self._specs.get(name)
        return None if spec is None else spec.binding

    def names(self) -> tuple[str, ...]:
        """See SecretHandles."""
        return tuple(sorted(self._specs))

    def value(self, name: str) -> str:
        """See SecretHandles."""
        found = read_source(f"secret {name!r}", self._specs[name].source, self._environment, self._keyring)
        self._learn({name: found})
        return found

    def learn_present(self) -> None:
        """Redact from now on what can be looked up without asking anybody: environment and files."""
        for name, spec in self._specs.items():
            if not spec.source.startswith("keyring:"):
                try:
                    self.value(name)
                except Unavailable:
                    # Missing now; whoever uses it is told.
                    continue


def read_source(
    what: str, source: str, environment: Mapping[str, str], keyring: Keyring | None = None
) -> str:
    """The value at `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`.

    Args:
        what: whose value it is, for error texts.
        environment: where `env:` looks.
        keyring: reads the system's keyring; None = the `keyring` package.

    Raises:
        Unavailable: there is no value there, or its file can be read by others.
    """
    kind, _, rest = source.partition(":")
    match kind:
        case "env":
            found = environment.get(rest) or None
        case "file":
            found = _file(what, Path(rest).expanduser())
        case _:
            service, _, user = rest.partition("/")
            found = (keyring or _system_keyring)(service, user)
    if not found:
        raise Unavailable(f"{what} has no value at {kind}:{rest}", hint="Ask the user to set it.")
    return found


def _file(what: str, path: Path) -> str:
    """A secret's file: a regular file of ours that nobody else may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise Unavailable(f"{what}: cannot read its file: {error.strerror}") from None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077 or about.st_uid not in (os.getuid(), 0):
        os.close(descriptor)
        raise Unavailable(
            f"{what}: its file must be a plain file that only its owner can read "
            f"(mode {about.st_mode & 0o777:04o})",
            hint="Ask the user to run chmod 600 on it.",
        )
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        return file.read(65_536).rstrip("\r\n")


def _system_keyring(service: str, user: str) -> str | None:
    try:
        import keyring  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise Unavailable(
            "the keyring package is not installed", hint="Ask the user to run: pip install keyring"
        ) from None
    return keyring.get_password(service, user)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
