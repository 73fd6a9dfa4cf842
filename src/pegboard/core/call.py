"""ToolCall and ValidCall: a call as it arrived, and a call that fits its tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ValidCall:
    """A call whose arguments fit the tool's signature.

    Attributes:
        id: unique in its run.
        tool: the tool's canonical name.
        arguments: decoded Python values by parameter name, defaults filled in.
        repairs: what had to be repaired to read them, one sentence each.
        sent: the arguments as JSON-able values, for display, digest and record.
    """

    id: str
    tool: str
    arguments: dict[str, Any]
    repairs: tuple[str, ...] = ()
    sent: Mapping[str, Any] = field(default_factory=dict[str, Any])
