"""How many files of the package one call enters: what somebody has to open to follow it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pegboard
from pegboard import PURE, Executor, Toolkit, builtin, tool
from pegboard.dialects import dialect

_PACKAGE = str(Path(pegboard.__file__).parent)


@tool(effects=PURE)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("tools", "name", "arguments", "most"),
    [
        ([add], "add", {"a": 1, "b": 2}, 18),
        (builtin("read_file"), "read_file", {"path": "a.txt"}, 32),
        (builtin("exec"), "exec", {"command": "echo hi"}, 48),
    ],
    ids=["pure", "read_file", "exec"],
)
async def test_a_call_from_reply_to_record_enters_few_files(
    tools: Sequence[Any] | Toolkit, name: str, arguments: dict[str, Any], most: int, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "c1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    wire = dialect("openai-chat")
    entered: set[str] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            entered.add(frame.f_code.co_filename.removeprefix(_PACKAGE))

    before = threading.getprofile(), sys.getprofile()
    # Before the first call, so that the threads which it starts are counted in the second.
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        async with Executor(tools, workspace=tmp_path, mode="workspace") as executor:
            # The first call imports modules and builds what later calls use.
            first = await executor.turn(wire.decode(reply))
            entered.clear()
            second = await executor.turn(wire.decode(reply))
            files = sorted(entered)
    finally:
        sys.setprofile(before[1])
        threading.setprofile(before[0])

    assert first[0].ok, first[0].text
    assert second[0].ok, second[0].text
    assert len(files) <= most, files
