"""run_code: a Python program whose functions are the other tools."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field

from pegboard.core.effects import PURE
from pegboard.core.policy.approval import Waiting
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.programs import Programs

_FENCED: Final = re.compile(r"\s*(```+|~~~+)[^\n`]*\n(.*?)\n?[ \t]*\1\s*\Z", re.DOTALL)


@tool(
    effects=PURE,
    timeout_s=0,
    hints=("run python", "call several tools at once", "loop over files"),
    example={"code": 'page = await read_file("README.md")\nlen(page["text"])'},
)
async def run_code(
    code: Annotated[str, Field(min_length=1, pattern=r"\S"), Alias("script", "program", "python", "source")],
    *,
    programs: Inject[Programs],
) -> ToolResult | Waiting:
    """Run a Python program that calls the tools below as async functions.

    Await each call, and use asyncio.gather for calls that do not depend on each other. The result is what the program
    prints, and the value of its last expression. A call that fails raises an exception with its reason. There are no
    files, network, third-party modules, class inheritance or generators: only the functions below reach anything.

    Args:
        code: The program.
    """
    # As models show code, though nobody asked for a fence.
    fenced = _FENCED.match(code)
    return await programs.run(fenced[2] if fenced else code)
