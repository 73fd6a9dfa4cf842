"""`pegboard eval`: tasks, each in a copy of its workspace, and what is checked of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TASKS = """
[[tasks]]
name = "date"
task = "Correct the date."
workspace = "start"
{more}
"""


def evals(workspace: Path, more: str, *turns: dict[str, object]) -> list[str]:
    """A file with one task, and the arguments that try it with a scripted model."""
    start = workspace / "start"
    start.mkdir(exist_ok=True)
    (start / "notes.txt").write_text("on Friday\n")
    (workspace / "evals.toml").write_text(TASKS.format(more=more))
    script = workspace.parent / "script.jsonl"
    script.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return ["eval", "evals.toml", "--model", f"scripted:{script}"]


EDIT: dict[str, object] = {
    "calls": [
        {
            "name": "edit_file",
            "arguments": {"path": "notes.txt", "old_string": "Friday", "new_string": "Monday"},
        }
    ]
}
DONE: dict[str, object] = {"text": "It is Monday now."}

WHOLE = """
check = "grep -q Monday notes.txt"
files = { "notes.txt" = "Monday" }
answer = "Monday"
must = ["write:notes.txt"]
never = ["delete:**", "exec:**"]
"""


def test_a_try_passes_and_the_folder_that_it_began_with_is_as_it_was(pegboard: Run, workspace: Path) -> None:
    done = pegboard(*evals(workspace, WHOLE, EDIT, DONE))

    assert done.status == 0, done.out + done.err
    assert "1 of 1 passed" in done.out
    assert (workspace / "start" / "notes.txt").read_text() == "on Friday\n"


@pytest.mark.parametrize(
    ("more", "turns", "says"),
    [
        ('check = "grep -q Tuesday notes.txt"', [EDIT, DONE], "check 'grep -q Tuesday notes.txt' did not pass"),
        ('files = { "notes.txt" = "Tuesday" }', [EDIT, DONE], "notes.txt does not contain 'Tuesday'"),
        ('files = { "new.txt" = "" }', [EDIT, DONE], "new.txt cannot be read"),
        ('answer = "Tuesday"', [EDIT, DONE], "the answer does not contain 'Tuesday'"),
        ('must = ["write:other.txt"]', [EDIT, DONE], "nothing did write:other.txt"),
        ('never = ["write:**"]', [EDIT, DONE], "a call did write notes.txt, which write:** forbids"),
        ('mode = "read-only"\nmust = ["write:notes.txt"]', [EDIT, DONE], "nothing did write:notes.txt"),
        ("turns = 1", [EDIT, EDIT, EDIT], "the run ended limit"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_must_be_fails_the_try_and_is_named(
    pegboard: Run, workspace: Path, more: str, turns: list[dict[str, object]], says: str
) -> None:
    done = pegboard(*evals(workspace, more, *turns))

    assert done.status == 1
    assert says in done.out and "0 of 1 passed" in done.out


def test_a_refused_call_has_not_happened(pegboard: Run, workspace: Path) -> None:
    (workspace.parent / "rules.toml").write_text('rules = ["deny write:**"]')
    arguments = evals(workspace, 'never = ["write:**"]', EDIT, DONE)
    assert pegboard(*arguments, "--policy", "../rules.toml").status == 0


def test_json_is_one_try_a_line_and_each_run_is_recorded(pegboard: Run, workspace: Path) -> None:
    arguments = evals(workspace, WHOLE, EDIT, DONE)
    text = (workspace / "evals.toml").read_text()
    (workspace / "evals.toml").write_text(f"tries = 2\n{text}")
    done = pegboard(*arguments, "--json", "--out", "recorded")

    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(r["task"], r["try"], r["passed"]) for r in rows] == [("date", 1, True), ("date", 2, True)]
    assert len(list((workspace / "recorded").iterdir())) == 2
    for row in rows:
        assert pegboard("replay", row["run"]).status == 0
    first = sorted((workspace / "recorded").iterdir())[0]
    kinds = [json.loads(line)["type"] for line in first.read_text().splitlines()]
    assert kinds[0] == "run.started" and kinds[-1] == "run.finished" and "text.piece" not in kinds


def test_kept_workspaces_are_named(pegboard: Run, workspace: Path) -> None:
    done = pegboard(*evals(workspace, 'answer = "no"', EDIT, DONE), "--keep", "--json")
    folder = Path(json.loads(done.out)["folder"])
    assert (folder / "notes.txt").read_text() == "on Monday\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "tasks: Field required"),
        ('[[tasks]]\nname = "a"', "tasks.0.task: Field required"),
        ('[[tasks]]\nname = "a"\ntask = "b"\nchekc = "c"', "tasks.0.chekc"),
        ('[[tasks]]\nname = "a"\ntask = "b"\nmust = ["nonsense"]', "nonsense"),
        ('[[tasks]]\nname = "a"\ntask = "b"\nnever = ["reed:x"]', "evals.toml: the effect 'reed:x' of 'a': "),
        ('[[tasks]]\nname = "a"\ntask = "b"\nworkspace = "nowhere"', "'nowhere'"),
        ('[[tasks]]\nname = "a"\ntask = "b"\n[[tasks]]\nname = "a"\ntask = "c"', "two tasks are named 'a'"),
        ("[[tasks", "evals.toml"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_before_anything_runs(
    pegboard: Run, workspace: Path, text: str, says: str
) -> None:
    (workspace / "evals.toml").write_text(text)
    done = pegboard("eval", "evals.toml", "--model", "local")
    assert done.status == 2 and says in done.err and done.out == ""


def test_a_file_that_is_not_there_is_named_once(pegboard: Run) -> None:
    done = pegboard("eval", "nowhere.toml", "--model", "local")
    assert done.status == 2 and done.err.count("nowhere.toml") == 1
