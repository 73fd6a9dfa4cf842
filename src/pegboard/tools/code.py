"""code: definitions, uses and symbols, and renaming, by a language server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.text import escape_invisible
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.code import CodeIndex, CodeLocation, CodeSymbol
from pegboard.ports.files import Files

_SHOWN: Final = 200
"""Places or symbols that a result shows."""

_NO_NAME: Final = re.compile(r"\A[\d.]|[\s()\[\]{},;:+*/\\<>|&^%~`'\"]")
"""What no language has in a name; some servers would write it all the same."""


async def _plan(index: CodeIndex, files: Files, arguments: dict[str, Any]) -> Plan:
    action, path, symbol = arguments["action"], arguments["path"], arguments["symbol"]
    if action == "symbols":
        target = "." if path is None else (await files.resolve(path)).reachable()
        return Plan((Effect("read", target),))
    if path is None or not symbol:
        raise InvalidArguments(
            f"action {action} needs path and symbol", hint="Give a file that uses the symbol, and its name."
        )
    if action != "rename":
        # The lines of other files are shown too.
        return Plan((Effect("read", "."),))
    if not arguments["new_name"]:
        raise InvalidArguments("action rename needs new_name", hint="Give the new name of the symbol.")
    if _NO_NAME.search(arguments["new_name"]):
        raise InvalidArguments(
            f"new_name {arguments['new_name']!r} is not a name",
            hint="Begin with a letter, and leave out spaces.",
        )
    writes = await index.rename(path, symbol, arguments["new_name"], line=arguments["line"])
    changes = await files.propose(writes)
    return Plan((Effect("read", "."), *changes.effects()), changes)


async def plan_code(call: ValidCall, context: Context) -> Plan:
    """What the call reads, and for a rename the change of every file; changes nothing."""
    return await _plan(context.port(CodeIndex), context.port(Files), call.arguments)


@tool(
    touches=("read", "write"),
    plan=plan_code,
    hints=("go to definition", "find references", "rename a symbol", "list functions"),
    example={"action": "references", "path": "src/app.py", "symbol": "load_config"},
)
async def code(
    action: Annotated[Literal["definition", "references", "symbols", "rename"], Alias("operation")],
    path: Annotated[str | None, Alias("file", "file_path")] = None,
    symbol: Annotated[str, Field(max_length=500), Alias("name", "query")] = "",
    line: Annotated[int, Field(ge=1)] | None = None,
    new_name: Annotated[str, Field(max_length=200), Alias("to", "newName")] = "",
    *,
    index: Inject[CodeIndex],
    files: Inject[Files],
    planned: Inject[Plan | None] = None,
) -> ToolResult:
    """Find where a symbol is defined or used, list symbols, or rename a symbol in all files.

    It knows the language, so it finds what grep confuses: other symbols of the same name, and texts.

    Args:
        action: What to do. symbols without a path lists those of the whole workspace.
        path: File in which the symbol stands, relative to the workspace.
        symbol: Its name; for symbols, only those whose names contain it.
        line: Line on which it stands, if the file has several of that name.
        new_name: The new name, for rename.

    Raises:
        NotFound: the symbol does not stand there.
        Unavailable: no language server for this file is installed.
        Unsupported: none is known for it, or it cannot do this.
    """
    if action == "rename":
        plan = planned or await _plan(
            index,
            files,
            {"action": action, "path": path, "symbol": symbol, "line": line, "new_name": new_name},
        )
        changes = await files.commit(plan.changes) if plan.changes else plan.changes
        count = "1 file" if len(changes.changes) == 1 else f"{len(changes.changes)} files"
        text = [f"Renamed {symbol} to {new_name} in {count}:", *(c.summary() for c in changes.changes)]
        data = {"changes": [change.to_dict() for change in changes.changes]}
        return ToolResult.from_text("\n".join(text), data=data)
    if action == "symbols":
        return _symbols(await index.symbols(path, symbol), "." if path is None else path)
    assert path is not None
    ask = index.definition if action == "definition" else index.references
    return _places(await ask(path, symbol, line=line), symbol)


def _places(found: Sequence[CodeLocation], symbol: str) -> ToolResult:
    lines = [f"{escape_invisible(p.path)}:{p.line}:{p.column}: {p.text}" for p in found]
    data = [{"path": p.path, "line": p.line, "column": p.column, "text": p.text} for p in found]
    return _result(lines, f"Nothing is known of {symbol}.", {"locations": data})


def _symbols(found: Sequence[CodeSymbol], where: str) -> ToolResult:
    lines = [
        f"{escape_invisible(s.path)}:{s.line}: {s.kind} {s.name}{f' in {s.container}' if s.container else ''}" for s in found
    ]  # fmt: skip
    data = [
        {"name": s.name, "kind": s.kind, "path": s.path, "line": s.line, "container": s.container}
        for s in found
    ]
    return _result(lines, f"No symbols found in {where}.", {"symbols": data})


def _result(lines: list[str], empty: str, data: dict[str, list[dict[str, Any]]]) -> ToolResult:
    if len(lines) > _SHOWN:
        lines = [*lines[:_SHOWN], f"[{len(lines) - _SHOWN} more: give a longer name, or one file]"]
    return ToolResult.from_text("\n".join(lines) or empty, data={k: v[:_SHOWN] for k, v in data.items()})
