"""Nodes: paired machines and phones that a call can reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

Capability: TypeAlias = Literal["notify", "screenshot", "location", "run", "camera", "approve", "canvas"]
NodeKind: TypeAlias = Literal["machine", "browser"]

CAPABILITIES: Final[tuple[Capability, ...]] = (
    "notify", "screenshot", "location", "run", "camera", "approve", "canvas",
)  # fmt: skip
KINDS: Final[tuple[NodeKind, ...]] = ("machine", "browser")

CONSOLE: Final = "console"
"""The name of the owner's web console while it is open: it has a canvas and needs no pairing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A paired node, or the console.

    Attributes:
        name: unique at its gateway.
        kind: machine (`pegboard node`) or browser (the gateway's page `/node`).
        key: its public Ed25519 key, base64.
        capabilities: what it may be asked for, as it was approved.
        platform: its system in its own words.
        paired_at, seen_at: seconds since the epoch.
        offers: what it can do now; None = it is not connected.
    """

    name: str
    kind: NodeKind
    key: str
    capabilities: tuple[str, ...]
    platform: str = ""
    paired_at: float = 0.0
    seen_at: float = 0.0
    offers: tuple[str, ...] | None = None


class Nodes(Protocol):
    """The nodes of this machine's gateway."""

    async def list_nodes(self) -> Sequence[Node]:
        """The paired nodes by name, whether or not they are connected."""
        ...

    async def find_node(self, name: str, capability: str) -> Node:
        """The connected node of that name, or the only one with that capability where the name is empty.

        Raises:
            NotFound: no node has that name, or none is paired.
            NotUnique: no name was given and several nodes would do.
            Unavailable: it is not connected.
            Unsupported: it does not have that capability.
        """
        ...

    async def call_node(
        self, name: str, action: str, values: Mapping[str, Any], *, timeout_s: float
    ) -> Mapping[str, Any]:
        """Have a connected node do something; what it answers.

        Args:
            name: the node's.
            action: a capability, or `present`, `hide`, `snapshot`, `eval` of its canvas.
            values: what the action takes.
            timeout_s: seconds to wait for the answer.

        Raises:
            Unavailable: it is not connected; it was asked for nothing.
            Interrupted: the connection was lost before it answered: nobody knows whether it did it.
            TimedOut: it did not answer in time.
            ToolError: what the node says went wrong.
        """
        ...


__all__ = ["CAPABILITIES", "CONSOLE", "KINDS", "Capability", "Node", "NodeKind", "Nodes"]
