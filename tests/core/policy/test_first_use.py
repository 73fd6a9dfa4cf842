"""Novelty: a question says what is done for the first time in a workspace (ledger G-25)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pegboard import Effect, Executor, tool
from pegboard.core.events import PermissionRequested
from pegboard.core.policy.approval import ApprovalRequest
from pegboard.core.policy.guards import FirstUses, use_keys
from pegboard.store import open_store
from pegboard.store.provenance import StoredFirstUses
from tests.fakes.first_uses import MemoryFirstUses
from tests.ledger import owes


@owes("G-25")
def test_hosts_programs_recipients_and_folders_are_looked_for_and_never_single_files() -> None:
    effects = [
        Effect("exec", "/usr/bin/git push", ("/usr/bin/git", "push")),
        Effect("connect", "github.com"),
        Effect("send", "mail:boss"),
        Effect("write", "src/a.py"),
        Effect("write", "src/b.py"),
        Effect("delete", "old.txt"),
        Effect("read", "secret.txt"),
    ]

    assert use_keys("exec", effects) == (
        "tool exec", "program git", "host github.com", "recipient mail:boss", "folder src", "deleting in .",
    )  # fmt: skip


@owes("G-25")
async def test_a_question_names_what_is_new_and_what_was_refused_stays_new() -> None:
    asked: list[ApprovalRequest] = []
    answers = ["deny", "once", "once", "once"]

    class Person:
        async def decide(self, request: ApprovalRequest) -> str:
            asked.append(request)
            return answers[len(asked) - 1]

    @tool(effects=lambda a: [Effect("send", a["to"])])
    def mail(to: str) -> str:
        """Send a mail."""
        return "sent"

    door = Executor([mail], policy=["ask send"], approver=Person())
    door.pipeline.parts.guards = replace(door.pipeline.parts.guards, novelty=MemoryFirstUses())
    for to in ("a", "a", "a", "b"):
        await door.call("mail", {"to": to})

    assert [r.novel for r in asked] == [
        ("tool mail", "recipient a"),
        ("tool mail", "recipient a"),
        (),
        ("recipient b",),
    ]
    assert [e.novel for e in door.events if isinstance(e, PermissionRequested)] == [r.novel for r in asked]


@owes("G-25")
@pytest.mark.parametrize("kind", ["memory", "stored"])
async def test_each_workspace_has_its_own_first_time(kind: str, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "s.sqlite")
    stored = StoredFirstUses(lambda: store)
    known: FirstUses = MemoryFirstUses() if kind == "memory" else stored
    known.remember("/w", ["host a"])

    assert known.unseen("/w", ["host a", "host b"]) == ("host b",)
    assert known.unseen("/w2", ["host a"]) == ("host a",)
    if kind == "stored":
        await stored.save()
        later = StoredFirstUses(lambda: store)
        await later.refresh("/w")
        assert later.unseen("/w", ["host a", "host b"]) == ("host b",)
    await store.close()


def test_a_command_whose_program_is_not_known_names_no_program() -> None:
    assert use_keys("exec", [Effect("exec", "$X y")]) == ("tool exec",)
