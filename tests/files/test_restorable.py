"""Deletions pass if undo restores all of them, and ask if not, whichever tool makes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pegboard import Executor, builtin, tool
from pegboard.core.policy.approval import ApprovalRequest
from pegboard.core.schema.annotations import DeletePath, Inject
from pegboard.files.restorable import Restorable
from pegboard.files.snapshot import SnapshotLimits
from pegboard.ports.files import Delete, Files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with files that undo restores and others that it does not."""
    root = tmp_path / "work"
    for name in (
        "a.txt",
        "src/b.py",
        "many/x",
        "node_modules/dep/index.js",
        ".git/HEAD",
        "sub/.git/HEAD",
        "vendor/c",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("content\n")
    for number in range(51):
        (root / "many" / f"{number}.txt").write_text("x")
        (root / "node_modules" / f"{number}.js").write_text("x")
    with (root / "big.bin").open("wb") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    (root / "vendor" / "huge").symlink_to(root / "big.bin")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("a.txt", ""),
        ("absent", ""),
        ("src", ""),
        ("vendor", ""),
        ("*.txt", ""),
        ("many/1*.txt", ""),
        ("node_modules", ""),
        ("node_modules/dep/index.js", ""),
        ("many", "more than 50 files"),
        ("many/*", "more than 50 files"),
        ("many/…", "more than 50 files"),
        ("big.bin", "has 16777217 bytes"),
        ("*.bin", "has 16777217 bytes"),
        ("pipe", "neither a file nor a folder"),
        (".git/HEAD", "history"),
        ("sub", "history"),
        ("/tmp/x", "outside"),
    ],
)
async def test_what_undo_could_not_restore(folder: Path, target: str, why: str) -> None:
    loss = await Restorable(folder).loss(target)

    assert why in loss
    assert bool(loss) == bool(why)


async def test_a_tree_of_more_bytes_than_undo_keeps_is_not_restored(folder: Path) -> None:
    few = Restorable(folder, SnapshotLimits(max_total_bytes=10))

    assert await few.loss("a.txt") == ""
    assert "more bytes" in await few.loss("[a-v]*.txt") or "more bytes" in await few.loss("many/[1-2]*")


@tool
async def discard(path: DeletePath, *, files: Inject[Files]) -> str:
    """Delete a file through the workspace."""
    await files.commit(await files.propose([Delete(path=path)]))
    return "gone"


@tool
def unlink(path: DeletePath) -> str:
    """Delete a file without the workspace's knowledge."""
    Path(path).unlink()
    return "gone"


KIT = [discard, unlink, *builtin("delete_file", "exec", "apply_patch")]


@pytest.mark.parametrize(
    ("path", "decision"),
    [("a.txt", "allow"), ("src/b.py", "allow"), ("node_modules/dep/index.js", "allow"), ("big.bin", "ask")],
)
async def test_every_tool_with_the_same_effect_gets_the_same_answer(
    folder: Path, path: str, decision: str
) -> None:
    patch = f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("delete_file", {"path": path}),
        ("discard", {"path": path}),
        ("exec", {"command": f"rm {path}"}),
        ("exec", {"command": f"cd . && unlink ./{path}"}),
        ("apply_patch", {"patch": patch}),
    ]
    async with Executor(KIT, workspace=folder) as executor:
        previews = [(name, await executor.preview(name, arguments)) for name, arguments in calls]
        own = await executor.preview("unlink", {"path": path})

    assert [(name, p.decision) for name, p in previews if p.error is None] == [
        (name, decision) for name, p in previews if p.error is None
    ]
    assert len([p for _, p in previews if p.error is None]) >= 4
    # Undo knows nothing of what a foreign function deletes by itself.
    assert own.decision == "ask"


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("mv big.bin larger.bin", "allow"),
        ("mv many some", "allow"),
        ("mv big.bin /tmp/big.bin", "ask"),
        ("rm -r many", "ask"),
        ("rm -rf node_modules", "allow"),
        ("rm many/*.txt", "ask"),
        ("rm src/*.py", "allow"),
        ("for f in $(ls); do rm many/$f; done", "ask"),
    ],
)
async def test_a_command_that_deletes_asks_by_what_is_lost(folder: Path, command: str, decision: str) -> None:
    async with Executor(builtin("exec"), workspace=folder) as executor:
        preview = await executor.preview("exec", {"command": command})

    assert preview.decision == decision
    assert decision == "allow" or "undo cannot restore it" in preview.reason


async def test_a_profile_whose_texts_promise_a_question_asks(folder: Path) -> None:
    asked: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> str:
        asked.append(request)
        return "deny"

    kit = builtin("delete_file").profile("nanobot")
    async with Executor(kit, workspace=folder, approver=approver) as executor:
        await executor.call("delete_file", {"path": "a.txt"})

    assert len(asked) == 1 and (folder / "a.txt").exists()


async def test_what_passed_unasked_is_restored_by_undo(folder: Path) -> None:
    async with Executor(KIT, workspace=folder) as executor:
        assert (await executor.call("exec", {"command": "rm -r src"})).ok
        assert not (folder / "src").exists()
        await executor.undo()

    assert (folder / "src" / "b.py").read_text() == "content\n"
