"""A rule about one program is none about another that the command makes it run (decision 0420, ledger K-20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.core.content import ToolCall
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.grants import MemoryGrants
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Situation
from pegboard.shell.guard import judge
from tests.ledger import owes

HERE = Situation(values={"tool": "exec", "session": "s"}, workspace="/w")

# (command, pattern of a rule that names its program): what runs is decided by a word, a variable, a pipe
PASSENGERS = [
    ("git -c alias.x='!sh' x", "git **"),
    ("git -c core.sshCommand=./x status", "git **"),
    ("git -c core.fsmonitor=./x status", "git **"),
    ("git -ccore.pager=./x log", "git **"),
    ("git --config-env=core.pager=X log", "git **"),
    ("git --exec-path=. status", "git **"),
    ("git log --ext-diff", "git **"),
    ("git grep -Osh x", "git **"),
    ("git grep --open-files-in-pager=sh x", "git **"),
    ("git difftool -x 'sh x'", "git **"),
    ("git filter-branch --tree-filter 'rm x' HEAD", "git **"),
    ("git config alias.x '!sh'", "git **"),
    ("git config core.hooksPath x", "git **"),
    ("git helper-of-mine", "git **"),
    ("GIT_PAGER='sh x' git -p log", "git **"),
    ("PAGER=./x git log", "git **"),
    ("export GIT_SSH_COMMAND=./x; git status", "git **"),
    ("LD_PRELOAD=./x.so ls", "ls **"),
    ("env LD_PRELOAD=./x.so ls", "ls **"),
    ("PATH=. ls", "ls **"),
    ("sed 1e x", "sed **"),
    ("sed '1e id' x", "sed **"),
    ("sed 's/a/id/e' x", "sed **"),
    ("awk 'BEGIN{system(\"id\")}'", "awk **"),
    ("awk '{print | \"sh\"}' x", "awk **"),
    ("gawk -l ./x 'BEGIN{}'", "gawk **"),
    ("tar cf x --checkpoint=1 --checkpoint-action=exec=id y", "tar **"),
    ("tar xf x --to-command=id", "tar **"),
    ("tar -I 'sh x' -cf y z", "tar **"),
    ("find . -exec {} \\;", "find **"),
    ("find . -exec sh -c '{}' \\;", "find **"),
    ("rsync -e 'sh -c id' a b", "rsync **"),
    ("rsync --rsync-path=./x a b", "rsync **"),
    ("vim -c '!id' x", "vim **"),
    ("vim +'!id' x", "vim **"),
    ("vim -S x.vim", "vim **"),
    ("less +'!id' x", "less **"),
    ("LESSOPEN='|id %s' less x", "less **"),
    ("man -P 'sh -c id' ls", "man **"),
    ("env X=1 $Y", "env **"),
    ("env -S '${Y} x'", "env **"),
    ("cat x | xargs -I{} sh -c '{}'", "xargs **"),
    ("cat x | xargs -n1 env", "xargs **"),
    ("sort --compress-program=./x y", "sort **"),
    ("rg --pre ./x y", "rg **"),
    ("split --filter='sh x' a", "split **"),
    ("zip -T -TT 'sh x' a b", "zip **"),
    ("python3 -c \"$X\"", "python3 **"),
    ("cat x | python3", "python3 **"),
    ("cat x | sh", "sh **"),
    ("sh -c \"$X\"", "sh **"),
    ("bash absent.sh", "bash **"),
    ("bash <(cat x)", "bash **"),
    ("eval \"$X\"", "eval **"),
    ("timeout 5 $X", "timeout **"),
    ("make SHELL=./y", "make **"),
    ("make --eval='$(shell id)'", "make **"),
    ("go test -exec ./x ./...", "go **"),
    ("openssl dgst -engine ./y x", "openssl **"),
    ("alias ls='rm x'; ls", "alias **"),
    ("sqlite3 a.db '.shell id'", "sqlite3 **"),
]  # fmt: skip


@owes("K-20", "X-23")
@pytest.mark.parametrize("mode", ["ask", "workspace"])
@pytest.mark.parametrize(("command", "pattern"), PASSENGERS)
def test_neither_a_rule_about_the_program_nor_one_about_all_covers_what_it_is_made_to_run(
    command: str, pattern: str, mode: str, tmp_path: Path
) -> None:
    effects = judge(command, tmp_path).effects
    # What stands beside it (`cat x |`) is allowed, so that only the segment in question can ask.
    beside = ["allow exec:cat **", "allow exec:export **", "allow exec:env **"]

    for rule in (f"allow exec:{pattern}", "allow exec:*", "allow exec:**"):
        others = [b for b in beside if pattern.split()[0] not in b]
        assert Policy.of([rule, *others], mode=mode)(effects, HERE).verdict != "allow", rule


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("git -c core.pager=./x log", "git -c core.pager=./x **"),
        ("git helper-of-mine a", "git helper-of-mine **"),
        ("rsync -e 'sh x' a b", "rsync -e 'sh x' **"),
        ("tar xf x --to-command=./id", "tar * x --to-command=./id"),
        ("go test -exec ./x ./...", "go test -exec ./x **"),
        ("man -P ./x ls", "man -P ./x *"),
        ("awk 'BEGIN{system(\"id\")}'", "awk 'BEGIN{system(\"id\")}'"),
        ("make SHELL=./y all", "make SHELL=./y **"),
    ],
)
def test_a_rule_that_spells_what_decides_covers_it(command: str, pattern: str, tmp_path: Path) -> None:
    effects = judge(command, tmp_path).effects
    rules = [f"allow exec:{pattern}", "allow exec:id *"]

    assert Policy.of([rules[0]])(effects, HERE).verdict == "allow"


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("python3 -c 'import subprocess; subprocess.run(x)'", "python3 **"),
        ("/usr/bin/python3 -c 'import subprocess; subprocess.run(x)'", "python3 **"),
        ("gdb -ex run ./x", "gdb **"),
        ("ed x", "ed *"),
        ("crontab x", "*"),
        ("git push --force", "git push **"),
        ("sudo ls", "*"),
    ],
)
def test_what_a_program_is_for_and_what_is_merely_dangerous_a_rule_covers(
    command: str, pattern: str, tmp_path: Path
) -> None:
    effects = judge(command, tmp_path).effects
    rules = [f"allow exec:{pattern}", "allow connect"]

    assert Policy.of(rules)(effects, HERE).verdict == "allow"


def test_all_commands_are_not_all_code(tmp_path: Path) -> None:
    effects = judge("python3 -c 'import subprocess; subprocess.run(x)'", tmp_path).effects

    assert Policy.of(["allow exec:*"])(effects, HERE).verdict == "ask"
    assert Policy.of(["allow exec:* override=true"])(effects, HERE).verdict == "allow"
    assert Policy.of([], mode="full")(effects, HERE).verdict == "allow"


def test_what_a_denial_leaves_out_leaves_out_no_passenger(tmp_path: Path) -> None:
    policy = Policy(rules=("deny exec:* unless=exec:git **",))  # type: ignore[arg-type]

    assert policy(judge("git log", tmp_path).effects, HERE).verdict == "allow"
    assert policy(judge("git -c core.pager=./x log", tmp_path).effects, HERE).verdict == "deny"


@owes("X-23", "perm-03")
@pytest.mark.parametrize(
    "command",
    [
        "python3 -c 'import os; os.system(\"rm -rf /x\")'",
        "python3 -c 'import subprocess as s; s.run([\"rm\", \"-rf\", \"/x\"])'",
        "perl -e 'system(\"rm\", \"-rf\", \"/x\")'",
        "node -e 'require(\"child_process\").execSync(\"true; rm -rf /x\")'",
        "ruby -e 'exec \"rm -rf /x\"'",
        "php -r 'shell_exec(\"rm -rf /x\");'",
        "awk 'BEGIN{system(\"rm -rf /x\")}'",
    ],
)  # fmt: skip
def test_a_denial_finds_a_command_that_inline_code_starts(command: str, tmp_path: Path) -> None:
    effects = judge(command, tmp_path).effects

    assert Policy.of(["allow exec:*", "deny exec:rm -rf *"])(effects, HERE).verdict == "deny"


async def granted(command: str, workspace: Path) -> MemoryGrants:
    """The book after an `always` to a command."""
    book = MemoryGrants()
    effects = judge(command, workspace).effects
    request = ApprovalRequest(
        id="ap_1", call=ToolCall("c", "exec", {}), tool="exec", effects=effects, asking=effects, session="s"
    )
    await book.add(request, Approved(scope="always"), workspace="/w")
    return book


@owes("G-04", "K-26")
@pytest.mark.parametrize(
    ("given", "other"),
    [
        ('echo "a', 'rm -rf / "'),
        ('x=$(cat a); rm -rf "$x"', 'x=$(cat b); rm -rf "$x"'),
        ('x=$(cat a); curl "$x"', 'x=$(cat b); curl "$x"'),
        ("$(cat a) x", "$(cat b) x"),
        ("echo " + "a" * 100_001, "echo " + "a" * 100_001 + "; rm -rf /"),
    ],
    ids=["unparsed", "operand", "host", "program", "too long"],
)
async def test_an_always_to_what_is_not_known_is_to_this_command_only(
    given: str, other: str, tmp_path: Path
) -> None:
    book = await granted(given, tmp_path)

    again = [book.find("exec", effect, HERE) for effect in judge(given, tmp_path).effects]
    misused = [book.find("exec", effect, HERE) for effect in judge(other, tmp_path).effects]

    assert all(again)
    assert not all(misused)
