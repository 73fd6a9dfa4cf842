"""Swap: a secret that the egress proxy puts in where a confined command wrote a place holder.

A place holder is as long as its value, so nothing that counts bytes changes. Going out, it becomes the value;
coming back, a value that a server echoes becomes the place holder again: the command never sees it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Final

from pegboard.core.secrets.handles import Substitution

_BASIC: Final = re.compile(rb"(?i)(\r\n(?:proxy-)?authorization:[ \t]*basic[ \t]+)([A-Za-z0-9+/]+={0,2})")


class ByteSubstituter:
    """Replaces texts of a byte stream by others of the same length; what may be the start of one is held back."""

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._pairs = [pair for pair in pairs if pair[0]]
        self._held = b""
        self.found: set[bytes] = set()

    def add(self, old: bytes, new: bytes) -> None:
        """Replace one more text from now on."""
        self._pairs.append((old, new))

    def feed(self, data: bytes) -> bytes:
        """What can go on already."""
        ready = self._replaced(self._held + data)
        hold = max((self._begun(ready, old) for old, _ in self._pairs), default=0)
        cut = len(ready) - hold
        self._held = ready[cut:]
        return ready[:cut]

    def close(self) -> bytes:
        """The rest."""
        rest, self._held = self._held, b""
        return rest

    def whole(self, data: bytes) -> bytes:
        """A text that is no part of a stream."""
        return self.feed(data) + self.close()

    def names(self, substitutions: Sequence[Substitution]) -> tuple[str, ...]:
        """Names of the secrets whose place holders have come by."""
        return tuple(s.name for s in substitutions if s.placeholder.encode() in self.found)

    def _replaced(self, data: bytes) -> bytes:
        for old, new in self._pairs:
            if old in data:
                self.found.add(old)
                data = data.replace(old, new)
        return data

    @staticmethod
    def _begun(data: bytes, old: bytes) -> int:
        """Length of the longest end of `data` that `old` begins with."""
        return next((n for n in range(min(len(old) - 1, len(data)), 0, -1) if data.endswith(old[:n])), 0)


def outward(substitutions: Sequence[Substitution], others: Sequence[Substitution] = ()) -> ByteSubstituter:
    """Place holders become values; those of `others` stay, and count as found."""
    held = [(s.placeholder.encode(), s.placeholder.encode()) for s in others]
    return ByteSubstituter([*((s.placeholder.encode(), s.value.encode()) for s in substitutions), *held])


def inward(substitutions: Sequence[Substitution]) -> ByteSubstituter:
    """Values become place holders."""
    return ByteSubstituter([(s.value.encode(), s.placeholder.encode()) for s in substitutions])


def withheld(others: Sequence[Substitution], out: ByteSubstituter, host: str) -> list[str]:
    """What to say about secrets whose place holders went to a host that they are not bound to."""
    found = out.names(others)
    return [
        f"secret://{s.name} was not put in for {host}: it may only go to {', '.join(s.hosts)}"
        for s in others
        if s.name in found
    ]


def substitute_head(head: bytes, out: ByteSubstituter, back: ByteSubstituter) -> bytes:
    """A request's head with the values, those inside a Basic credential (RFC 7617) too.

    Such a credential holds the value in another spelling: `back` learns to take it out of the answer.
    """

    def credential(match: re.Match[bytes]) -> bytes:
        try:
            inner = base64.b64decode(match[2], validate=True)
        except ValueError:
            return match[0]
        filled = out.whole(inner)
        if filled == inner:
            return match[0]
        back.add(made := base64.b64encode(filled), match[2])
        return match[1] + made

    return out.whole(_BASIC.sub(credential, head))
