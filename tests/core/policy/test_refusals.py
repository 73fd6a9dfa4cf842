"""A refusal holds for its effect: for the rest of the run, for every tool and spelling (ledger G-01)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, Effect, Executor, ToolCall, builtin, tool
from pegboard.core.effects import EffectKind
from pegboard.core.policy.approval import ApprovalRequest, Refused
from pegboard.core.policy.grants import does_the_same
from pegboard.core.result import ToolResult
from pegboard.models import ScriptedModel


class No:
    """Refuses, and counts how often."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> Refused:
        self.asked.append(request)
        return Refused("keep it", by="me")


@pytest.mark.parametrize(
    ("kind", "refused", "effect", "same"),
    [
        ("delete", "a.txt", "a.txt", True),
        ("delete", "src/a.txt", "src", True),
        ("delete", "src/a.txt", ".", True),
        ("delete", "src/a.txt", "src/*.txt", True),
        ("delete", "src", "src/a.txt", True),
        ("delete", "a.txt", "b.txt", False),
        ("delete", "a.txt", "a.txt.bak", False),
        ("write", "conf/x", "conf/x", True),
        ("write", "conf", "conf/x", True),
        ("write", "conf/x", "conf", False),
        ("read", ".env", ".env", True),
        ("read", ".env", ".", False),
        ("connect", "a.example", "a.example", True),
        ("connect", "a.example", "a.example:22", False),
        ("send", "mail:ann", "mail:bob", False),
    ],
)
def test_what_does_the_same(kind: EffectKind, refused: str, effect: str, same: bool) -> None:
    assert does_the_same(Effect(kind, effect), Effect(kind, refused)) is same


def test_a_command_with_the_same_words_and_another_content_is_another() -> None:
    one, other = (
        Effect("exec", "sh x.sh", argv=("sh", "x.sh"), bound=b) for b in ("x.sh sha256:1", "x.sh sha256:2")
    )

    assert does_the_same(one, one) and not does_the_same(other, one)


@tool(effects=lambda a: [Effect("connect", a["host"])])
def fetch(host: str) -> str:
    """Fetch a page."""
    return "page"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("keep me\n")
    (tmp_path / "other.txt").write_text("x\n")
    return tmp_path


def calls(*made: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"calls": [{"name": n, "arguments": a}]} for n, a in made] + [{"text": "done"}]


async def results(folder: Path, made: list[tuple[str, dict[str, Any]]], **options: Any) -> list[ToolResult]:
    kit = [fetch, *builtin("delete_file", "exec", "apply_patch")]
    agent = Agent(tools=kit, model=ScriptedModel(calls(*made)), workspace=folder, **options)
    answer = await agent.run("go")
    return [e.result for e in answer.events if e.type == "call.finished"]


PATCH = {"patch": "*** Begin Patch\n*** Delete File: README.md\n*** End Patch"}
SAME = [
    ("exec", {"command": "rm README.md"}),
    ("exec", {"command": "cd . && unlink ./README.md"}),
    ("exec", {"command": "mv README.md gone.md"}),
    ("exec", {"command": "rm *.md"}),
    ("apply_patch", PATCH),
    ("delete_file", {"path": "./README.md"}),
]


@pytest.mark.parametrize("rule", ["deny tool=delete_file", "ask tool=delete_file"])
async def test_what_was_refused_is_refused_to_every_tool_that_would_do_the_same(
    folder: Path, rule: str
) -> None:
    no = No()
    made = [("delete_file", {"path": "README.md"}), *SAME, ("exec", {"command": "rm other.txt"})]

    first, *same, other = await results(folder, made, policy=[rule], approver=no)

    assert [r.error.code for r in (first, *same) if r.error] == ["permission_denied"] * (1 + len(SAME))
    assert all("delete README.md" in r.text or "delete *.md" in r.text for r in same)
    assert (folder / "README.md").read_text() == "keep me\n"
    assert other.ok and not (folder / "other.txt").exists()
    assert len(no.asked) == (1 if rule.startswith("ask") else 0)


async def test_a_host_that_was_refused_to_a_tool_is_refused_to_a_command(folder: Path) -> None:
    no = No()
    made = [
        ("fetch", {"host": "a.example"}),
        ("exec", {"command": "curl https://a.example/x"}),
        ("exec", {"command": "true", "hosts": ["a.example"]}),
        ("fetch", {"host": "b.example"}),
    ]

    done = await results(folder, made, approver=no)

    assert not any(r.ok for r in done)
    assert [r.effects[0].target for r in no.asked] == ["a.example", "b.example"]


async def test_the_next_run_asks_again(folder: Path) -> None:
    no = No()
    for _ in range(2):
        await results(folder, [("fetch", {"host": "a.example"})], approver=no)

    assert len(no.asked) == 2


async def test_the_calls_of_one_turn_share_a_refusal(folder: Path) -> None:
    no = No()
    sent = [
        ToolCall("1", "delete_file", json.dumps({"path": "README.md"})),
        ToolCall("2", "exec", json.dumps({"command": "rm README.md"})),
    ]
    async with Executor(
        builtin("delete_file", "exec"), workspace=folder, policy=["ask tool=delete_file"], approver=no
    ) as executor:
        done = await executor.turn(sent)

    assert not any(r.ok for r in done)
    assert len(no.asked) == 1 and (folder / "README.md").exists()


async def test_a_yes_for_the_run_covers_this_tool_and_these_targets_until_the_run_ends(folder: Path) -> None:
    asked: list[str] = []

    def approver(request: ApprovalRequest) -> str:
        asked.append(f"{request.tool} {request.effects[0].target}")
        return "run"

    made = [
        ("fetch", {"host": "a.example"}),
        ("fetch", {"host": "a.example"}),
        ("fetch", {"host": "b.example"}),
        ("exec", {"command": "true", "hosts": ["a.example"]}),
    ]
    first = ["fetch a.example", "fetch b.example"]

    done = await results(folder, made[:3], approver=approver)
    again = await results(folder, made[:1], approver=approver)
    other = await (Executor([fetch], approver=approver)).call("fetch", {"host": "a.example"})

    assert all(r.ok for r in (*done, *again, other))
    assert asked == [*first, "fetch a.example", "fetch a.example"]
