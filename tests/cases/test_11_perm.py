"""Theme 11: a permission means what the person thought that it meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pegboard import AllowOnce, Executor, Policy, Refused, Rule, ToolCall, WritePath, builtin, tool
from pegboard.cli.show import escape_controls
from pegboard.shell.guard import judge
from tests.cases.kit import door, rows
from tests.ledger import DATA, owes
from tests.shell.guard_commands import DANGEROUS


async def decided(folder: Path, command: str, *, allow: Any = (), deny: Any = (), mode: str = "ask") -> str:
    """What the policy answers, asked through the executor."""
    rules = [f"allow exec:{a}" for a in allow] + [f"deny exec:{d}" for d in deny]
    async with door(folder, "exec", mode=mode, policy=[*rules]) as tools:
        explained = await tools.explain("exec", {"command": command})
    assert "decision" in explained, explained
    return str(explained["decision"])


def table(id: str) -> list[str]:
    return list(rows("11-perm")[id]["input"]["commands"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "api").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.sh").write_text("echo a\n")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    return tmp_path


@owes("perm-01")
@pytest.mark.parametrize("command", table("perm-01"))
async def test_an_allowed_prefix_carries_no_passenger(command: str, folder: Path) -> None:
    assert await decided(folder, command, allow=["git *"]) in ("ask", "deny")


@owes("perm-02")
@pytest.mark.parametrize("command", table("perm-02"))
async def test_a_command_whose_parts_are_all_allowed_is_not_asked(command: str, folder: Path) -> None:
    allow = rows("11-perm")["perm-02"]["input"]["allow"]
    assert await decided(folder, command, allow=allow) == "allow"


@owes("perm-03", "X-23", "K-20")
@pytest.mark.parametrize("command", table("perm-03"))
async def test_a_denial_is_found_in_any_part(command: str, folder: Path) -> None:
    given = rows("11-perm")["perm-03"]["input"]

    answer = await decided(folder, command, allow=given["allow"], deny=given["deny"])

    assert answer == ("ask" if command == given["commands"][-1] else "deny")


@owes("perm-04")
@pytest.mark.parametrize("command", table("perm-04"))
async def test_a_substitution_is_judged_by_itself(command: str, folder: Path) -> None:
    allow = rows("11-perm")["perm-04"]["input"]["allow"]
    assert await decided(folder, command, allow=allow) == ("allow" if command == "echo '$(id)'" else "ask")


@owes("perm-05")
@pytest.mark.parametrize("command", table("perm-05"))
async def test_a_redirection_is_a_write_of_its_own(command: str, folder: Path) -> None:
    answer = await decided(folder, command, allow=["echo *"], mode="workspace")
    assert (answer == "allow") == command.endswith(" out.txt")


@owes("perm-07")
async def test_a_shell_around_the_command_does_not_hide_it_from_the_rules(folder: Path) -> None:
    command = f"/bin/sh -lc \"cd {folder} && ./scripts/a.sh 'p'\""
    assert await decided(folder, command, allow=["./scripts/*"]) == "allow"


@owes("perm-08")
@pytest.mark.parametrize("command", table("perm-08"))
async def test_the_inner_program_decides(command: str, folder: Path) -> None:
    allow = rows("11-perm")["perm-08"]["input"]["allow"]
    assert await decided(folder, command, allow=allow) == "ask"


@owes("perm-09")
async def test_a_rule_ends_at_the_border_of_a_word(folder: Path) -> None:
    allow = rows("11-perm")["perm-09"]["input"]["allow"]
    answers = [await decided(folder, c, allow=allow) for c in table("perm-09")]
    assert answers == ["ask", "allow", "ask", "allow"]


@owes("perm-10", "N-48")
@pytest.mark.parametrize("command", table("perm-10"))
async def test_no_file_outside_is_shown_however_it_is_named(
    command: str, folder: Path, own_home: Path
) -> None:
    (own_home / ".ssh").mkdir()
    (own_home / ".ssh" / "id_rsa").write_text("root:x:KEY")
    (own_home / ".config").mkdir()
    (own_home / ".config" / "x").write_text("root:x:CONFIG")
    command = command.split(" (")[0]

    async with door(folder, "exec") as tools:
        result = await tools.call("exec", {"command": command})
    async with door(folder, "exec", approver=AllowOnce()) as tools:
        approved = await tools.call("exec", {"command": command})

    for one in (result, approved):
        assert "KEY" not in str(one) and "CONFIG" not in str(one)
        assert "daemon:" not in str(one)


@owes("perm-16", "K-49")
async def test_a_yes_does_not_repeat_the_finished_siblings(folder: Path) -> None:
    @tool
    def append(path: WritePath = "log.txt") -> str:
        """Append a line."""
        with open(path, "a") as log:
            log.write("line\n")
        return "ok"

    (folder / "x").write_text("x")
    kit = [append, *builtin("delete_file")]
    async with Executor(kit, workspace=folder, approver=AllowOnce()) as tools:
        results = await tools.turn(
            [ToolCall("1", "append", "{}"), ToolCall("2", "delete_file", '{"path": "x"}')]
        )

    assert [r.ok for r in results] == [True, True]
    assert (folder / "log.txt").read_text() == "line\n"


@owes("perm-18", "G-01")
async def test_what_was_shown_is_what_runs_or_nothing(folder: Path) -> None:
    shown: list[Any] = []

    class Slow:
        async def decide(self, request: Any) -> str:
            shown.append(request)
            (folder / "x").write_text("changed while you looked")
            return "allow"

    (folder / "x").write_text("before")
    async with door(folder, "delete_file", "write_file", approver=Slow(), mode="ask") as tools:
        deleted = await tools.call("delete_file", {"path": "x"})

    assert not deleted.ok
    assert (folder / "x").read_text() == "changed while you looked"
    assert len(shown) >= 1


@owes("perm-18")
async def test_an_invisible_character_asks_and_a_long_command_is_shown_whole(folder: Path) -> None:
    asked: list[Any] = []

    class Look:
        async def decide(self, request: Any) -> str:
            asked.append(request)
            return "deny"

    tail = "x" * 3000 + " end"
    for mode in ("ask", "workspace"):
        async with door(folder, "exec", mode=mode, approver=Look()) as tools:
            await tools.call("exec", {"command": f"echo safe\u202etxt.exe\u200b {tail}"})

    assert len(asked) == 2
    for request in asked:
        assert any(tail in e.target for e in request.effects)
        assert "U+202E" in request.reason or any("U+202E" in e.reason for e in request.effects)
        shown = escape_controls(" ".join(e.target for e in request.effects))
        assert "\u202e" not in shown and "\u200b" not in shown


CORPUS = [json.loads(line) for line in (DATA / "security" / "shell.jsonl").read_text("utf-8").splitlines()]


@owes("X-22", "X-25")
async def test_no_verdict_of_the_guard_gets_lost_on_its_way_to_the_policy(folder: Path) -> None:
    rank = ("allow", "ask", "deny").index
    lost: list[str] = []
    async with door(folder, "exec") as tools:
        for command in [*(row["input"] for row in CORPUS), *DANGEROUS]:
            verdict = judge(command, folder, confined=tools.policy.sandboxed).decision
            preview = await tools.preview("exec", {"command": command})
            if preview.error is None and rank(preview.decision) < rank(verdict):
                lost.append(command)

    assert lost == []


@owes("perm-19", "D-56")
async def test_a_reason_is_told_and_the_same_call_is_not_asked_twice(folder: Path) -> None:
    asked: list[Any] = []

    class Friday:
        async def decide(self, request: Any) -> Refused:
            asked.append(request)
            return Refused("not on Fridays")

    (folder / "x").write_text("x")
    async with door(folder, "delete_file", approver=Friday(), mode="ask") as tools:
        results = await tools.turn([ToolCall(str(n), "delete_file", '{"path": "x"}') for n in range(2)])

    assert len(asked) == 1
    assert all("not on Fridays" in str(r) for r in results)
    assert (folder / "x").exists()


def test_rules_are_read_from_lines_as_a_policy_file_has_them() -> None:
    assert Policy(rules=(Rule.parse("allow exec:git *"),)).rules[0].target == "git *"
