"""The catalogue: table, file, function, test and page of every tool have one name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.core.tool import Tool
from pegboard.core.toolkit import import_object
from pegboard.tools import DEFAULT, TOOLS

ROOT = Path(__file__).resolve().parents[1]
TESTS = [p for p in (ROOT / "tests").rglob("test_*.py") if p.name != Path(__file__).name]


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_found_by_its_name_everywhere(name: str) -> None:
    tool = import_object(TOOLS[name])

    assert isinstance(tool, Tool)
    assert tool.name == name
    assert TOOLS[name].startswith(f"pegboard.tools.{name}:")
    assert (ROOT / f"docs/tools/{name}.md").is_file()
    assert any(name in p.read_text(encoding="utf-8") for p in TESTS)


def test_no_tool_file_is_missing_from_the_table() -> None:
    files = {p.stem for p in (ROOT / "src/pegboard/tools").glob("*.py") if not p.stem.startswith("_")}

    assert files == set(TOOLS)
    assert set(DEFAULT) <= set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_every_schema_builds_and_describes_every_parameter(name: str) -> None:
    tool = import_object(TOOLS[name])

    assert tool.schema["type"] == "object"
    assert len(tool.description) > 20
    undescribed = [p for p, s in tool.schema["properties"].items() if not s.get("description")]
    assert undescribed == []
