"""The smallest thing that is a toolkit to a dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FakeTool:
    name: str
    description: str = ""
    schema: Mapping[str, Any] = None  # type: ignore[assignment]
    example: str | None = None

    def __post_init__(self) -> None:
        if self.schema is None:
            object.__setattr__(self, "schema", {"type": "object", "properties": {}, "required": []})


class FakeKit:
    def __init__(self, *tools: FakeTool) -> None:
        self.tools = tools

    def __iter__(self) -> Iterator[FakeTool]:
        return iter(self.tools)


def tool(name: str, required: tuple[str, ...] | None = None, /, **properties: Any) -> FakeTool:
    """A tool with these properties, all required unless said otherwise."""
    schema = {
        "type": "object",
        "properties": {k: {"type": v} if isinstance(v, str) else v for k, v in properties.items()},
        "required": list(properties if required is None else required),
    }
    return FakeTool(name, f"The tool {name}.", schema)


def kit_of(definitions: list[dict[str, Any]]) -> FakeKit:
    """A kit of corpus definitions: `{name, description, parameters}`."""
    return FakeKit(*(FakeTool(d["name"], d.get("description", ""), d["parameters"]) for d in definitions))
