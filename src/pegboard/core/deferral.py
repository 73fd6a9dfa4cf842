"""Deferral: a kit that advertises few tools and finds the others by words (ledger K-84, G-14).

Beyond some thirty tools the schemas cost more than they help. `deferred(kit)` shows a model the tools that are
kept, `search_tools` and `call_tool`; the list never changes during a run, so prompt caches hold, and it works
with every provider. A `call_tool` is turned into the call that it means before anything else looks at it:
policy, approval, preview, journal and history see the real tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from pegboard.core.call import ToolCall
from pegboard.core.decode import read_object
from pegboard.core.effects import PURE
from pegboard.core.errors import Unsupported
from pegboard.core.families import import_object
from pegboard.core.numerals import as_sent
from pegboard.core.problems import Problem, raise_invalid
from pegboard.core.ranking import TextIndex
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit

BEYOND: Final = 30
"""Tools that a kit may have before schemas are deferred."""

WEIGHTS: Final[Mapping[str, float]] = {
    "name": 4.0,
    "hints": 2.0,
    "description": 1.0,
    "parameters": 2.0,
    "texts": 1.0,
    "values": 3.0,
}
"""Fields of a tool and their weights; measured by bench/tool_search.py."""

PROSE: Final = ("texts", "values")

SEARCH: Final = "search_tools"
CALL: Final = "call_tool"


def fields_of(tool: Any) -> dict[str, str]:
    """A tool as the index reads it; anything with name, description and schema will do."""
    names: list[str] = []
    texts: list[str] = []
    values: list[str] = []
    _walk(tool.schema, names, texts, values, 0)
    return {
        "name": tool.name,
        "hints": " ".join(getattr(tool, "hints", ())),
        "description": tool.description,
        "parameters": " ".join(names),
        "texts": " ".join(texts),
        "values": " ".join(values),
    }


def _walk(schema: Any, names: list[str], texts: list[str], values: list[str], depth: int) -> None:
    """Names, descriptions and enumerated values of every property, three levels deep."""
    if not isinstance(schema, Mapping) or depth > 3:
        return
    node = cast("Mapping[str, Any]", schema)
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        for name, sub in cast("Mapping[str, Any]", properties).items():
            names.append(name)
            if isinstance(sub, Mapping):
                inner = cast("Mapping[str, Any]", sub)
                texts.append(str(inner.get("description") or ""))
                enum = inner.get("enum")
                values += [str(v) for v in cast("list[Any]", enum)] if isinstance(enum, list) else []
                _walk(inner, names, texts, values, depth + 1)
    _walk(node.get("items"), names, texts, values, depth + 1)


class ToolIndex:
    """A kit's tools, found by words or by name; the index is built at the first search."""

    def __init__(self, kit: Iterable[Tool]) -> None:
        self._tools = [t for t in kit if t.name not in (SEARCH, CALL)]
        self._kit = Toolkit(self._tools)
        self._index: TextIndex | None = None

    def __len__(self) -> int:
        return len(self._tools)

    def search(self, query: str, *, limit: int = 5) -> list[Any]:
        """See ports.catalogue."""
        if self._index is None:
            self._index = TextIndex([fields_of(t) for t in self._tools], WEIGHTS, prose=PROSE)
        return [_found(self._tools[i], score) for i, score in self._index.search(query, limit=limit)]

    def select(self, names: Iterable[str]) -> list[Any]:
        """See ports.catalogue."""
        tools = [self._kit.resolve(name) for name in names]
        return [_found(t, 0.0) for t in dict.fromkeys(tools) if t is not None]

    def nearest(self, name: str) -> list[str]:
        """See ports.catalogue."""
        return self._kit.nearest(name)


def _found(tool: Tool, score: float) -> Any:
    made = import_object("pegboard.ports.tool_search:FoundTool")
    return made(name=tool.name, description=tool.description, parameters=tool.schema, score=round(score, 3))


async def _never(name: str, arguments: Any = None) -> str:
    raise Unsupported(
        "call_tool works only in a kit whose tools are deferred",
        hint=f"Call {name} directly.",
    )


def _call_tool() -> Tool:
    return Tool(
        _never,
        name=CALL,
        description=(
            "Call a tool that search_tools found. `name` is its name, `arguments` an object that fits its "
            "parameters. Tools in your own list are called directly."
        ),
        effects=PURE,
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name of the tool, as search_tools gave it."},
                "arguments": {"type": "object", "description": "Its arguments."},
            },
            "required": ["name"],
        },
    )


class SearchableToolkit(Toolkit):
    """A kit whose models see only some of it.

    Args:
        tools: all tools; every one may be called, also directly by name.
        keep: names or shell patterns of the tools that stay advertised.
    """

    __slots__ = ("_shown",)

    def __init__(self, tools: Iterable[Any], *, keep: Iterable[str] = ()) -> None:
        kit = Toolkit(tools)
        patterns = tuple(keep)
        extra = [
            *([] if SEARCH in kit else [import_object("pegboard.tools.search_tools:search_tools")]),
            *([] if CALL in kit else [_call_tool()]),
        ]
        super().__init__([*kit, *extra])
        self._shown = Toolkit(
            t for t in self if t.name in (SEARCH, CALL) or any(fnmatchcase(t.name, p) for p in patterns)
        )

    def advertised(self) -> Toolkit:
        """The kept tools, `search_tools` and `call_tool`."""
        return self._shown

    def unwrap_call(self, call: ToolCall) -> ToolCall:
        """The call inside a `call_tool`.

        Raises:
            InvalidArguments: it names no tool.
        """
        if call.name != CALL:
            return call
        given, _ = read_object(call.arguments, name=CALL)
        name = given.get("name")
        if not isinstance(name, str) or not name.strip():
            raise_invalid([Problem(".name", "is required but missing")], name=CALL)
        if name == CALL:
            raise_invalid([Problem(".name", "call_tool cannot call itself")], name=CALL)
        # Some models put the arguments beside the name and not below it.
        inner = (
            given["arguments"] if "arguments" in given else {k: v for k, v in given.items() if k != "name"}
        )
        return ToolCall(call.id, name, as_sent(cast("Any", inner)), call.raw)


def with_tool_search(toolkit: Toolkit, *, beyond: int = BEYOND, keep: Iterable[str] = ()) -> Toolkit:
    """The kit with its schemas deferred if it has more than `beyond` tools, else the kit itself.

    Args:
        kit: all tools.
        beyond: how many tools are shown whole.
        keep: names or patterns of tools that stay advertised; empty = the built-in ones among them.
    """
    if len(toolkit) <= beyond or isinstance(toolkit, SearchableToolkit):
        return toolkit
    kept = tuple(keep) or tuple(
        n for n in cast("Iterable[str]", import_object("pegboard.tools:DEFAULT")) if n in toolkit
    )
    return SearchableToolkit(toolkit, keep=kept)
