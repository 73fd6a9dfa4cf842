"""memory_read: a note that an earlier session has kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from pegboard.core.effects import Effect
from pegboard.core.policy.taint import UNTRUSTED
from pegboard.core.result import SOURCE, Notes, ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.memory import Memory, MemoryEntry


def effects_of_read(arguments: Mapping[str, Any]) -> list[Effect]:
    """What is read."""
    name = arguments.get("name")
    return [Effect("read", f"memory:/{name}" if name else "memory:")]


def labelled(text: str, entries: Iterable[MemoryEntry], data: Any) -> ToolResult:
    """A result that holds some entries: with their labels, and between marks if one of them is untrusted."""
    labels: dict[str, str] = {}
    for entry in entries:
        for label, source in entry.labels.items():
            labels.setdefault(label, f"memory {entry.name} from {source}")
    extra = {SOURCE: labels[UNTRUSTED]} if UNTRUSTED in labels else {}
    result = ToolResult.from_text(text, data=data)
    result.notes = Notes(labels=tuple(sorted(labels)), extra=extra)
    return result


@tool(
    effects=effects_of_read,
    touches=("read",),
    idempotent=True,
    hints=("recall a note", "what do you remember"),
)
async def memory_read(
    name: Annotated[str, Field(max_length=64), Alias("key", "title")], *, memory: Inject[Memory]
) -> ToolResult:
    """Read a note that an earlier session in this workspace has kept.

    Args:
        name: Its name, as memory_search gives it.

    Raises:
        NotFound: no note has that name.
    """
    entry = memory.read(name)
    return labelled(
        entry.text, [entry], {"name": entry.name, "text": entry.text, "labels": sorted(entry.labels)}
    )
