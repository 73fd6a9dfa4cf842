"""Registry: tools by name, changeable; a Toolkit is what an agent gets from it (ledger X-02, X-03)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pegboard.core.errors import BuildError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, as_tool


class Registry:
    """Tools by unique name. Each registry has its own (ledger D-03)."""

    def __init__(self, tools: list[Any] | Toolkit | None = None) -> None:
        self._tools: dict[str, Tool] = {}
        for one in Toolkit([] if tools is None else tools):
            self._tools[one.name] = one

    def register(self, tool: Any) -> Tool:
        """Add a tool or typed function; one of the same name is replaced (ledger N-16)."""
        made = as_tool(tool)
        self._tools[made.name] = made
        return made

    def unregister(self, name: str) -> bool:
        """Take a tool out; False where there was none."""
        return self._tools.pop(name, None) is not None

    def get(self, name: str) -> Tool | None:
        """The tool, or None (ledger N-18)."""
        return self._tools.get(name)

    def require(self, name: str) -> Tool:
        """The tool.

        Raises:
            ToolNotFoundError: `Tool '{name}' not registered` and the nearest name (ledger D-05).
        """
        return self.toolkit()[name]

    __getitem__ = require

    def has(self, name: str) -> bool:
        """Whether there is one of that name."""
        return name in self._tools

    @property
    def tool_names(self) -> list[str]:
        """The names in order of registration."""
        return list(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def toolkit(self, *names: str, strict: bool = True) -> Toolkit:
        """The named tools, or all, as a Toolkit; an unknown name is an error unless `strict=False` (X-61)."""
        if not names:
            return Toolkit(self._tools.values())
        kit = Toolkit(self._tools.values())
        return Toolkit([kit[n] for n in names if strict or n in kit])

    def schemas(self, dialect: str = "openai-chat") -> Any:
        """All tools as one provider wants them."""
        return self.toolkit().schemas(dialect)

    def get_definitions(self) -> list[dict[str, Any]]:
        """All tools in OpenAI form (ledger N-20)."""
        return [t.to_schema() for t in self]

    def list_schemas(self) -> list[dict[str, Any]]:
        """The same as `get_definitions` (ledger D-06)."""
        return self.get_definitions()

    def list_tools(self) -> list[Tool]:
        """The tools (ledger A-26)."""
        return list(self)

    def add(self, toolkit: Toolkit) -> None:
        """Register every tool of a kit.

        Raises:
            BuildError: a name is taken.
        """
        for one in toolkit:
            if one.name in self._tools:
                raise BuildError(f"a tool called {one.name!r} is registered already")
            self._tools[one.name] = one
