"""A function that opens its paths itself opens the files that were judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard import Executor, Inject, ReadPath, Url, tool
from pegboard.ports.files import Files
from tests.ledger import owes


@owes("N-31", "C-19", "X-44")
async def test_a_relative_path_is_the_workspaces_even_where_the_process_works_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "w", tmp_path / "elsewhere"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.txt").write_text(folder.name)
        (folder / "b.txt").write_text(folder.name + " b")
    monkeypatch.chdir(outside)

    @tool
    def look(path: ReadPath, more: list[ReadPath] | None = None) -> str:
        """Look."""
        return ",".join(Path(p).read_text() for p in [path, *(more or [])])

    door = Executor([look], workspace=inside)

    assert str(await door.call("look", {"path": "a.txt"})) == "w"
    assert str(await door.call("look", {"path": str(inside / "b.txt")})) == "w b"
    assert [e.target for e in (await door.preview("look", {"path": "a.txt"})).effects] == ["a.txt"]


async def test_a_link_is_opened_where_it_led_when_it_was_judged(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("real")
    (tmp_path / "link.txt").symlink_to("real.txt")

    @tool
    def look(path: ReadPath) -> str:
        """Look."""
        return path

    assert str(await Executor([look], workspace=tmp_path).call("look", {"path": "link.txt"})) == str(
        tmp_path / "real.txt"
    )


async def test_a_tool_that_opens_through_the_files_port_gets_the_path_as_it_came(tmp_path: Path) -> None:
    @tool
    async def look(path: ReadPath, *, files: Inject[Files]) -> str:
        """Look."""
        return path

    assert str(await Executor([look], workspace=tmp_path).call("look", {"path": "./a.txt"})) == "./a.txt"


async def test_no_paths_at_all_and_targets_that_are_none_stay_as_they_are(tmp_path: Path) -> None:
    @tool
    def reach(many: list[ReadPath], url: Url = "") -> str:
        """Reach."""
        return f"{many} {url}"

    door = Executor([reach], workspace=tmp_path, mode="full")

    assert str(await door.call("reach", {"many": []})) == "[] "
    assert (
        str(await door.call("reach", {"many": [], "url": "https://example.org/a"}))
        == "[] https://example.org/a"
    )
