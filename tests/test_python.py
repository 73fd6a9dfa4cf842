"""What every Python from 3.11 on reads the same way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pegboard

SRC = Path(pegboard.__file__).parent
_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+")


def test_no_expression_repeats_a_group_possessively() -> None:
    """Before 3.11.5 such a repeat matched wrongly (CPython gh-106052): strings were taken as cut off."""
    found = [
        f"{file.relative_to(SRC)}:{node.lineno}"
        for file in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _POSSESSIVE_GROUP.search(node.value)
    ]

    assert found == []
