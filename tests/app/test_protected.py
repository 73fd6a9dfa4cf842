"""Files by which other programs run something: one list, one answer, whichever tool changes them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pegboard import Executor, ToolResult, builtin
from pegboard.core.policy.approval import AllowOnce, Answer, ApprovalRequest, Approved, Refused

KIT = builtin("write_file", "edit_file", "apply_patch", "delete_file", "exec")
STARTS_PROGRAMS = [
    ".windsurf/mcp.json", ".kiro/settings/mcp.json", ".amazonq/mcp.json", ".roo/mcp.json", ".kilocode/mcp.json",
    ".continue/config.yaml", "opencode.json", "crush.json", ".hg/hgrc", ".jj/repo/config.toml", ".cursor/mcp.json",
    ".vscode/tasks.json", ".mcp.json", ".envrc", ".git/hooks/pre-commit", ".helix/languages.toml", "a/.VSCode/x.json",
    ".exrc", ".idea/workspace.xml", ".aider.conf.yml", ".devcontainer/devcontainer.json", ".gitconfig",
]  # fmt: skip


class Person:
    """Answers every question and remembers it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> Answer:
        self.asked.append(request)
        return self.answer


async def call(root: Path, tool: str, approver: Any, mode: str = "full", **arguments: Any) -> ToolResult:
    async with Executor(KIT, workspace=root, mode=mode, approver=approver) as executor:
        return await executor.call(tool, arguments)


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


@pytest.mark.parametrize("mode", ["workspace", "full"])
@pytest.mark.parametrize("name", STARTS_PROGRAMS)
async def test_a_person_is_asked_and_yes_does_not_answer(root: Path, name: str, mode: str) -> None:
    person = Person(Refused("no"))

    flag = await call(root, "write_file", AllowOnce(), mode, path=name, content="{}")
    refused = await call(root, "write_file", person, mode, path=f"./{name}", content="{}")
    shell = await call(root, "exec", person, mode, command=f"mkdir -p {Path(name).parent}; echo x > {name}")

    assert [r.error.code for r in (flag, refused, shell) if r.error] == ["permission_denied"] * 3
    assert len(person.asked) == 2
    assert all(name in [e.target for e in request.asking] for request in person.asked)
    assert not (root / name).exists()


@pytest.mark.parametrize("name", [".vscode/tasks.json", ".git/hooks/pre-commit", ".envrc", ".kiro/mcp.json"])
async def test_what_a_person_allows_is_done(root: Path, name: str) -> None:
    (root / ".vscode").mkdir()

    written = await call(root, "write_file", Person(Approved()), path=name, content="one\n")
    edited = await call(root, "edit_file", Person(Approved()), path=name, old_string="one", new_string="two")
    text = (root / name).read_text()
    shell = await call(root, "exec", Person(Approved()), command=f"echo three > {name}")

    assert (written.ok, edited.ok, text) == (True, True, "two\n")
    assert (shell.data["exit_code"], (root / name).read_text()) == (0, "three\n"), shell.text


@pytest.mark.parametrize("name", ["pegboard.toml", ".pegboard/policy", "pegboard.json5", "sub/pegboard.yml"])
async def test_our_own_settings_are_refused_to_everybody(root: Path, name: str) -> None:
    person = Person(Approved())

    result = await call(root, "write_file", person, path=name, content="x")
    shell = await call(root, "exec", person, command=f"mkdir -p {Path(name).parent}; echo x > {name}")

    assert [r.error.code for r in (result, shell) if r.error] == ["permission_denied"] * 2
    assert person.asked == []
    assert not (root / name).exists()


@pytest.mark.parametrize(
    ("key", "value", "deeper"),
    [
        ("include.path", "../extra.cfg", ""),
        ("includeIf.onbranch:x.path", "../extra.cfg", ""),
        ("include.path", "../first.cfg", "first.cfg"),
        ("core.hooksPath", "extra.cfg", ""),
    ],
)  # fmt: skip
async def test_what_git_config_takes_in_is_protected_as_the_config_is(
    root: Path, key: str, value: str, deeper: str
) -> None:
    git(root, "config", key, value)
    if deeper:
        git(root, "config", "-f", deeper, "include.path", "extra.cfg")
    evil = '[core]\n\tfsmonitor = "touch ran; false"\n'
    (root / "s.py").write_text(f"open('extra.cfg', 'w').write({evil!r})\n")
    person = Person(Refused("no"))

    tool = await call(root, "write_file", person, path="extra.cfg", content=evil)
    shell = await call(root, "exec", AllowOnce(), command="echo x > extra.cfg")
    script = await call(root, "exec", None, "workspace", command="python3 s.py")
    git(root, "status")

    assert [r.error.code for r in (tool, shell) if r.error] == ["permission_denied"] * 2
    assert len(person.asked) == 1
    assert not (root / "extra.cfg").exists(), script.text
    assert not (root / "ran").exists()


async def test_an_included_file_that_is_there_is_read_only_inside(root: Path) -> None:
    git(root, "config", "include.path", "../team/extra.cfg")
    (root / "team").mkdir()
    (root / "team" / "extra.cfg").write_text("[alias]\n\tst = status\n")
    (root / "s.py").write_text("import os\nos.rename('team', 'old')\n")
    (root / "t.py").write_text("open('team/extra.cfg', 'w').write('x')\n")

    seen = await call(
        root, "exec", None, "workspace", command="git status --short; python3 t.py; python3 s.py"
    )

    assert "?? s.py" in seen.data["stdout"]
    assert seen.data["stderr"].count("OSError") == 2
    assert (root / "team" / "extra.cfg").read_text() == "[alias]\n\tst = status\n"


async def test_a_link_that_leads_to_a_protected_file_is_asked_about_as_that(root: Path) -> None:
    (root / ".vscode").mkdir()
    (root / "link").symlink_to(".vscode")
    person = Person(Refused("no"))

    result = await call(root, "write_file", person, path="link/tasks.json", content="{}")

    assert not result.ok
    assert [e.target for e in person.asked[0].asking] == [".vscode/tasks.json"]
