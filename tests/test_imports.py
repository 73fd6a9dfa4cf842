"""Modules import each other in one direction: no cycle in core, small ones elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
LARGEST = 6
"""Modules of the largest cycle that is allowed outside of core."""


def imports(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """What each module imports of these, at its top, inside functions and for type checking alike."""
    return {name: set(_imported(name, path, modules)) - {name} for name, path in modules.items()}


def _imported(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from pegboard.core import events` needs the module and not what its package exports.
                found = next((m for m in (f"{base}.{alias.name}", base) if m in modules), None)
                if found is not None:
                    yield found


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules of which each imports each, directly or through others (Tarjan 1972), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            groups.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return sorted((g for g in groups if len(g) > 1), key=len, reverse=True)


def package(name: str) -> dict[str, Path]:
    """The modules of a package, by their names."""
    out: dict[str, Path] = {}
    for path in sorted((SRC / name).rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def test_core_has_no_import_cycle() -> None:
    assert cycles(imports(package("pegboard/core"))) == []


def test_no_import_cycle_is_large() -> None:
    found = cycles(imports(package("pegboard")))

    assert [group for group in found if len(group) > LARGEST] == []


def test_a_cycle_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    texts = {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b import B\n",
        "b": "def late():\n    import c\n",
        "c": "from a import x\n",
        "d": "import a\n",
    }
    modules: dict[str, Path] = {}
    for name, text in texts.items():
        modules[name] = tmp_path / f"{name}.py"
        modules[name].write_text(text)

    graph = imports(modules)

    assert cycles(graph) == [["a", "b", "c"]]
    try:
        TopologicalSorter(graph).prepare()
        raise AssertionError("the standard library finds no cycle")
    except CycleError:
        pass
