"""The definition of each foreign tool as it was first approved."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pegboard.core.policy.approval import sha256_of
from pegboard.store.json_table import JsonTable

if TYPE_CHECKING:
    from pegboard.store.chain import Chain

State: TypeAlias = Literal["new", "same", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a server says a tool is; annotations are no part of it, since they grant nothing.

    Attributes:
        name, description, schema: as the server gives them.
        meant: the schema with its slips mended, for models and validators; the schema itself where it has none.
        digest: SHA-256 (hex) over these three; every call compares it, so it is made once.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    meant: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    digest: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "meant", self.meant or self.schema)
        object.__setattr__(self, "digest", sha256_of([self.name, self.description, self.schema]))

    def text(self) -> str:
        """The definition as text for people and diffs."""
        return f"{self.name}\n{self.description}\n{json.dumps(self.schema, indent=1, sort_keys=True, ensure_ascii=False)}\n"


class Pins:
    """Approved definitions, in a sealed file of mode 0600 or, without one, for this process.

    Args:
        table: `pins_table`, where they are kept; None = in memory.
    """

    def __init__(self, table: JsonTable[dict[str, str]] | None = None) -> None:
        self.table = table
        self._known: dict[str, dict[str, str]] | None = {} if table is None else None

    def state(self, server: str, definition: Definition) -> State:
        """Whether this very definition was approved, another one was, or none.

        Raises:
            ConfigError: the file cannot be read, or another program changed it. So do the other methods.
        """
        pinned = self._pins().get(_key(server, definition.name))
        if pinned is None:
            return "new"
        return "same" if pinned["sha256"] == definition.digest else "changed"

    def diff(self, server: str, definition: Definition) -> str:
        """What changed since the approval, as a unified diff; empty where nothing did."""
        pinned = self._pins().get(_key(server, definition.name))
        if pinned is None or pinned["sha256"] == definition.digest:
            return ""
        lines = difflib.unified_diff(
            pinned["text"].splitlines(), definition.text().splitlines(), "approved", "now", lineterm="", n=1
        )
        return "\n".join(lines)

    def accept(self, server: str, definition: Definition) -> None:
        """Pin this definition from now on."""
        if self.state(server, definition) == "same":
            return
        entry = {"sha256": definition.digest, "text": definition.text()}
        self._change(lambda known: known.update({_key(server, definition.name): entry}))

    def names(self, server: str) -> tuple[str, ...]:
        """The tools of a server whose definition was approved."""
        return tuple(sorted(k.removeprefix(f"{server}/") for k in self._pins() if k.startswith(f"{server}/")))

    def forget(self, server: str) -> int:
        """Drop every pin of a server; how many there were."""
        gone = [k for k in self._pins() if k.startswith(f"{server}/")]
        if gone:
            self._change(lambda known: [known.pop(key, None) for key in gone])
        return len(gone)

    def _pins(self) -> dict[str, dict[str, str]]:
        if self._known is None:
            assert self.table is not None
            self._known = self.table.read()
        return self._known

    def _change(self, fn: Callable[[dict[str, dict[str, str]]], object]) -> None:
        # The table reads its file again: another process may have pinned something meanwhile.
        if self.table is not None:
            self._known = self.table.change(fn)
        else:
            fn(self._pins())


def pins_table(state: Path, chain: Callable[[], Chain]) -> JsonTable[dict[str, str]]:
    """Where a machine's approved definitions lie, in its state folder."""
    return JsonTable(state / "mcp" / "pins.json", "approved definitions of tools", chain)


def _key(server: str, tool: str) -> str:
    return f"{server}/{tool}"
