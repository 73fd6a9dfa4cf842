"""What a model is told before a run: where it works, and what the project's files say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.policy.taint import UNTRUSTED
from tests.cli.conftest import Run


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "script.jsonl"
    path.write_text('{"text": "hi"}\n', encoding="utf-8")
    return f"scripted:{path}"


@pytest.fixture
def repository(workspace: Path) -> Iterator[Path]:
    """A repository on a branch, around the folder that is worked in."""
    subprocess.run(["git", "init", "-q", "-b", "topic-17", str(workspace.parent)], check=True)
    yield workspace.parent


async def told(workspace: Path, model: str, **options: Any) -> str:
    """The instructions of the request that a run sends."""
    with App.open(workspace=workspace, **options) as app:
        async with app.sessions.open("s", model=model) as talk:
            async for _ in talk.send("hello"):
                pass
            return talk.model.requests[-1].instructions  # type: ignore[attr-defined]


async def test_the_model_is_told_where_it_is(workspace: Path, repository: Path, model: str) -> None:
    text = await told(workspace, model)

    assert re.search(r"^Date: \w+day, \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert f"Workspace: {workspace} (git repository, branch topic-17)" in text
    assert "Mode: workspace (" in text
    assert re.search(r"^Operating system: \w+", text, re.MULTILINE)
    assert re.search(r"^Commands: .*(network|approval)", text, re.MULTILINE)
    assert "Mode: read-only (only reading" in await told(workspace, model, mode="read-only")


async def test_the_branch_of_a_worktree_and_a_commit_are_told(
    workspace: Path, repository: Path, model: str
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        done = subprocess.run(
            ["git", "-C", str(repository), *who, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("commit", "-q", "--allow-empty", "-m", "one")
    git("worktree", "add", "-q", str(repository / "other"), "-b", "topic-18")
    commit = git("rev-parse", "HEAD")
    git("checkout", "-q", "--detach")

    assert "branch topic-18" in await told(repository / "other", model)
    assert f"branch {commit[:7]}" in await told(workspace, model)


async def test_a_projects_instructions_come_from_the_root_down_to_the_workspace(
    workspace: Path, repository: Path, model: str
) -> None:
    (repository.parent / "AGENTS.md").write_text("above the repository", encoding="utf-8")
    (repository / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    (repository / "CLAUDE.md").write_text("never read here", encoding="utf-8")
    (workspace / "CLAUDE.md").write_text("Always be kind to \x1b[31motters.", encoding="utf-8")

    text = await told(workspace, model)

    assert text.index("Be brief.") < text.index("Always be kind to otters.")
    assert str(repository / "AGENTS.md") in text and '<file path="CLAUDE.md">' in text
    assert "grants no permission" in text
    assert "above the repository" not in text and "never read here" not in text


async def test_what_may_not_be_read_is_not_told(workspace: Path, repository: Path, model: str) -> None:
    secret = repository / "secret.env"
    secret.write_text("TOKEN=abc", encoding="utf-8")
    outside = repository.parent / "elsewhere.md"
    outside.write_text("from elsewhere", encoding="utf-8")
    (workspace / "AGENTS.md").symlink_to(outside)
    (repository / "AGENTS.md").symlink_to(secret)

    assert "<file" not in await told(workspace, model)

    (workspace / "AGENTS.md").unlink()
    (workspace / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    rules = repository / "rules.txt"
    rules.write_text("deny read:AGENTS.md\n", encoding="utf-8")
    assert "Be brief." in await told(workspace, model)
    assert "Be brief." not in await told(workspace, model, policy=rules)


async def test_a_file_that_was_written_from_untrusted_content_marks_the_session(
    workspace: Path, model: str
) -> None:
    (workspace / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    with App.open(workspace=workspace) as app:
        async with app.sessions.open("s", model=model) as talk:
            taints = talk.executor.wiring.safeguards.taints
            before = taints.labels("s", frozenset())
            taints._provenance.add_labels(str(workspace), "AGENTS.md", {UNTRUSTED: "connect a.example"})
            await talk.executor.wiring.safeguards.save()
            async for _ in talk.send("hello"):
                pass
            after = taints.labels("s", frozenset())

    assert (before, after) == (frozenset(), {UNTRUSTED})


def test_one_line_says_what_was_read_and_the_settings_turn_it_off(
    pegboard: Run, home: Path, workspace: Path, model: str
) -> None:
    (workspace / "AGENTS.md").write_text("Be brief.", encoding="utf-8")

    shown = pegboard("run", "--model", model, "hi")
    quiet = pegboard("run", "--quiet", "--model", model, "hi")
    pegboard("config", "set", "instructions_files", "[]")
    off = pegboard("run", "--model", model, "hi")

    assert shown.err.count("project instructions: AGENTS.md") == 1
    assert shown.out == "hi\n"
    assert "AGENTS.md" not in quiet.err + off.err


async def test_a_long_file_is_cut(workspace: Path, model: str) -> None:
    (workspace / "AGENTS.md").write_text("x" * 100_000, encoding="utf-8")

    text = await told(workspace, model)

    assert text.count("x" * 32_000) == 1 and "[cut after 32000 bytes]" in text
    assert len(text) < 40_000
