"""What our own pages must say: how to add a tool, and the three subjects that 003 leaves to others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pegboard
from pegboard.tools import TOOLS
from tests.ledger import owes

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@owes("A-54")
def test_what_is_said_about_adding_a_tool_is_how_the_tools_are_made() -> None:
    row = next(line for line in page("AGENTS.md").splitlines() if line.startswith("| a tool |"))
    patterns = re.findall(r"`([\w/]+NAME\.\w+)`", row)
    assert len(patterns) == 3 and "`TOOLS`" in row

    tests = [f.read_text(encoding="utf-8") for f in (ROOT / "tests").glob("*/test_*.py")]
    for name, where in TOOLS.items():
        module = where.partition(":")[0].rpartition(".")[2]
        assert module == name
        for pattern in patterns:
            path = ROOT / pattern.replace("NAME", name)
            # The tools of one family may share a file of tests.
            shared = pattern.startswith("tests/") and any(f'"{name}"' in text for text in tests)
            assert path.is_file() or shared, path


@owes("M-69")
@pytest.mark.parametrize(
    ("guide", "names"),
    [
        ("docs/guides/tools.md", ["tool", "Executor", "Toolkit", "Registry", "ReadPath", "Inject"]),
        ("docs/guides/policies.md", ["Policy"]),
    ],
)
def test_abstraction_registration_and_permissions_have_pages_of_their_own(
    guide: str, names: list[str]
) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page(guide), re.MULTILINE | re.DOTALL))

    for name in names:
        assert hasattr(pegboard, name)
        assert re.search(rf"\b{name}\b", code), f"{guide} shows no use of {name}"


@owes("M-69")
def test_finding_tools_and_every_mode_are_explained() -> None:
    from pegboard.core.policy.policy import MODES

    assert "pegboard.tools" in page("docs/guides/interop.md")  # entry points
    assert "search_tools" in page("docs/tools/search_tools.md")
    for mode in MODES:
        assert f"`{mode}`" in page("docs/guides/policies.md"), mode
