"""001's rules for tools (ledger D-49, D-51, D-52, D-02) over all that we ship."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pegboard import Executor, builtin
from pegboard.core.tool import Tool
from pegboard.core.toolkit import import_object
from pegboard.tools import DEFAULT, TOOLS
from tests.ledger import owes

LOOKING = frozenset({"read", "connect"})
"""Effects that change nothing."""

SEVERAL_IN_ONE = frozenset(
    {"browser", "canvas", "code", "cron", "gateway", "message", "nodes", "process", "subagents"}
)
"""Tools that do several things by an `action` parameter, since the documents have them so (M-11, M-39, M-40, N-90, K-57, X-48); `subagents`
follows `process`. What `code` changes is in its plan, so that looking asks nobody and a rename is judged by its writes."""

APPEARANCE = frozenset({"size", "format", "thinking"})
"""Parameters with fixed values that say how a file looks or how long a model thinks, and not what is done."""

CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "src/a.py"},
    "list_dir": {"path": "."},
    "glob": {"pattern": "**/*.py"},
    "grep": {"pattern": "x"},
    "process": {"action": "list"},
    "search_tools": {"query": "read"},
    "cron": {"action": "list"},
    "subagents": {"action": "list"},
    "nodes": {"action": "list"},
    "read_artifact": {"id": "none"},
    "list_artifacts": {},
    "grep_artifact": {"pattern": "x"},
    "ask_user": {"question": "Which?"},
}


def every() -> list[Tool]:
    return [import_object(where) for where in TOOLS.values()]


@owes("D-49")
@pytest.mark.parametrize("one", every(), ids=lambda t: t.name)
def test_a_tool_looks_or_changes_and_no_parameter_switches_between_the_two(one: Tool) -> None:
    # Whatever its name, and inside a choice of types too.
    switches = [
        name
        for name, schema in one.schema["properties"].items()
        if "'enum'" in str(schema) and name not in APPEARANCE
    ]
    # grep's `mode` says how what was found is shown, and it has no effect but reading.
    switching = bool(switches) and not set(one.kinds()) <= LOOKING

    assert switching == (one.name in SEVERAL_IN_ONE)


@owes("D-51")
@pytest.mark.parametrize("one", every(), ids=lambda t: t.name)
def test_every_parameter_is_used_by_its_tool(one: Tool) -> None:
    module = ast.parse(textwrap.dedent(inspect.getsource(inspect.getmodule(one.function))))  # type: ignore[arg-type]
    bodies = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    (own,) = [n for n in bodies if n.name == one.function.__name__ and n in module.body]
    used = {n.id for n in ast.walk(own) if isinstance(n, ast.Name)}
    # A plan or an effects function takes the arguments as a mapping and reads them by their names.
    read = {
        n.value
        for body in bodies
        for n in ast.walk(body)
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }

    assert [p for p in one.schema["properties"] if p not in used and p not in read] == []


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(p.relative_to(folder)): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"")
        for p in sorted(folder.rglob("*"))
    }


@owes("D-52")
@pytest.mark.parametrize("name", [t.name for t in every() if set(t.kinds()) <= LOOKING or t.name in CALLS])
async def test_a_tool_that_only_looks_leaves_the_workspace_as_it_was(name: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("x = 1\n", encoding="utf-8")
    before = state(tmp_path)
    kit = builtin(name, "read_file") if name != "read_file" else builtin(name)

    try:
        door = Executor(kit, workspace=tmp_path)
    except Exception as error:  # noqa: BLE001  What cannot be built without an agent cannot change anything either.
        pytest.fail(f"{name} cannot be built alone: {error}")
    async with door:
        plan = await door.preview(name, CALLS.get(name, {}))
        await door.call(name, CALLS.get(name, {}))

    assert {e.kind for e in plan.effects} <= LOOKING
    assert state(tmp_path) == before


def test_the_default_set_covers_files_shell_and_search() -> None:
    families = {
        "file system": {"read_file", "write_file", "edit_file", "delete_file", "list_dir", "apply_patch"},
        "shell": {"exec", "process"},
        "search": {"glob", "grep"},
    }

    assert set().union(*families.values()) <= set(DEFAULT)
    assert {t.name for t in builtin()} == set(DEFAULT)
