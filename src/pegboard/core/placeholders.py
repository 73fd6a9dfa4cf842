"""Place holders: what a confined command sees of a secret, until the egress proxy puts the value in (security.md)."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Final

from pegboard.core.errors import Unavailable
from pegboard.core.values import record

SHORTEST: Final = 8
"""Bytes; a shorter place holder could stand in ordinary text by chance."""

_ALPHABET: Final = string.ascii_letters + string.digits


@record(kw_only=True)
class Substitution:
    """One secret of one command.

    Attributes:
        name: as in `secret://NAME`.
        placeholder: what the command sees; as many UTF-8 bytes as `value`.
        value: what the bound hosts see.
        hosts: host patterns, each with an optional port.
    """

    name: str
    placeholder: str
    value: str
    hosts: tuple[str, ...]

    def __repr__(self) -> str:
        """Without the value."""
        return f"Swap({self.name!r})"


class Placeholders:
    """The place holders of one process; random, and the same for a secret as long as its value stays."""

    def __init__(self) -> None:
        self._swaps: dict[str, Substitution] = {}

    def for_secret(self, name: str, value: str, hosts: tuple[str, ...]) -> str:
        """The place holder of a secret.

        Raises:
            Unavailable: the value is too short for one.
        """
        known = self._swaps.get(name)
        if known is not None and known.value == value and known.hosts == hosts:
            return known.placeholder
        size = len(value.encode("utf-8", "surrogatepass"))
        if size < SHORTEST:
            raise Unavailable(
                f"secret {name!r} has {size} bytes; one that commands send to hosts needs {SHORTEST} or more",
                hint="Ask the user to use a longer secret, or to bind it to the command itself.",
            )
        import secrets

        made = "".join(secrets.choice(_ALPHABET) for _ in range(size))
        self._swaps[name] = Substitution(name=name, placeholder=made, value=value, hosts=hosts)
        return made

    def find_in(self, texts: Iterable[str]) -> tuple[Substitution, ...]:
        """The secrets whose place holders stand in a command's text, variables or input."""
        if not self._swaps:
            return ()
        whole = "\0".join(texts)
        return tuple(s for s in self._swaps.values() if s.placeholder in whole)
