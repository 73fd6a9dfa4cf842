"""Where the environment is read."""

from __future__ import annotations

import ast
from pathlib import Path

import pegboard
from pegboard.config.environment import environment

SRC = Path(pegboard.__file__).parent


def _reads(file: Path) -> bool:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("environ", "environb", "getenv")
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        for node in ast.walk(tree)
    )


def test_one_module_reads_the_environment() -> None:
    assert [f.relative_to(SRC).as_posix() for f in SRC.rglob("*.py") if _reads(f)] == [
        "config/environment.py"
    ]


def test_what_is_set_later_shows(monkeypatch) -> None:
    monkeypatch.setenv("PEGBOARD_TRIED", "yes")
    assert environment()["PEGBOARD_TRIED"] == "yes"
