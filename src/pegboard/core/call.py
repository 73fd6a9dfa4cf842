"""ToolCall and ValidCall: a call as it arrived, and a call that fits its tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pegboard.core.values import record


@record
class ToolCall:
    """A call as a model or caller sent it: untrusted, immutable.

    Attributes:
        id: the sender's id; empty or None where it sent none (the executor makes one).
        name: the tool's name as sent, possibly noisy or an alias.
        arguments: JSON text, or an already parsed object.
        raw: the text that it was read from, for dialects in text; may be empty.
    """

    id: str | None
    name: str
    arguments: str | Mapping[str, Any] | None = None
    raw: str = ""

    @property
    def params(self) -> dict[str, Any]:
        """The arguments where they are an object already, else empty (ledger A-33)."""
        return dict(self.arguments) if isinstance(self.arguments, Mapping) else {}

    @property
    def input(self) -> dict[str, Any]:
        """The same as `params` (ledger D-14)."""
        return self.params


class HasSent(Protocol):
    """What decoding left behind: the arguments as JSON-able values, made when somebody looks."""

    @property
    def sent(self) -> Mapping[str, Any]:
        """The arguments after aliases and repair."""
        ...


@dataclass(slots=True)
class ValidCall:
    """A call whose arguments fit the tool's signature. Read-only.

    Attributes:
        id: unique in its run.
        tool: the tool's canonical name.
        arguments: decoded Python values by parameter name, defaults filled in.
        repairs: what had to be repaired to read them, one sentence each.
        decoded: what `sent` is made from; None where the call was made by hand.
    """

    id: str
    tool: str
    arguments: dict[str, Any]
    repairs: tuple[str, ...] = ()
    decoded: HasSent | None = None

    @property
    def sent(self) -> Mapping[str, Any]:
        """The arguments as JSON-able values, for display, digest and record."""
        return self.arguments if self.decoded is None else self.decoded.sent
