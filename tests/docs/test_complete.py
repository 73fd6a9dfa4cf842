"""Whether the pages tell everything that there is: commands, options, keys of the settings, extras, variables, tools."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from pegboard.cli.main import app
from pegboard.config.reading import KEYS

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs/guides"
PAGES = "\n".join(page.read_text(encoding="utf-8") for page in sorted(GUIDES.glob("*.md")))


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command or get_command(app)
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))
    if path and not hasattr(command, "commands"):
        yield path, command


@pytest.mark.parametrize("path", [" ".join(path) for path, _ in commands()])
def test_each_command_has_its_row(path: str) -> None:
    rows = (GUIDES / "commands.md").read_text(encoding="utf-8")
    group, _, name = path.partition(" ")

    assert re.search(rf"^\| `pegboard {group}\b[^`]*\b{name}\b", rows, re.MULTILINE)


@pytest.mark.parametrize(
    "path,command", list(commands()), ids=lambda v: " ".join(v) if isinstance(v, tuple) else ""
)
def test_each_option_is_told(path: tuple[str, ...], command: Any) -> None:
    options = [o for p in command.params for o in p.opts if o.startswith("--") and o != "--help"]

    assert [o for o in options if not re.search(rf"{o}\b", PAGES)] == []


def test_each_key_of_the_settings_has_its_row() -> None:
    table = (GUIDES / "settings.md").read_text(encoding="utf-8").partition("## Where")[0]
    first = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))

    assert {k.lower() for k in re.findall(r"`(\w+)`", first)} == set(KEYS)


def test_each_extra_and_variable_is_told() -> None:
    page = (GUIDES / "settings.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    # The mark that commands carry is ours alone; the rest of PEGBOARD_INPUT_ is the name of an input.
    variables = {v.rstrip("_") for v in re.findall(r"PEGBOARD_[A-Z_]+", source)} - {"PEGBOARD_EXEC"}

    assert [e for e in project["optional-dependencies"] if f"`{e}`" not in page] == []
    assert [v for v in variables if v not in page] == []


def test_each_page_is_in_the_menu() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(menu)))
    docs = ROOT / "docs"

    assert {str(p.relative_to(docs)) for p in docs.rglob("*.md") if p.parent.name != "decisions"} == listed
