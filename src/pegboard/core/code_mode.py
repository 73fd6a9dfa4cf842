"""Code mode: a kit whose models see one tool, `run_code`, and the others as the functions of its programs."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from pegboard.core.tool import Tool
from pegboard.core.tool_search import BEYOND, CALL, SEARCH
from pegboard.core.toolkit import RUN_CODE, Toolkit, import_object

DIRECT: Final = ("propose_plan",)
"""Tools that stay tools: what they ask must be seen whole."""

RETURNS: Final[Mapping[str, str]] = {
    "read_file": '{"text": str, "first": int, "last": int, "total": int, "more": bool}',
    "list_dir": '{"entries": list[{"path": str, "kind": str, "size": int}], "truncated": bool}',
    "glob": '{"paths": list[str], "truncated": bool}',
    "grep": '{"matches": list[{"path": str, "line": int, "text": str}], "total": int, "truncated": bool}',
    "exec": '{"exit_code": int, "stdout": str, "stderr": str, "timed_out": bool}',
}
"""What the functions of built-in tools return whose text is made for reading; all others return their text."""


class CodeToolkit(Toolkit):
    """A kit whose models see `run_code` alone; its description has the signatures of the others.

    Args:
        tools: all tools, `run_code` among them; every one may be called, also directly by name.
        beyond: with more tools than this only the built-in ones have their signature in the description; programs
            find the others with `search_tools`.
    """

    __slots__ = ("_shown",)

    def __init__(self, tools: Iterable[Any], *, beyond: int = BEYOND) -> None:
        kit = Toolkit(tools)
        kit = kit.without(CALL) if CALL in kit else kit
        if SEARCH not in kit:
            kit += Toolkit([import_object("pegboard.tools.search_tools:search_tools")])
        functions = functions_of(kit)
        shown = functions
        if len(functions) > beyond:
            built_in = cast("Mapping[str, str]", import_object("pegboard.tools:TOOLS"))
            shown = {name: tool for name, tool in functions.items() if tool.name in built_in}
        run_code = cast(Tool, kit.get(RUN_CODE) or import_object("pegboard.tools.run_code:run_code"))
        # Its own words: a kit that is made from another in code mode has the signatures of that one.
        text = [run_code.signature.description, "", *(signature(name, tool) for name, tool in shown.items())]
        if len(shown) < len(functions):
            text.append(f"# {len(functions) - len(shown)} more functions: await search_tools(query=...)")
        described = run_code.copy()
        described.description = "\n".join(text)
        super().__init__([*(t for t in kit if t.name != RUN_CODE), described])
        self._shown = Toolkit([described, *(t for t in kit if t.name in DIRECT)])

    def advertised(self) -> Toolkit:
        """`run_code`, and the tools that stay tools."""
        return self._shown


def with_code_mode(toolkit: Toolkit) -> Toolkit:
    """The kit in code mode if `run_code` is among its tools, else the kit itself."""
    return CodeToolkit(toolkit) if RUN_CODE in toolkit and not isinstance(toolkit, CodeToolkit) else toolkit


def functions_of(toolkit: Toolkit) -> dict[str, Tool]:
    """The tools that a program can call, by the names of their functions."""
    out: dict[str, Tool] = {}
    for tool in toolkit:
        if tool.name == RUN_CODE or tool.name in DIRECT or tool.name == CALL:
            continue
        name = re.sub(r"\W", "_", tool.name)
        name = f"{name}_" if keyword.iskeyword(name) else name
        while name in out:
            name += "_"
        out[name] = tool
    return out


def returns_data(tool: Tool) -> bool:
    """Whether a tool's function returns the result's data; else it returns its text."""
    return tool.output_schema is not None or (tool.canonical or tool.name) in RETURNS


def arguments_of(tool: Tool, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters.

    Raises:
        TypeError: too many by position, or one twice.
    """
    names = list(cast("Mapping[str, Any]", tool.schema.get("properties", {})))
    given = list(args)
    if len(given) > len(names):
        raise TypeError(f"{tool.name}() takes {len(names)} arguments but {len(given)} were given")
    out = dict(zip(names, given, strict=False))
    if twice := [name for name in kwargs if name in out]:
        raise TypeError(f"{tool.name}() got several values for the argument {twice[0]!r}")
    return out | dict(kwargs)


def signature(name: str, tool: Tool) -> str:
    """A tool as a function in Python, with the first paragraph of its description."""
    schema = tool.schema
    required = set(cast("list[str]", schema.get("required", [])))
    parameters: list[str] = []
    for key, sub in cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {})).items():
        default = "" if key in required else f" = {_default(sub)}"
        parameters.append(f"{key}: {python_type(sub, schema)}{default}")
    result = RETURNS.get(tool.canonical or tool.name, "str")
    if tool.output_schema is not None:
        result = python_type(tool.output_schema, tool.output_schema)
    about = tool.description.split("\n\n", 1)[0].replace("\n", " ").strip()
    return f"async def {name}({', '.join(parameters)}) -> {result}\n    # {about}"


def _default(schema: Mapping[str, Any]) -> str:
    return repr(schema["default"]) if "default" in schema else "..."


_NAMES: Final = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "array": "list", "object": "dict",
}  # fmt: skip
_DEPTH: Final = 4


def python_type(schema: object, root: Mapping[str, Any], depth: int = 0) -> str:
    """A JSON Schema as a type in Python's words; `Any` where it says nothing."""
    if not isinstance(schema, Mapping):
        return "Any"
    node = cast("Mapping[str, Any]", schema)
    if depth < _DEPTH and isinstance(ref := node.get("$ref"), str) and ref.startswith("#/"):
        target: Any = root
        for part in ref[2:].split("/"):
            target = cast("Mapping[str, Any]", target).get(part, {})
        return python_type(target, root, depth + 1)
    if "const" in node:
        return f"Literal[{json.dumps(node['const'], ensure_ascii=False)}]"
    if isinstance(values := node.get("enum"), list):
        return f"Literal[{', '.join(json.dumps(v, ensure_ascii=False) for v in cast('list[Any]', values))}]"
    several = node.get("anyOf") or node.get("oneOf")
    if isinstance(several, list):
        parts = [python_type(one, root, depth + 1) for one in cast("list[Any]", several)]
        return " | ".join(dict.fromkeys(parts))
    kind = node.get("type")
    if isinstance(kind, list):
        return " | ".join(python_type({**node, "type": k}, root, depth + 1) for k in cast("list[Any]", kind))
    if kind == "array" and depth < _DEPTH and "items" in node:
        return f"list[{python_type(node['items'], root, depth + 1)}]"
    if kind == "object" and depth < _DEPTH:
        if properties := node.get("properties"):
            fields = cast("Mapping[str, Any]", properties).items()
            return "{" + ", ".join(f'"{k}": {python_type(v, root, depth + 1)}' for k, v in fields) + "}"
        if isinstance(more := node.get("additionalProperties"), Mapping) and more:
            return f"dict[str, {python_type(cast('object', more), root, depth + 1)}]"
    return _NAMES.get(str(kind), "Any")
