"""A yes to a command is bound to what it runs (case perm-18, ledger G-04)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegboard import Executor, Toolkit, builtin
from pegboard.core.effects import Effect
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.shell.guard import judge
from pegboard.shell.guard.scripts import MAX_SCRIPT_BYTES, bind_scripts
from tests.ledger import owes


def bound(command: str, workspace: Path, working_dir: str | None = None) -> list[str]:
    """The names that a command's execs are bound to."""
    effects = judge(command, workspace=workspace, working_dir=working_dir).effects
    marks = [e.bound for e in bind_scripts(effects, workspace=workspace, working_dir=working_dir) if e.bound]
    return [word for mark in marks for word in mark.split() if ":" not in word]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for name in (
        "run.sh",
        "tool.py",
        "sub/inner.sh",
        "Makefile",
        "package.json",
        "mod/__main__.py",
        "my.mk",
        "data.csv",
        "tool.vim",
        "tool.gdb",
        "q.sql",
        "p.awk",
        "p.sed",
        "sub/Makefile",
        "sub/my.mk",
        "sub/package.json",
        "main.go",
        "Cargo.toml",
        "noxfile.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"content of {name}\n")
    (tmp_path / "outside.sh").write_text("x")
    (root / "link.sh").symlink_to(tmp_path / "outside.sh")
    os.mkfifo(root / "pipe.sh")
    return root


@owes("perm-18")
@pytest.mark.parametrize(("command", "names"), [
    ("sh run.sh", ["run.sh"]), ("bash -e ./run.sh now", ["run.sh"]), ("./run.sh", ["run.sh"]),
    ("python3.11 -W ignore tool.py data.csv", ["tool.py"]), ("python3 -m mod", ["mod/__main__.py"]),
    ("cd sub && ./inner.sh", ["sub/inner.sh"]), ("timeout 5 sh run.sh", ["run.sh"]), (". ./run.sh", ["run.sh"]),
    ("make test", ["Makefile"]), ("make -f my.mk", ["my.mk"]), ("npm run build", ["package.json"]),
    ("bash -c 'sh run.sh'", ["run.sh"]), ("cat run.sh", []), ("git add run.sh", []), ("sh link.sh", []),
    ("bash < run.sh", ["run.sh"]), ("cat run.sh | bash", ["run.sh"]), ("sed s/a/b/ run.sh | sh", ["run.sh"]),
    ("python3 < tool.py", ["tool.py"]), ("vim -S tool.vim x", ["tool.vim"]), ("gdb -x tool.gdb", ["tool.gdb"]),
    ("sqlite3 a.db < q.sql", ["q.sql"]), ("sqlite3 a.db '.read q.sql'", ["q.sql"]), ("awk -f p.awk data.csv", ["p.awk"]),
    ("sed -n -fp.sed data.csv", ["p.sed"]), ("make -C sub", ["sub/Makefile"]), ("make --directory=sub -f my.mk", ["sub/my.mk"]),
    ("npm --prefix sub run x", ["sub/package.json"]), ("go run main.go data.csv", ["main.go", "data.csv"]),
    ("cargo test", ["Cargo.toml"]), ("nox -s lint", ["noxfile.py"]), ("cat data.csv | wc -l", []), ("wc -l < run.sh", []),
    ("sh pipe.sh", []), ("sh missing.sh", []), ("sh 'a\0b'", []), ("ls", []), ("python3 -c 'print(1)'", []),
])  # fmt: skip
def test_what_a_command_runs_is_bound_and_what_it_only_names_is_not(
    command: str, names: list[str], workspace: Path
) -> None:
    assert bound(command, workspace) == names


def test_the_working_folder_counts(workspace: Path) -> None:
    assert bound("sh inner.sh", workspace, "sub") == ["sub/inner.sh"]


def test_the_mark_is_the_sha256_of_the_content(workspace: Path) -> None:
    (workspace / "run.sh").write_bytes(b"abc")
    effects = (Effect("exec", "sh run.sh", ("sh", "run.sh")), Effect("read", "run.sh"))

    marked = bind_scripts(effects, workspace=workspace)

    # FIPS 180-2, appendix B.1: the SHA-256 of "abc".
    assert marked[0].bound == "run.sh sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert marked[1] == effects[1]


def test_a_huge_file_is_bound_by_size_and_time(workspace: Path) -> None:
    with (workspace / "big.sh").open("wb") as file:
        file.truncate(MAX_SCRIPT_BYTES + 1)

    marked = bind_scripts((Effect("exec", "sh big.sh", ("sh", "big.sh")),), workspace=workspace)

    assert marked[0].bound.startswith(f"big.sh size:{MAX_SCRIPT_BYTES + 1}:")


class Person:
    """Answers in turn; may do something first."""

    def __init__(self, *answers: Approved) -> None:
        self.answers = list(answers)
        self.requests: list[ApprovalRequest] = []
        self.first = lambda: None

    async def decide(self, request: ApprovalRequest) -> Approved | str:
        self.requests.append(request)
        self.first()
        return self.answers.pop(0) if self.answers else "deny"


def door(workspace: Path, person: Person, *rules: str) -> Executor:
    return Executor(builtin("exec"), workspace=workspace, policy=rules or ["ask exec"], approver=person)


@owes("perm-18")
@pytest.mark.slow
async def test_a_script_that_changes_before_the_answer_does_not_run(workspace: Path) -> None:
    (workspace / "run.sh").write_text("touch harmless\n")
    person = Person(Approved())
    person.first = lambda: (workspace / "run.sh").write_text("touch pwned\n") and None

    async with door(workspace, person) as made:
        result = await made.call("exec", {"command": "sh run.sh"})

    assert result.error is not None and result.error.code == "conflict"
    assert not (workspace / "pwned").exists() and not (workspace / "harmless").exists()


@owes("G-04", "K-26")
@pytest.mark.slow
async def test_always_for_a_shell_with_a_command_is_bound_to_that_command(workspace: Path) -> None:
    person = Person(Approved(scope="always"))

    async with door(workspace, person) as made:
        first = await made.call("exec", {"command": "bash -c 'echo one'"})
        same = await made.call("exec", {"command": "echo one"})
        other = await made.call("exec", {"command": "bash -c 'echo two'"})
        grants = made.wiring.grants.list() if made.wiring.grants else ()

    assert first.ok and same.ok
    assert not other.ok
    assert ("exec", "echo one") in grants[0].effects
    assert not any(target == "bash" for _, target in grants[0].effects)


@owes("G-04")
@pytest.mark.slow
async def test_always_for_a_script_asks_again_when_the_script_has_changed(workspace: Path) -> None:
    (workspace / "run.sh").write_text("echo one\n")
    person = Person(Approved(scope="always"))

    async with door(workspace, person) as made:
        assert (await made.call("exec", {"command": "sh run.sh"})).ok
        assert (await made.call("exec", {"command": "sh run.sh"})).ok
        (workspace / "run.sh").write_text("echo two\n")
        changed = await made.call("exec", {"command": "sh run.sh"})

    assert not changed.ok
    assert len(person.requests) == 2


@owes("perm-18")
@pytest.mark.slow
async def test_the_sandbox_and_the_variable_names_are_part_of_what_is_approved(workspace: Path) -> None:
    async with door(workspace, Person()) as made:
        environment = made.wiring.safeguards.environment

    assert environment[0].startswith("sandbox:")
    assert "PATH" in environment
    assert not any("=" in name for name in environment)


@owes("perm-19")
@pytest.mark.slow
async def test_a_refusal_carries_its_reason_to_the_model_and_is_not_asked_twice_in_a_turn(
    workspace: Path,
) -> None:
    from pegboard import Refused, ToolCall

    asked: list[str] = []

    class Friday:
        async def decide(self, request: ApprovalRequest) -> Refused:
            asked.append(request.tool)
            return Refused("not on Fridays")

    calls = [ToolCall(str(n), "exec", {"command": "touch x"}) for n in (1, 2)]
    async with Executor(builtin("exec"), workspace=workspace, policy=["ask exec"], approver=Friday()) as made:
        results = await made.turn(calls)

    assert all("not on Fridays" in str(r) for r in results)
    assert len(asked) == 1


@owes("K-34")
@pytest.mark.slow
async def test_commands_do_not_see_our_keys(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "key-0123456789abcdef")
    monkeypatch.setenv("UNLISTED", "unlisted-value")
    kit: Toolkit = builtin("exec")

    async with Executor(kit, workspace=workspace, policy=["allow exec"]) as made:
        result = await made.call("exec", {"command": "env"})

    assert result.ok
    assert "key-0123456789abcdef" not in result.text and "unlisted-value" not in result.text
    assert "SOME_API_KEY" not in result.text
