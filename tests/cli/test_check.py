"""pegboard check: on a tool, a module and what is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest import raises

from pegboard.cli.check import check
from pegboard.cli.options import Options
from pegboard.core.errors import ConfigError
from tests.ledger import owes

MODULE = '''
from pegboard import PURE, Toolkit, tool
from pegboard.compat.nanobot import BaseTool

@tool(effects=PURE)
def twice(n: int) -> int:
    """Twice.

    Args:
        n: A number.
    """
    return n * 2

class Bad(BaseTool):
    name = "bad"
    description = "Breaks."
    parameters = {"x": {"type": "string", "description": "Any."}}
    async def run(self, x: str) -> str:
        raise RuntimeError("always")

bad = Bad()
kit = Toolkit([twice])
empty = 5
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "my_tools_for_check.py"
    path.write_text(MODULE)
    (tmp_path / "no_tools_for_check.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield path
    for name in ("my_tools_for_check", "no_tools_for_check"):
        sys.modules.pop(name, None)


@owes("G-19")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "status", "tools"),
    [
        ("list_dir", 0, {"list_dir"}),
        ("my_tools_for_check.py", 1, {"twice", "bad"}),
        ("my_tools_for_check:twice", 0, {"twice"}),
        ("my_tools_for_check:kit", 0, {"twice"}),
    ],
)
def test_the_exit_status_says_whether_all_is_well(
    module: Path, target: str, status: int, tools: set[str], capsys: Any
) -> None:
    assert check(target, seed=1, options=Options(json=True)) == status

    found = json.loads(capsys.readouterr().out)
    assert {f["tool"] for f in found["findings"]} == tools
    assert found["seed"] == 1


@owes("G-19")
def test_the_report_is_readable(module: Path, capsys: Any) -> None:
    check("my_tools_for_check:bad", seed=1, options=Options())

    out = capsys.readouterr().out
    assert "FAIL  run" in out
    assert "Tool error: RuntimeError: always" in out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nothing_of_the_kind", "is not a tool, module or MCP server"),
        ("no such", "is not a tool, module or MCP server"),
        ("none.py", "no file none.py"),
        ("no_tools_for_check", "contains no tools"),
        ("my_tools_for_check:missing", "has no 'missing'"),
    ],
)
def test_what_cannot_be_checked_is_named(module: Path, target: str, message: str) -> None:
    with raises(ConfigError, match=message):
        check(target, seed=1, options=Options())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\nimport no_such_module_of_anybody\n", r"\(line 2\): ModuleNotFoundError: No module named"),
        ("\n\nraise RuntimeError('not today')\n", r"\(line 3\): RuntimeError: not today"),
        ("def f(:\n", "SyntaxError"),
    ],
)
def test_a_module_that_fails_is_told_as_the_fault_of_the_module(
    module: Path, monkeypatch: pytest.MonkeyPatch, source: str, said: str
) -> None:
    (module.parent / "broken_for_check.py").write_text(source)
    try:
        for target in ("broken_for_check.py", "broken_for_check"):
            with raises(ConfigError, match=rf"{target} cannot be imported.*{said}"):
                check(target, seed=1, options=Options())
    finally:
        sys.modules.pop("broken_for_check", None)
