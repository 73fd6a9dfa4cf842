"""A call changes what it declared, and nothing else (ledger D-52)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard import PURE, Command, Effect, Executor, Inject, ReadPath, WritePath, tool
from pegboard.core.effects import Plan
from pegboard.ports.files import Delete, Files, Move, Wanted, Write
from tests.ledger import owes


async def changed(files: Any, *wanted: Wanted) -> str:
    await files.commit(await files.propose(wanted))
    return "done"


@tool
async def read_and_write(path: ReadPath, *, files: Inject[Files]) -> str:
    """Says that it reads."""
    return await changed(files, Write(path=path, data=b"new\n"))


@tool(effects=PURE)
async def pure_and_write(*, files: Inject[Files]) -> str:
    """Says that it does nothing."""
    return await changed(files, Write(path="b.txt", data=b"new\n"))


@tool
async def write_another(path: WritePath, *, files: Inject[Files]) -> str:
    """Says that it writes `path`."""
    return await changed(files, Write(path=path + ".bak", data=b"new\n"))


@tool
async def move_away(path: WritePath, *, files: Inject[Files]) -> str:
    """Says that it writes `path`, and moves it."""
    return await changed(files, Move(path=path, to="elsewhere.txt"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("old\n", encoding="utf-8")
    return tmp_path


@owes("D-52")
@pytest.mark.parametrize(
    ("wrong", "arguments", "path"),
    [
        (read_and_write, {"path": "a.txt"}, "a.txt"),
        (pure_and_write, {}, "b.txt"),
        (write_another, {"path": "a.txt"}, "a.txt.bak"),
        (move_away, {"path": "a.txt"}, "elsewhere.txt"),
    ],
)
async def test_a_tool_that_changes_what_it_did_not_declare_is_stopped(
    wrong: Any, arguments: dict[str, Any], path: str, folder: Path
) -> None:
    async with Executor([wrong], workspace=folder, mode="full") as door:
        result = await door.call(wrong.name, arguments)

    assert result.error is not None
    assert result.error.code == "permission_denied"
    assert f"tried to change {path}" in result.error.message
    assert {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()} == {"a.txt": "old\n"}


@tool(effects=[Effect("write", ".")])
async def anywhere(*, files: Inject[Files]) -> str:
    """Says that it writes the workspace."""
    return await changed(files, Write(path="deep/b.txt", data=b"new\n"))


@tool(effects=[Effect("write", "deep/")])
async def below(*, files: Inject[Files]) -> str:
    """Says that it writes below a folder."""
    return await changed(files, Write(path="deep/b.txt", data=b"new\n"))


@tool
async def by_command(command: Command, *, files: Inject[Files]) -> str:
    """Runs a command, of which nobody knows beforehand what it writes."""
    return await changed(files, Write(path="deep/b.txt", data=b"new\n"))


@owes("D-52")
@pytest.mark.parametrize("right", [anywhere, below, by_command])
async def test_a_tool_that_declared_it_changes_it(right: Any, folder: Path) -> None:
    async with Executor([right], workspace=folder, mode="full", policy=["allow exec:**"]) as door:
        result = await door.call(right.name, {"command": "make"} if right is by_command else {})

    assert str(result) == "done"
    assert (folder / "deep/b.txt").read_bytes() == b"new\n"


async def test_planning_and_code_outside_any_call_are_not_looked_at(folder: Path) -> None:
    seen: list[Files] = []

    async def plan(call: Any, context: Any) -> Plan:
        await changed(seen[0], Delete(path="a.txt"))
        return Plan(())

    @tool(effects=PURE)
    async def give(*, files: Inject[Files]) -> str:
        """Give the port away."""
        seen.append(files)
        return "given"

    @tool(plan=plan)
    async def planned() -> str:
        """Plan with a change; what a plan may do is not the matter here."""
        return "ran"

    async with Executor([give, planned], workspace=folder, mode="full") as door:
        await door.call("give")
        await changed(seen[0], Write(path="outside.txt", data=b"x"))
        result = await door.call("planned")

    assert str(result) == "ran"
    assert [p.name for p in folder.iterdir()] == ["outside.txt"]
