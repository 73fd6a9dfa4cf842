"""`pegboard call`: typing of values, the JSON shape, statuses, previews, and hostile input."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from pegboard import Executor, builtin, run_sync
from pegboard.cli.call import status_of
from pegboard.files.roots import from_os_error
from tests.cli.conftest import Run, tree
from tests.ledger import owes

KEYS = {"ok", "text", "data", "error", "effects", "decision", "changes", "notes", "call_id", "run"}


def test_text_goes_out_and_what_it_did_to_standard_error(pegboard: Run) -> None:
    done = pegboard("call", "read_file", "path=a.txt")

    assert (done.status, done.out) == (0, "     1→hello\n     2→world\n")
    assert done.err == "▸ read a.txt  [allow]\n"


def test_json_is_one_object_of_exactly_the_promised_keys(pegboard: Run) -> None:
    done = pegboard("call", "write_file", "path=n.txt", "content=x", "--json")

    shown = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert set(shown) == KEYS
    assert shown["ok"] is True
    assert shown["error"] is None
    assert shown["effects"] == [{"kind": "write", "target": "n.txt"}]
    assert [set(c) for c in shown["changes"]] == [{"path", "kind", "diff"}]
    assert {"duration_s", "truncated", "spill", "labels", "repairs"} <= set(shown["notes"])
    assert shown["call_id"].startswith("call_")
    assert shown["run"].startswith("run_")


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["read_file", "path=none.txt"], 1, "not_found"),
        (["read_file"], 2, "invalid_arguments"),
        (["read_file", "pth=a.txt"], 2, "invalid_arguments"),
        (["read_file", "path=a.txt", "limit=abc"], 2, "invalid_arguments"),
        (["read_file", "--args", '{"path": "a'], 2, "invalid_arguments"),
        (["read_file", "--args", "[1]"], 2, "invalid_arguments"),
        (["no_such_tool", "x=1"], 2, "unknown_tool"),
        (["delete_file", "path=a.txt", "--mode", "ask"], 3, "permission_denied"),
        (["write_file", "path=b", "content=c", "--mode", "read-only"], 3, "permission_denied"),
        (["write_file", "path=../b", "content=c"], 3, "outside_workspace"),
        (["ask_user", "question=who?"], 3, "suspended"),
    ],
)
def test_a_call_that_fails_says_why_by_status_and_code(
    pegboard: Run, workspace: Path, arguments: list[str], status: int, code: str
) -> None:
    before = tree(workspace)

    done = pegboard("call", *arguments, "--json")

    shown = json.loads(done.out)
    assert (done.status, shown["ok"], shown["error"]["code"]) == (status, False, code)
    assert set(shown) == KEYS
    assert set(shown["error"]) == {"code", "message", "hint", "retryable"}
    if status in (2, 3):
        assert tree(workspace) == before
    if code != "suspended":
        assert (shown["decision"] == "deny") == (status == 3)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_the_operating_system_refuses_is_a_failed_tool_and_no_denial(number: int) -> None:
    assert status_of(from_os_error(OSError(number, os.strerror(number)), "a.txt").code) == 1


def test_an_error_goes_to_standard_error_with_its_hint_on_a_line_of_its_own(pegboard: Run) -> None:
    done = pegboard("call", "read_file")

    assert done.out == ""
    assert done.err.startswith("error: Invalid arguments for read_file: .path: is required but missing\n  ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--args", "{bad", "path=a.txt"], "--args"),
        (["--args", "[1]", "path=a.txt"], "must be a JSON object"),
        (["--args", "nonsense", "path=a.txt"], "--args"),
        (["--args", '{"path": "say "hi" now"}', "limit=1"], "--args is not valid JSON"),
        (["--args", '{"path": "a.txt", "limit": 1', "offset=1"], "line 1 column 29"),
        (["--args", '{"path" "a.txt"}', "limit=1"], "--args is not valid JSON"),
        (["--args", "{'path': 'a.txt'}", "limit=1"], "--args is not valid JSON"),
        (["path"], "expected NAME=VALUE"),
        (["=a.txt"], "expected NAME=VALUE"),
        (["path=a.txt", "path=b.txt"], "path appears twice"),
        (["path=a.txt", "--mode", "yolo"], "unknown mode 'yolo'"),
        (["path=a.txt", "--workspace", "/no/such"], "does not exist or is not a folder"),
        (["path=a.txt", "--policy", "/no/such"], "does not exist"),
        (["path=a.txt", "--config", "/no/such"], "does not exist"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(pegboard: Run, arguments: list[str], said: str) -> None:
    done = pegboard("call", "read_file", *arguments)

    assert done.status == 2
    assert said in done.err
    assert done.err.startswith("pegboard: ")
    assert done.err.count("\n") == 1


def test_values_are_typed_by_the_schema(pegboard: Run) -> None:
    done = pegboard("call", "read_file", "path=a.txt", "limit=1", "numbered=false")

    assert done.out.splitlines()[0] == "hello"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("limit=1", False),
        ("limit=-3", False),
        ("numbered=false", False),
        ("limit=1.0", True),
        ("limit=01", True),
    ],
)
def test_a_number_or_truth_value_on_the_command_line_is_no_repair(
    pegboard: Run, value: str, told: bool
) -> None:
    assert ("was read as" in pegboard("call", "read_file", "path=a.txt", value).err) is told


def test_a_list_is_given_by_repeating_a_name_or_as_json(pegboard: Run) -> None:
    for hosts in (["hosts=a.org", "hosts=b.org"], ['hosts=["a.org", "b.org"]']):
        done = pegboard("call", "exec", "command=true", *hosts, "--preview", "--json")

        connects = [e["target"] for e in json.loads(done.out)["effects"] if e["kind"] == "connect"]
        assert connects == ["a.org", "b.org"]


def test_one_value_is_a_list_of_one(pegboard: Run) -> None:
    done = pegboard("call", "exec", "command=true", "hosts=a.org", "--preview", "--json")

    assert {"kind": "connect", "target": "a.org"} in json.loads(done.out)["effects"]


def test_arguments_come_from_standard_input(pegboard: Run) -> None:
    assert pegboard("call", "read_file", "--args", "-", stdin='{"path": "a.txt"}').out.endswith("world\n")
    assert pegboard("call", "read_file", "--args", "-", "limit=1", stdin='{"path": "a.txt"}').status == 0
    assert pegboard("call", "read_file", "--args", "-", stdin=b"\xff\xfe{").status == 2


@owes("G-01")
def test_a_preview_shows_the_diff_and_touches_nothing(pegboard: Run, workspace: Path, home: Path) -> None:
    before, mine = tree(workspace), tree(home)

    done = pegboard("call", "edit_file", "path=a.txt", "old_string=hello", "new_string=bye", "--preview")
    command = pegboard("call", "exec", "command=echo x > b.txt", "--preview", "--json")

    assert "-hello\n+bye" in done.out
    assert "effects   write a.txt" in done.out
    assert {"kind": "write", "target": "b.txt"} in json.loads(command.out)["effects"]
    assert set(json.loads(command.out)) == KEYS
    assert (tree(workspace), tree(home)) == (before, mine)


@pytest.mark.parametrize("preview", [[], ["--preview"]])
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["write_file", "path=./pegboard.toml", "content=x"], "write pegboard.toml"),
        (["delete_file", "path=pegboard.toml"], "delete pegboard.toml"),
    ],
)
def test_a_refused_call_shows_what_it_would_have_done(
    pegboard: Run, workspace: Path, arguments: list[str], shown: str, preview: list[str]
) -> None:
    (workspace / "pegboard.toml").write_text("")

    assert f"▸ {shown}  [deny]\n" in pegboard("call", *arguments, *preview).err


def test_a_preview_has_the_status_of_the_call(pegboard: Run) -> None:
    assert (
        pegboard("call", "write_file", "path=b", "content=c", "--mode", "read-only", "--preview").status == 3
    )
    assert pegboard("call", "read_file", "--preview").status == 2
    assert pegboard("call", "write_file", "path=/etc/x", "content=c", "--preview").status == 3
    assert json.loads(pegboard("call", "read_file", "--preview", "--json").out)["error"]["code"]


def test_yes_answers_an_ask_and_never_lifts_a_deny(pegboard: Run, workspace: Path) -> None:
    (workspace / "rules.txt").write_text("# ours\ndeny delete:keep.txt\n")
    (workspace / "keep.txt").write_text("k")

    denied = pegboard("call", "delete_file", "path=keep.txt", "--yes", "--policy", "rules.txt")
    allowed = pegboard("call", "delete_file", "path=a.txt", "--yes", "--policy", "rules.txt", "--mode", "ask")

    assert denied.status == 3
    assert (workspace / "keep.txt").exists()
    assert allowed.status == 0
    assert "[approved by --yes]" in allowed.err
    assert not (workspace / "a.txt").exists()


def test_terminal_escapes_of_a_file_never_reach_the_terminal(pegboard: Run, workspace: Path) -> None:
    (workspace / "e.txt").write_bytes(b"\x1b[31mred\x1b]0;title\x07 \xc2\x9b31m \xe2\x80\xae end\x08\x08\n")
    (workspace / "e\x1b[2Jn.txt").write_text("x")

    shown = [pegboard("call", "read_file", "path=e.txt"), pegboard("call", "list_dir"),
             pegboard("call", "read_file", "path=e\x1b[2Jn.txt"),
             pegboard("call", "write_file", "path=n\x1b[2J", "content=\x1b[1m", "--preview")]  # fmt: skip

    for done in shown:
        assert not set("\x1b\x07\x9b\u202e\x08") & set(done.out + done.err)


def test_a_file_name_that_is_no_utf8_can_be_read(command: Run, workspace: Path) -> None:
    (workspace / os.fsdecode(b"n\xff.txt")).write_text("odd")

    done = command("call", "read_file", b"path=n\xff.txt")
    shown = command("call", "read_file", b"path=n\xff.txt", "--json")

    assert (done.status, done.out) == (0, "     1→odd\n")
    assert json.loads(shown.out)["ok"] is True


@pytest.mark.parametrize(
    "name", ["-n.txt", "a b.txt", "a=b.txt", "日本.txt", "'q\".txt", "a\nb.txt", "$(x).txt"]
)
def test_odd_file_names_are_taken_as_they_are(pegboard: Run, workspace: Path, name: str) -> None:
    (workspace / name).write_text("odd")

    assert pegboard("call", "read_file", f"path={name}").out == "     1→odd\n"


def test_binary_and_huge_files_are_answered_shortly(pegboard: Run, workspace: Path) -> None:
    (workspace / "b.bin").write_bytes(bytes(range(256)) * 4000)
    (workspace / "l.txt").write_text("x" * 50 + "\n" + "y" * 3_000_000)

    assert len(pegboard("call", "read_file", "path=b.bin").out) < 1000
    assert len(pegboard("call", "read_file", "path=l.txt").out) < 20_000


def test_a_long_command_runs_to_its_end(pegboard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.tools.exec.YIELD_MS", 1)

    done = pegboard("call", "exec", "command=sleep 0.2; echo finished", "--json")

    assert json.loads(done.out)["data"]["stdout"] == "finished\n"


def test_an_alias_names_the_tool(pegboard: Run) -> None:
    assert "hi" in pegboard("call", "bash", "command=echo hi").out


@pytest.mark.parametrize("where", ["/", "home", "/etc"])
def test_no_one_works_in_a_system_or_home_folder_by_accident(
    pegboard: Run, home: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(home if where == "home" else where)

    done = pegboard("call", "list_dir")

    assert done.status == 2
    assert "--workspace DIR" in done.err
    assert pegboard("call", "list_dir", "--workspace", str(home)).status == 0


@pytest.mark.parametrize(
    ("arguments", "effects", "decision"),
    [
        (("edit_file", "path=n.txt", "old_string=absent", "new_string=x"), [("write", "n.txt")], "allow"),
        (("edit_file", "path=a.txt", "old_string=absent", "new_string=x"), [("write", "a.txt")], "allow"),
        (("read_file", "path=n.txt"), [("read", "n.txt")], "allow"),
        (("grep", "pattern=x", "path=nowhere"), [("read", "nowhere")], "allow"),
        (("edit_file", "path=n.txt", "old_string=a", "new_string=x", "--mode", "ask"), [("write", "n.txt")], "ask"),
        (("edit_file", "path=.git/config", "old_string=absent", "new_string=x"), [("write", ".git/config")], None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("preview", [False, True])
def test_a_failure_is_shown_with_the_decision_and_the_effects_that_were_planned(
    pegboard: Run,
    workspace: Path,
    arguments: tuple[str, ...],
    effects: list[tuple[str, str]],
    decision: str | None,
    preview: bool,
) -> None:
    (workspace / "a.txt").write_text("one\n")
    shown = json.loads(pegboard("call", *arguments, *(["--preview"] if preview else []), "--json").out)

    # A read fails when it is carried out.
    assert preview or shown["error"]["code"] in ("not_found", "permission_denied")
    assert [(e["kind"], e["target"]) for e in shown["effects"]] == effects
    assert decision is None or shown["decision"] == decision


def test_a_refused_call_is_listed_as_denied_and_a_failed_one_as_failed(
    pegboard: Run, workspace: Path
) -> None:
    pegboard("call", "read_file", "path=missing.txt")
    pegboard("call", "read_file", "path=/etc/hostname")

    listed = pegboard("runs", "list", "--json").out
    rows = [json.loads(line) for line in listed.splitlines()]
    assert [row["status"] for row in rows] == ["denied", "failed"]
    assert "denied" in pegboard("runs", "show", rows[0]["run"]).out


@pytest.mark.parametrize(
    "words",
    [
        ("read_file", "path=../x"),
        ("list_dir", "path=/"),
        ("grep", "pattern=x", "path=/etc"),
        ("glob", "pattern=*", "path=.."),
    ],
)
def test_a_path_that_no_approval_opens_is_refused_before_anyone_is_asked(
    pegboard: Run, words: tuple[str, ...]
) -> None:
    alone, with_yes = pegboard("call", *words), pegboard("call", *words, "--yes")

    for done in (alone, with_yes):
        assert done.status == 3
        assert "is outside the workspace" in done.err
        assert "--yes" not in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.txt", "old_string": "hello", "new_string": "bye"},
        {"path": "missing.txt", "old_string": "hello", "new_string": "bye"},
        {"path": "/etc/passwd", "old_string": "hello", "new_string": "bye"},
    ],
)
def test_a_printed_preview_is_what_the_command_line_shows(
    workspace: Path, pegboard: Run, arguments: dict[str, str]
) -> None:
    shown = pegboard("call", "edit_file", "--args", json.dumps(arguments), "--preview")
    preview = run_sync(Executor(builtin("edit_file"), workspace=workspace).preview("edit_file", arguments))

    assert f"{preview}\n" == shown.out + shown.err
    assert ", ".join(map(str, preview.effects)) in shown.out + shown.err
