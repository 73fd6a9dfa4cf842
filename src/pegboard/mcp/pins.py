"""The definition of each foreign tool as it was first approved."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from pegboard.core.policy.approval import sha256_of

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


@dataclass(slots=True)
class Pins:
    """Approved definitions, in a file of mode 0600 or, without one, for this process.

    Attributes:
        path: where they are kept; None = in memory.
    """

    path: Path | None = None
    _known: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    _read: bool = False

    def state(self, server: str, definition: Definition) -> State:
        """Whether this very definition was approved, another one was, or none."""
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
        # Read again before writing: another process may have pinned something meanwhile.
        self._read = False
        entry = {"sha256": definition.digest, "text": definition.text()}
        self._pins()[_key(server, definition.name)] = entry
        self._write()

    def forget(self, server: str) -> int:
        """Drop every pin of a server; how many there were."""
        gone = [k for k in self._pins() if k.startswith(f"{server}/")]
        for key in gone:
            del self._known[key]
        if gone:
            self._write()
        return len(gone)

    def _pins(self) -> dict[str, dict[str, str]]:
        if not self._read and self.path is not None:
            try:
                self._known = cast(
                    "dict[str, dict[str, str]]", json.loads(self.path.read_text(encoding="utf-8"))
                )
            except FileNotFoundError:
                self._known = {}
        self._read = True
        return self._known

    def _write(self) -> None:
        if self.path is not None:
            write_private(self.path, json.dumps(self._known, indent=1, ensure_ascii=False))


def write_private(path: Path, text: str) -> None:
    """Replace a file as a whole, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    fresh.replace(path)


def _key(server: str, tool: str) -> str:
    return f"{server}/{tool}"
