"""What effects and previews print: the same as the command line."""

from __future__ import annotations

from pathlib import Path

from pegboard import Executor, builtin
from pegboard.core.effects import Effect


async def test_effects_and_previews_read_like_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    door = Executor(builtin(), workspace=tmp_path, mode="workspace")

    read = await door.preview("read_file", {"path": "a.txt"})
    write = await door.preview("write_file", {"path": "b.txt", "content": "two\n"})
    missing = await door.preview("no_such_tool", {})

    assert f"{read.effects}" == "(read a.txt,)"
    assert str(read.effects[0]) == "read a.txt"
    assert repr(read) == "Preview(read a.txt: allow)"
    assert str(write).splitlines()[0] == "effects   write b.txt"
    assert str(write).splitlines()[1].startswith("decision  allow")
    assert "+two" in str(write)
    assert str(missing).startswith("error: ") and "no effects" not in str(missing)


def test_a_target_that_acts_on_a_terminal_is_quoted() -> None:
    assert repr(Effect("read", "a\x1b[2Jb")) == r"'read a\x1b[2Jb'"
