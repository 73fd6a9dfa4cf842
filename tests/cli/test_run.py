"""`pegboard run`, `runs`, `undo`, `audit`: a task from beginning to end, and taking it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, tree
from tests.ledger import owes

FINISHED = {"type", "run", "status", "answer", "pending", "usage"}


@pytest.fixture
def script(workspace: Path, tmp_path: Path) -> str:
    turns: list[dict[str, Any]] = [
        {
            "text": "Looking.",
            "calls": [
                {"name": "read_file", "arguments": {"path": "a.txt"}},
                {"name": "write_file", "arguments": {"path": "b.txt", "content": "new\n"}},
                {"name": "delete_file", "arguments": {"path": "a.txt"}},
            ],
        },
        {"text": "It says \x1b[31mhello."},
    ]
    (workspace.parent / "ask.toml").write_text('rules = ["ask delete:**"]')
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(t) + "\n" for t in turns))
    return f"scripted:{path}"


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_run_tells_each_call_with_effects_and_decision(pegboard: Run, script: str) -> None:
    done = pegboard("run", "what?", "--model", script, "--policy", "../ask.toml")

    assert done.status == 0
    assert "▸ read_file  read a.txt  [allow]" in done.err
    assert "▸ delete_file  delete a.txt  [deny]" in done.err
    assert "hello." in done.out
    assert "\x1b" not in done.out + done.err
    assert "model: scripted:" in done.err
    assert "2 model turns" in done.err


def test_json_is_one_event_a_line_and_the_last_says_how_it_ended(pegboard: Run, script: str) -> None:
    done = pegboard("run", "what?", "--model", script, "--policy", "../ask.toml", "--json")

    rows = events(done.out)
    assert done.err == ""
    assert rows[0]["type"] == "run.started"
    assert rows[-1]["type"] == "run.finished"
    assert set(rows[-1]) >= FINISHED
    assert rows[-1]["status"] == "done"
    assert rows[-1]["answer"].endswith("hello.")
    assert rows[-1]["pending"] == []


def test_with_yes_what_asks_is_done_and_suspended_otherwise_where_wanted(
    pegboard: Run, script: str, workspace: Path
) -> None:
    waiting = pegboard(
        "run", "what?", "--model", script, "--policy", "../ask.toml", "--json", "--on-ask", "suspend"
    )
    last = events(waiting.out)[-1]
    still = (workspace / "a.txt").exists()
    done = pegboard("run", "what?", "--model", script, "--policy", "../ask.toml", "--yes")

    assert (waiting.status, last["status"], still) == (4, "suspended", True)
    assert [waits["tool"] for waits in last["pending"]] == ["delete_file"]
    assert done.status == 0
    assert not (workspace / "a.txt").exists()


def test_a_suspended_run_says_where_it_waits(pegboard: Run, script: str) -> None:
    done = pegboard("run", "what?", "--model", script, "--policy", "../ask.toml", "--on-ask", "suspend")

    assert done.status == 4
    assert "pegboard approvals" in done.err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["x"], 1, "no model is configured, and none was found"),
        (["x", "--model", "foo:bar"], 2, "unknown model provider 'foo'"),
        (["x", "--model", "scripted:none.jsonl"], 2, "cannot read the script"),
        (["x", "--model", "openai:m"], 1, "OPENAI_API_KEY"),
        (["x", "--model", "local", "--on-ask", "maybe"], 2, "--on-ask must be deny or suspend"),
        (["x", "--model", "local", "--turns", "0"], 2, "--turns"),
        ([], 2, "the task is empty"),
    ],
)
def test_a_run_that_cannot_start_says_what_to_do(
    pegboard: Run, arguments: list[str], status: int, said: str
) -> None:
    done = pegboard("run", *arguments)

    assert done.status == status
    assert said in done.err
    assert done.out == ""


def test_without_any_model_the_ways_to_one_are_listed(pegboard: Run) -> None:
    said = pegboard("run", "x").err

    for way in (
        "ANTHROPIC_API_KEY",
        "--model openai:NAME@http",
        "pegboard models get smollm2",
        "--model local",
    ):
        assert way in said


def test_the_keyword_router_says_that_it_is_no_language_model(pegboard: Run) -> None:
    done = pegboard("run", "read a.txt", "--model", "local")

    assert done.status == 0
    assert "no language model: keyword router" in done.out
    assert "hello" in done.out


def test_a_model_that_stops_answering_ends_the_run_with_status_1(pegboard: Run, tmp_path: Path) -> None:
    (tmp_path / "short.jsonl").write_text('{"calls": [{"name": "list_dir", "arguments": {}}]}\n')

    done = pegboard("run", "x", "--model", f"scripted:{tmp_path / 'short.jsonl'}", "--json")

    assert done.status == 1
    assert events(done.out)[-1]["status"] == "failed"


def test_the_limit_of_turns_ends_a_run(pegboard: Run, script: str) -> None:
    done = pegboard("run", "x", "--model", script, "--turns", "1", "--json")

    assert (done.status, events(done.out)[-1]["status"]) == (1, "limit")


def test_runs_are_listed_shown_and_exported_by_id_or_its_start(pegboard: Run, script: str) -> None:
    assert pegboard("runs").out == "no runs yet\n"
    run = events(pegboard("run", "the \x1b[1mtask", "--model", script, "--json").out)[-1]["run"]

    listed = pegboard("runs", "list")
    row = json.loads(pegboard("runs", "--json").out)
    shown = pegboard("runs", "show", run[:10])

    assert run in listed.out
    assert "\x1b" not in listed.out + shown.out
    assert (row["run"], row["status"]) == (run, "done")
    assert "> the \\x1b[1mtask" in shown.out
    assert "▸ read_file" in shown.out
    assert events(pegboard("runs", "show", run, "--json").out)[-1]["type"] == "run.finished"
    assert events(pegboard("runs", "export", run).out)[0]["type"] == "run.started"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs", "show", "nope"], "no run with ID 'nope'"),
        (["runs", "show"], "needs a run ID"),
        (["runs", "dance"], "use list, show, resume, stop, export or import"),
        (["undo"], "use --last"),
        (["audit", "dance"], "use verify, export or destinations"),
        (["audit", "verify", "nope"], "no session 'nope'"),
    ],
)
def test_history_commands_refuse_what_they_do_not_know(
    pegboard: Run, arguments: list[str], said: str
) -> None:
    done = pegboard(*arguments)

    assert (done.status, said in done.err) == (2, True), done


def test_there_is_nothing_to_resume(pegboard: Run, script: str) -> None:
    done = pegboard("runs", "resume")

    assert (done.status, done.out + done.err) == (0, "no unfinished runs\n")


@owes("G-02")
def test_a_run_is_undone_previewed_and_redone(pegboard: Run, script: str, workspace: Path) -> None:
    before = tree(workspace)
    run = events(pegboard("run", "x", "--model", script, "--yes", "--json").out)[-1]["run"]
    after = tree(workspace)

    preview = pegboard("undo", run, "--preview")
    untouched = tree(workspace)
    undone = pegboard("undo", run, "--json")
    back = tree(workspace)
    redone = pegboard("undo", run, "--redo")

    assert "would be undone: 2 file changes" in preview.out
    assert untouched == after
    assert set(json.loads(undone.out)) == {
        "applied", "changes", "kept", "conflicts", "missed", "entries", "made_dirs", "removed_dirs",
    }  # fmt: skip
    assert back == before
    assert "redone: 2 file changes" in redone.out
    assert tree(workspace) == after


@owes("G-02")
def test_the_last_call_and_a_call_by_id_are_undone_and_later_edits_kept(
    pegboard: Run, workspace: Path
) -> None:
    first = json.loads(pegboard("call", "write_file", "path=c.txt", "content=one", "--json").out)["call_id"]
    pegboard("call", "exec", "command=echo made > d.txt")

    last = pegboard("undo", "--last")
    gone = not (workspace / "d.txt").exists()
    (workspace / "c.txt").write_text("mine now")
    kept = pegboard("undo", first)

    assert (last.status, gone) == (0, True)
    assert "undone: 1 file change\n" in last.out
    assert kept.status == 1
    assert "c.txt was changed since" in kept.err
    assert json.loads(pegboard("undo", first, "--json").out)["error"]["code"] == "conflict"
    assert (workspace / "c.txt").read_text() == "mine now"


@owes("G-02")
def test_an_undo_of_what_was_never_captured_says_that_it_did_nothing(pegboard: Run, workspace: Path) -> None:
    made = "command=mkdir node_modules && echo x > node_modules/a"
    (workspace / ".gitignore").write_text("node_modules/\n")
    pegboard("call", "exec", made)

    alone = pegboard("undo", "--last")
    pegboard("call", "write_file", "path=c.txt", "content=one")
    pegboard(
        "call", "exec", made.replace("node_modules", "node_modules/more", 1).replace("mkdir", "mkdir -p")
    )
    behind = pegboard("undo", "--last")

    assert alone.status == 1
    assert "none of these changes can be undone" in alone.out
    assert "node_modules" in alone.err
    assert behind.status == 0
    assert "undone: 1 file change\n" in behind.out
    assert not (workspace / "c.txt").exists()
    assert (workspace / "node_modules" / "a").exists()


@owes("G-02")
def test_what_can_be_undone_is_listed_the_newest_first(pegboard: Run, workspace: Path) -> None:
    assert "no file changes" in pegboard("undo", "--list").out
    call = json.loads(pegboard("call", "write_file", "path=c.txt", "content=one", "--json").out)["call_id"]
    pegboard("call", "exec", "command=mkdir only-a-folder")
    pegboard("undo", "--last")

    rows = json.loads(pegboard("undo", "--list", "--json").out)
    table = pegboard("undo", "--list").out.splitlines()

    assert not (workspace / "only-a-folder").exists()
    assert [(row["type"], row["holds"]) for row in rows] == [
        ("undo", True),
        ("exec", False),
        ("commit", True),
    ]
    assert rows[1]["made_dirs"] == ["only-a-folder"]
    assert (rows[2]["call"], rows[2]["files"][0]["path"]) == (call, "c.txt")
    assert "mkdir only-a-folder" in table[2]
    assert table[2].rstrip().endswith("undone")
    assert "create c.txt" in table[3]


def test_an_unknown_id_is_not_undone(pegboard: Run) -> None:
    done = pegboard("undo", "call_none")

    assert done.status == 1
    assert "No recorded changes for call or run call_none" in done.err


def test_the_history_verifies_and_a_changed_record_is_found(pegboard: Run, home: Path) -> None:
    import sqlite3
    from contextlib import closing

    pegboard("call", "read_file", "path=a.txt")
    good = pegboard("audit", "verify")
    exported = events(pegboard("audit", "export").out)
    with closing(sqlite3.connect(home / ".local/state/pegboard/history.sqlite")) as db, db:
        db.execute("UPDATE entries SET type='forged' WHERE seq=1")
    db.close()
    bad = pegboard("audit", "verify")

    assert (good.status, good.out) == (0, "1 of 1 sessions verified\n")
    assert exported[0]["stream"] == "cli"
    assert bad.status == 1
    assert json.loads(pegboard("audit", "verify", "--json").out)["cli"]


def test_a_person_sees_a_diff_once_and_a_waiting_call_with_what_it_waits_for(
    pegboard: Run, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "calc.py").write_text("x = 1\n")
    turns = tmp_path / "turns.jsonl"
    edit = {"path": "calc.py", "old_string": "x = 1", "new_string": "x = 2"}
    turns.write_text(
        json.dumps({"calls": [{"name": "edit_file", "arguments": edit}]})
        + "\n"
        + json.dumps({"calls": [{"name": "exec", "arguments": {"command": "git push origin main"}}]})
    )

    done = pegboard("run", "go", "--model", f"scripted:{turns}", "--on-ask", "suspend")

    assert done.status == 4
    assert done.err.count("+x = 2") == 1
    head = next(line for line in done.err.splitlines() if line.startswith("▸ exec"))
    waits = next(line for line in done.err.splitlines() if line.startswith("  the call waits"))
    assert head == "▸ exec  connect git remote, exec git push origin main  [ask]"
    assert waits.startswith("  the call waits for approval ap_")
    assert waits.endswith(". It continues once it is answered.")
    assert "failed" not in done.err


def test_a_call_that_could_not_be_planned_is_not_told_as_denied(pegboard: Run, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")

    done = pegboard("call", "edit_file", "path=a.txt", "old_string=zzz", "new_string=y")

    assert done.status == 1
    assert "deny" not in done.err
    assert "Text not found in a.txt" in done.err


@pytest.mark.parametrize("task", ["", "  \n"])
def test_an_empty_task_is_wrong_usage(pegboard: Run, task: str) -> None:
    done = pegboard("run", task, "--model", "local")

    assert done.status == 2
    assert "the task is empty" in done.err


def test_a_question_that_nobody_can_answer_says_where_to_ask_it(pegboard: Run) -> None:
    done = pegboard("call", "ask_user", "question=Which one?")

    assert done.status == 3
    assert "No one can answer here. Run it in a terminal." in done.err
