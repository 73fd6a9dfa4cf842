"""The command line as a part of scripts: what is piped in, what comes out where, and the exit status."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pegboard.cli import stdin
from tests.cli.conftest import Run, argv, environment

READ = {"text": "Looking.", "calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}
DELETE = {"calls": [{"name": "delete_file", "arguments": {"path": "a.txt"}}]}


def model(folder: Path, *turns: dict[str, Any]) -> str:
    path = folder.parent / "script.jsonl"
    path.write_text("".join(json.dumps(t) + "\n" for t in turns))
    return f"scripted:{path}"


def asked(command: Run) -> str:
    """The message that the model was sent in the latest run."""
    run = json.loads(command("runs", "--json").out.splitlines()[0])["run"]
    events = [json.loads(line) for line in command("runs", "show", run, "--json").out.splitlines()]
    said = next(e for e in events if e["type"] == "message.user")
    return "".join(block["text"] for block in said["message"]["content"])


def test_text_piped_beside_a_task_reaches_the_model_behind_it(command: Run, workspace: Path) -> None:
    done = command(
        "run", "--model", model(workspace, {"text": "ok"}), "summarise", stdin="naïve data\n".encode()
    )

    assert done.status == 0
    task = asked(command)
    assert task.startswith("summarise\n")
    assert "naïve data" in task


@pytest.mark.parametrize("words", [["-"], []])
def test_the_task_itself_can_be_piped(command: Run, workspace: Path, words: list[str]) -> None:
    done = command("run", "--model", model(workspace, {"text": "ok"}), *words, stdin=b"the whole task\n")

    assert done.status == 0
    assert asked(command).strip() == "the whole task"


@pytest.mark.parametrize("words", [["-"], [], [" "]])
def test_an_empty_task_is_an_error_whichever_way_it_comes(command: Run, words: list[str]) -> None:
    done = command("run", "--model", "local", *words, stdin=b"")

    assert (done.status, done.out) == (2, "")
    assert "the task is empty" in done.err


def test_input_that_sends_nothing_is_named_and_left_alone(command: Run, workspace: Path) -> None:
    reading, writing = os.pipe()  # The writing end stays open, as a parent process may leave it.
    try:
        done = subprocess.run(
            argv("run", "--model", model(workspace, {"text": "ok"}), "hello"),
            cwd=workspace, stdin=reading, capture_output=True, env=environment(), timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)

    assert (done.returncode, done.stdout) == (0, b"ok\n")
    assert b"nothing came on standard input within 3 s" in done.stderr


def test_input_too_long_for_a_task_is_refused(
    pegboard: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdin, "_MOST_TASK_BYTES", 10)

    done = pegboard("run", "--model", model(workspace, {"text": "ok"}), "hello", stdin="x" * 11)

    assert done.status == 2
    assert "save it in a file" in done.err


def test_standard_output_is_the_answer_alone(command: Run, workspace: Path) -> None:
    done = command("run", "--model", model(workspace, READ, {"text": "It says hello."}), "what?")

    assert done.out == "It says hello.\n"
    assert "Looking." in done.err
    assert "▸ read_file  read a.txt  [allow]" in done.err
    assert "2 model turns" in done.err


def test_quiet_prints_nothing_but_the_answer(command: Run, workspace: Path) -> None:
    done = command("run", "--quiet", "--model", model(workspace, READ, {"text": "It says hello."}), "what?")

    assert (done.status, done.out, done.err) == (0, "It says hello.\n", "")


def test_quiet_still_says_why_a_run_failed(command: Run, workspace: Path) -> None:
    done = command(
        "run", "--quiet", "--turns", "1", "--model", model(workspace, READ, {"text": "x"}), "what?"
    )

    assert done.status == 1
    assert "turn" in done.err


@pytest.mark.parametrize(("turns", "status"), [([DELETE], 3), ([DELETE, READ], 0), ([READ], 0), ([], 0)])
def test_a_run_whose_calls_were_all_refused_ends_with_3(
    command: Run, workspace: Path, turns: list[dict[str, Any]], status: int
) -> None:
    (workspace.parent / "rules").write_text("deny delete:**\n")

    done = command("run", "--model", model(workspace, *turns, {"text": "end"}), "go", "--policy", "../rules")

    assert (done.status, done.out) == (status, "end\n")


@pytest.mark.parametrize("shell", ["exit 7", "true", "false", "kill -TERM $$"])
def test_check_ends_with_the_status_of_the_command(command: Run, workspace: Path, shell: str) -> None:
    expected = subprocess.run(["sh", "-c", f"sh -c '{shell}'; exit $?"], check=False).returncode

    done = command("call", "exec", f"command={shell}", "--check", "--yes")
    plain = command("call", "exec", f"command={shell}", "--yes")

    assert (done.status, plain.status) == (expected, 0)


def test_check_is_refused_where_no_command_runs(pegboard: Run) -> None:
    done = pegboard("call", "read_file", "path=a.txt", "--check")

    assert (done.status, done.out) == (2, "")
    assert "--check is for exec" in done.err


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_an_answer_must_fit_the_output_schema(command: Run, workspace: Path) -> None:
    (workspace / "schema.json").write_text(json.dumps(SCHEMA))
    turns = model(workspace, {"text": "three"}, {"text": '{"n": "3"}'}, {"text": '{"n": 3}'})

    done = command("run", "--model", turns, "count", "--output-schema", "schema.json")

    assert done.status == 0
    assert json.loads(done.out) == {"n": 3}


def test_the_answer_to_a_schema_is_json_whatever_stands_around_it(command: Run, workspace: Path) -> None:
    (workspace / "schema.json").write_text(json.dumps(SCHEMA))
    turns = model(workspace, {"text": 'There are:\n```json\n{"n": 3, "unit": "Stück"}\n```\nAnything else?'})

    for quiet in ([], ["--quiet"]):
        done = command("run", "--model", turns, "count", "--output-schema", "schema.json", *quiet)

        assert (done.status, done.out) == (0, '{"n": 3, "unit": "Stück"}\n')


def test_a_resumed_run_answers_to_its_schema_too(command: Run, workspace: Path) -> None:
    (workspace / "schema.json").write_text(json.dumps(SCHEMA))
    asks = {"calls": [{"name": "delete_file", "arguments": {"path": "a.txt"}}]}
    turns = model(workspace, asks, {"text": "three"}, {"text": '```json\n{"n": 3}\n```'})
    words = ("--mode", "ask", "--on-ask", "suspend", "--output-schema", "schema.json")
    assert command("run", "--model", turns, "count", *words).status == 4
    waiting = json.loads(command("approvals", "--json").out)["approval"]
    command("approvals", "approve", waiting)

    done = command("runs", "resume", "last", "--mode", "ask")

    assert (done.status, done.out) == (0, '{"n": 3}\n'), done.err
    assert command("replay", "last").status == 0


def test_an_answer_that_never_fits_is_a_failed_run(command: Run, workspace: Path) -> None:
    (workspace / "schema.json").write_text(json.dumps(SCHEMA))
    turns = model(workspace, *[{"text": '{"n": "many"}'}] * 12)

    done = command("run", "--model", turns, "count", "--output-schema", "schema.json")

    assert done.status == 1
    assert "n" in done.err


@pytest.mark.parametrize("content", ["[1]", "{", '{"type": "nonsense"}'])
def test_a_schema_file_that_is_not_one_is_named(command: Run, workspace: Path, content: str) -> None:
    (workspace / "schema.json").write_text(content)

    done = command("run", "--model", "local", "count", "--output-schema", "schema.json")

    assert (done.status, done.out) == (2, "")
    assert "schema" in done.err


def test_the_command_line_says_by_its_status_that_it_never_passed(pegboard: Run, workspace: Path) -> None:
    script = workspace.parent / "turns.jsonl"
    script.write_text('{"text": "Done."}\n' * 6)

    done = pegboard("run", "make it", "--model", f"scripted:{script}", "--until", "test -e ok.txt")

    assert done.status == 5
    assert done.out == "Done.\n"
    assert "still fails after 5 rounds" in done.err
