"""What happens at the edge: signals, closed pipes, locales, damaged state, and errors that nobody foresaw."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pegboard.cli.show import shorten_error
from pegboard.core.errors import ModelError
from tests.cli.conftest import Run, argv, environment, tree
from tests.ledger import owes
from tests.waiting import until


def test_an_error_nobody_foresaw_is_a_line_and_not_a_traceback(
    pegboard: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> int:
        raise RuntimeError("odd \x1b[31m thing")

    monkeypatch.setattr("pegboard.cli.doctor.doctor", broken)
    quiet = pegboard("doctor")
    monkeypatch.setenv("PEGBOARD_DEBUG", "1")
    loud = pegboard("doctor")

    assert quiet.status == loud.status == 1
    assert quiet.err.startswith("pegboard: unexpected RuntimeError: odd \\x1b[31m thing at test_boundary.py:")
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "show", "{}"], ["tools", "{}"], ["tools", "--dialect", "{}"], ["call", "{}"], ["{}"], ["--{}"],
        ["call", "list_dir", "--mode", "{}"], ["call", "read_file", "path=a.txt", "{}=1"], ["doctor", "--{}"],
        ["policy", "explain", "{}"], ["policy", "explain", "read_file", "{}=1"], ["call", "list_dir", "path={}"],
        ["usage", "--since", "{}"], ["trust", "{}"], ["models", "get", "{}"], ["mcp", "test", "{}"],
        ["run", "x", "--model", "{}"], ["approvals", "approve", "{}"], ["undo", "{}"], ["check", "{}"],
    ],
    ids=lambda words: " ".join(words),
)  # fmt: skip
def test_an_argument_of_any_length_is_not_told_whole(pegboard: Run, words: list[str]) -> None:
    done = pegboard(*(word.replace("{}", "x" * 60_000) for word in words))

    assert done.status in (1, 2)
    assert len(done.out + done.err) < 2_500


@pytest.mark.parametrize(
    ("leading", "command"),
    [
        (["--workspace", "{}"], ["call", "read_file", "path=b.txt"]),
        (["--workspace={}", "--json"], ["call", "read_file", "path=b.txt"]),
        (["--workspace", "{}", "--mode", "read-only"], ["policy", "explain", "write_file", "path=x", "content=y"]),
        (["--mode=read-only", "-y", "--workspace", "{}"], ["call", "write_file", "path=x", "content=y"]),
    ],
)  # fmt: skip
def test_common_options_may_stand_before_the_command(
    pegboard: Run, tmp_path: Path, leading: list[str], command: list[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("only here\n", encoding="utf-8")
    options = [word.replace("{}", str(other)) for word in leading]

    before, behind = pegboard(*options, *command), pegboard(*command, *options)

    assert before.status == behind.status
    if "--json" in leading:
        assert json.loads(before.out)["data"] == json.loads(behind.out)["data"]
    else:
        assert (before.out, before.err) == (behind.out, behind.err)
    assert "only here" in before.out or "read-only" in before.out + before.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workspace"], "Option '--workspace' requires an argument."),
        (["--json", "--mode"], "Option '--mode' requires an argument."),
        (["--workspace", "x"], "Missing command."),
        (["--jsonn", "tools"], "No such option: --jsonn"),
        (["--mode", "ask", "nosuch"], "No such command 'nosuch'"),
        (["--json", "mcp"], "No such option: --json"),
        (["--mode", "ask", "models"], "No such option: --mode"),
        (["--workspace", "", "tools"], "--workspace is empty"),
    ],
)
def test_a_common_option_without_a_command_that_takes_it_is_told(
    pegboard: Run, words: list[str], said: str
) -> None:
    done = pegboard(*words)

    assert done.status == 2
    assert said in done.err


def test_of_a_long_line_the_beginning_the_length_and_the_end_are_told() -> None:
    short = "a line of no great length " * 20
    text = shorten_error(f"{short}\nno file '{'y' * 5_000}'; see: help\n{'word ' * 2_000}end")

    first, second, third = text.split("\n")
    assert first == short
    assert second.startswith("no file 'yyy")
    assert "(5003 characters)" in second  # With its quotes and the semicolon.
    assert second.endswith("y'; see: help")
    assert "(10003 characters)" in third
    assert third.endswith("word end")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ModelError("no key", hint="Set one."), 1, "pegboard: no key\n  Set one.\n"),
        (PermissionError(13, "Permission denied", "/x/y"), 1, "pegboard: Permission denied: /x/y\n"),
        (EOFError(), 1, "pegboard: the input ended before an answer was given\n"),
        (KeyboardInterrupt(), 130, "pegboard: interrupted\n"),
    ],
)
def test_each_kind_of_error_has_its_line_and_status(
    pegboard: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, said: str
) -> None:
    def broken(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr("pegboard.cli.doctor.doctor", broken)

    done = pegboard("doctor")

    assert (done.status, done.err) == (status, said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.full),
    ],
)
@owes("K-47")
def test_a_signal_ends_the_command_and_all_that_it_started(workspace: Path, number: int, status: int) -> None:
    script = "echo $$ > pid; sleep 60 & echo $! > child; wait"
    process = subprocess.Popen(
        argv("call", "exec", f"command={script}", "--mode", "full"), env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until(
        lambda: (workspace / "child").exists() and (workspace / "child").read_text().strip() != "",
        "the command has begun",
    )

    process.send_signal(number)
    out, err = process.communicate(timeout=20)

    assert process.returncode == status
    assert "Traceback" not in out + err
    assert "pegboard: " in err
    until(lambda: not _sleepers(workspace), "all that it started has ended")


@pytest.mark.slow
@owes("K-47")
def test_a_background_job_of_a_script_ends_when_it_is_told_to(workspace: Path) -> None:
    # POSIX 2.11: a shell without job control starts a job behind `&` with SIGINT ignored.
    words = argv("call", "exec", "command=echo $$ > child; sleep 60", "--mode", "full")
    process = subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *words], env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until(
        lambda: (workspace / "child").exists() and (workspace / "child").read_text().strip() != "",
        "the command has begun",
    )

    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)

    assert process.returncode == 143
    assert "Traceback" not in out + err
    assert "ended by SIGTERM" in err
    until(lambda: not _sleepers(workspace), "all that it started has ended")


@pytest.mark.slow
def test_an_interrupted_call_has_ended_in_the_history(workspace: Path, command: Run) -> None:
    process = subprocess.Popen(
        argv("call", "exec", "command=touch begun; sleep 60", "--mode", "full"), env=environment(),
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until(lambda: (workspace / "begun").exists(), "the command has begun")

    process.send_signal(signal.SIGINT)

    assert process.wait(20) == 130
    (row,) = json.loads(f"[{command('runs', 'list', '--json').out}]")
    assert row["status"] == "cancelled"
    assert "cancelled" in command("runs", "show", row["run"]).out
    assert command("audit", "verify").out == "1 of 1 sessions verified\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.full)]
)
def test_a_signal_ends_a_chat_whole_with_its_run(workspace: Path, number: int, status: int) -> None:
    turns = workspace / "turns.jsonl"
    call = {"name": "exec", "arguments": {"command": "touch begun; sleep 60"}}
    turns.write_text(json.dumps({"calls": [call]}) + "\n" + json.dumps({"text": "done"}))
    process = subprocess.Popen(
        argv("chat", "--model", f"scripted:{turns}", "--mode", "full"), env=environment(), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    until(lambda: (workspace / "begun").exists(), "the command has begun")

    process.send_signal(number)

    # Its input is still open: nothing but the signal ends it.
    assert process.wait(20) == status
    _, err = process.communicate()
    assert f"pegboard: ended by {signal.Signals(number).name}" in err
    until(lambda: not _sleepers(workspace), "all that it started has ended")


@pytest.mark.parametrize(
    "words",
    [
        ["call", "write_file", "path=n", "content=x", "--workspace", ""],
        ["call", "write_file", "path=n", "content=x", "--mode="],
        ["call", "write_file", "path=n", "content=x", "--policy", ""],
        ["run", "write n", "--model", ""],
        ["runs", "--config", ""],
        ["audit", "export", "--file", ""],
        ["store", "purge", "--older", ""],
        ["mcp", "add", "x", "--url", ""],
        ["mcp", "serve", "--tools", ""],
        ["sandbox", "run", "--allow-host", "", "--", "true"],
    ],
)
def test_an_empty_option_is_a_variable_that_is_not_set_and_refused(
    pegboard: Run, workspace: Path, words: list[str]
) -> None:
    option = next(w for w in words if w.startswith("--"))

    done = pegboard(*words)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"pegboard: {option.rstrip('=')} is empty; leave it out")
    assert tree(workspace) == {"a.txt": b"hello\nworld\n"}


def test_empty_arguments_of_a_call_are_none_given(pegboard: Run) -> None:
    done = pegboard("call", "list_dir", "--args", "")

    assert (done.status, done.out) == (0, "[FILE] a.txt\n")


@pytest.mark.parametrize("words", [["runs"], ["mcp", "add", "a", "--", "b"], ["call", "list_dir"]])
def test_a_relative_home_is_refused_and_nothing_is_kept_in_the_current_folder(
    pegboard: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("HOME", "elsewhere")

    done = pegboard(*words)

    assert done.status == 2
    assert "HOME is 'elsewhere', which is not an absolute path" in done.err
    assert tree(workspace) == {"a.txt": b"hello\nworld\n"}


def test_the_doctor_says_that_the_history_cannot_be_kept(pegboard: Run, home: Path) -> None:
    state = home / ".local/state/pegboard"
    state.mkdir(parents=True)
    (state / "history.sqlite").mkdir()

    done = pegboard("doctor")

    assert done.status == 0
    assert f"history: cannot read the store {state}/history.sqlite" in done.out


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_failure(workspace: Path) -> None:
    process = subprocess.Popen(
        argv("tools", "--dialect", "openai-chat"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()

    err = process.stderr.read()
    process.stderr.close()

    assert (process.wait(20), err) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    "both", [pytest.param(False, marks=pytest.mark.full, id="output alone"), pytest.param(True, id="2>&1")]
)
def test_where_nobody_reads_the_exit_status_is_that_of_the_command(workspace: Path, both: bool) -> None:
    def status(*words: str) -> int:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            return subprocess.run(
                argv(*words), env=environment(), cwd=workspace, stdin=subprocess.DEVNULL, stdout=writer,
                stderr=writer if both else subprocess.DEVNULL, timeout=60, check=False,
            ).returncode  # fmt: skip
        finally:
            os.close(writer)

    assert status("call", "list_dir") == 0
    assert status("runs", "show", "nope") == 2
    assert status("--help") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale",
    [
        pytest.param({"LC_ALL": "C"}, marks=pytest.mark.full),
        pytest.param({"LC_ALL": "POSIX"}, marks=pytest.mark.full),
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_a_plain_locale_changes_nothing(command: Run, workspace: Path, locale: dict[str, str]) -> None:
    written = command("call", "write_file", "path=é日.txt", "content=ü", env=locale)
    shown = command("call", "read_file", "path=é日.txt", "--json", env=locale)

    assert written.status == 0
    assert json.loads(shown.out)["data"]["text"] == "ü"
    assert (workspace / "é日.txt").read_text(encoding="utf-8") == "ü"


@pytest.mark.slow
def test_output_that_takes_ascii_only_is_still_json(command: Run, workspace: Path) -> None:
    (workspace / "u.txt").write_text("ü 日 🙂\n", encoding="utf-8")

    shown = command("call", "read_file", "path=u.txt", "--json", env={"PYTHONIOENCODING": "ascii"})
    plain = command("call", "read_file", "path=u.txt", env={"PYTHONIOENCODING": "ascii"})

    assert shown.out.isascii()
    assert json.loads(shown.out)["data"]["text"] == "ü 日 🙂\n"
    assert (plain.status, plain.out.isascii()) == (0, True)


@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        ("history.sqlite", b"this is no database at all, is it", ["runs"]),
        (
            "history.sqlite",
            b"this is no database at all, is it",
            ["call", "write_file", "path=n", "content=x"],
        ),
        ("history.sqlite", b"this is no database at all, is it", ["run", "x", "--model", "local"]),
        ("grants.json", b'[{"id": ', ["grants"]),
        ("grants.json", b'{"a": 1}', ["call", "write_file", "path=n", "content=x"]),
        ("trust.json", b"{", ["trust", "--list"]),
        ("trust.json", b"[1]", ["trust", "--list"]),
    ],
)
def test_damaged_state_is_named_and_left_as_it_is_and_nothing_is_done(
    pegboard: Run, home: Path, workspace: Path, name: str, content: bytes, arguments: list[str]
) -> None:
    state = home / ".local/state/pegboard"
    state.mkdir(parents=True)
    (state / name).write_bytes(content)

    done = pegboard(*arguments)

    assert done.status in (1, 2)
    assert str(state / name) in done.err
    assert "move it away" in done.err
    assert done.err.count("\n") == 1
    assert (state / name).read_bytes() == content
    assert tree(workspace) == {"a.txt": b"hello\nworld\n"}


def test_a_state_folder_that_cannot_be_made_is_named_and_nothing_is_done(
    pegboard: Run, home: Path, workspace: Path
) -> None:
    (home / ".local").write_text("a file where a folder should be")

    done = pegboard("call", "write_file", "path=n", "content=x")

    assert done.status == 1
    assert str(home / ".local/state/pegboard") in done.err
    assert not (workspace / "n").exists()


@pytest.mark.parametrize(
    "words", [["chat", "--model", "local"], ["trust", "mine.toml"], ["run", "hi", "--model", "local"]]
)
def test_a_home_that_cannot_be_written_names_the_way_out(
    pegboard: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (workspace / "mine.toml").write_text("")
    # Nothing can be made below it, by root neither.
    monkeypatch.setenv("HOME", "/proc/1")

    done = pegboard(*words)

    assert done.status in (1, 2)
    assert re.search("XDG_(STATE|CONFIG)_HOME can name a folder that can be written", done.err)


def test_what_writes_nothing_is_answered_where_the_history_cannot_be_opened(
    pegboard: Run, home: Path
) -> None:
    (home / ".local" / "state" / "pegboard" / "history.sqlite").mkdir(parents=True)

    explained = pegboard("policy", "explain", "write_file", "path=b.txt", "content=x", "--mode", "ask")
    previewed = pegboard("call", "write_file", "path=b.txt", "content=x", "--mode", "ask", "--preview")
    called = pegboard("call", "list_dir")

    assert explained.status == previewed.status == 0
    assert "write b.txt: ask" in explained.out
    assert "decision  ask" in previewed.out
    assert "earlier use is not counted: cannot read the store" in explained.err
    assert called.status == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_a_chat_that_nobody_types_draws_no_prompts_and_reads_files_too(
    workspace: Path, tmp_path: Path, kind: str
) -> None:
    turns = tmp_path / "turns.jsonl"
    turns.write_text('{"text": "one"}\n{"text": "two"}\n')
    typed = tmp_path / "typed.txt"
    typed.write_text("hello\nagain\n")
    words = argv("chat", "--json", "--model", f"scripted:{turns}")

    with typed.open("rb") as file:
        given: dict[str, Any] = {"stdin": file} if kind == "file" else {"input": typed.read_bytes()}
        done = subprocess.run(
            words, env=environment(), capture_output=True, timeout=60, check=False, cwd=workspace, **given
        )

    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["answer"] for row in rows if row["type"] == "run.finished"] == ["one", "two"]
    assert b"terminal" not in done.stderr


@pytest.mark.slow
def test_a_mistyped_command_of_the_chat_gets_the_nearest_one(workspace: Path) -> None:
    (workspace.parent / "home" / ".agents" / "commands").mkdir(parents=True)
    (workspace.parent / "home" / ".agents" / "commands" / "review.md").write_text("Look at $1\n")
    typed = b"/undoo\n/reviw a.txt\n/zzzzzzz\n/rewind 1\n"

    done = subprocess.run(
        argv("chat", "--model", "local"), env=environment(), capture_output=True, timeout=60, check=False,
        cwd=workspace, input=typed,
    )  # fmt: skip

    said = done.stdout.decode()
    for text in (
        "did you mean '/undo'?",
        "did you mean '/review'?",
        "/zzzzzzz; type /help",
        "nothing was said yet",
    ):
        assert text in said


def test_two_processes_share_one_state(workspace: Path) -> None:
    many = [
        subprocess.Popen(
            argv("call", "write_file", f"path=f{n}", "content=x"), env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for n in range(3)
    ]  # fmt: skip
    ended = [(p.communicate(timeout=60)[1], p.returncode) for p in many]

    assert [status for _, status in ended] == [0] * 3, ended
    listed = subprocess.run(
        argv("runs", "--json"), env=environment(), capture_output=True, text=True, check=True
    )
    verified = subprocess.run(
        argv("audit", "verify"), env=environment(), capture_output=True, text=True, check=False
    )
    assert len(listed.stdout.splitlines()) == 3
    assert (verified.returncode, verified.stdout) == (0, "1 of 1 sessions verified\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocked", "arguments", "said"),
    [
        (
            "openai",
            ["run", "x", "--model", "openai:m@http://127.0.0.1:9/v1"],
            "pip install 'pegboard[openai]'",
        ),
        ("xllamacpp", ["run", "x", "--model", "gguf:{weights}"], "pip install 'pegboard[gguf]'"),
    ],
)
def test_a_missing_extra_says_how_to_get_it(
    command: Run, workspace: Path, tmp_path: Path, blocked: str, arguments: list[str], said: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{blocked!r}] = None\n")
    weights = workspace / "w.gguf"
    weights.write_bytes(b"GGUF" + bytes(64))
    path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])

    done = command(*[a.format(weights=weights) for a in arguments], env={"PYTHONPATH": path})

    assert done.status == 1
    assert said in done.out + done.err
    assert "Traceback" not in done.out + done.err


@pytest.mark.slow
def test_on_a_terminal_a_person_is_asked_and_ctrl_c_ends_the_question(workspace: Path) -> None:
    said, status = _at_a_terminal(
        ["call", "delete_file", "path=a.txt", "--mode", "ask"], [(b"allow? ", b"\x03")]
    )

    assert status == 130
    assert "delete_file wants to:" in said
    assert (workspace / "a.txt").exists()


@pytest.mark.slow
def test_on_a_terminal_a_yes_lets_the_call_go_and_a_no_does_not(workspace: Path) -> None:
    refused, first = _at_a_terminal(
        ["call", "delete_file", "path=a.txt", "--mode", "ask"],
        [(b"allow? ", b"what\n"), (b"allow? ", b"n: keep it\n")],
    )
    still = (workspace / "a.txt").exists()
    allowed, second = _at_a_terminal(
        ["call", "delete_file", "path=a.txt", "--mode", "ask"], [(b"allow? ", b"y\n")]
    )

    assert (first, still) == (3, True)
    assert "keep it" in refused
    assert (second, (workspace / "a.txt").exists()) == (0, False)
    assert "approved by you" in allowed


@pytest.mark.slow
def test_on_a_terminal_a_question_of_a_tool_is_answered(workspace: Path) -> None:
    said, status = _at_a_terminal(
        ["call", "ask_user", "question=Which?", "options=red", "options=blue"], [(b"> ", b"2\n")]
    )

    assert status == 0
    assert "blue" in said.rpartition("> ")[2]


@pytest.mark.slow
def test_on_a_terminal_progress_is_shown_while_a_tool_works_and_wiped(workspace: Path) -> None:
    said, status = _at_a_terminal(["call", "exec", "command=sleep 1.5"], [])

    assert status == 0
    assert "⠙ exec" in said or "⠹ exec" in said or "⠸ exec" in said
    assert "\r\x1b[2K" in said


def _at_a_terminal(arguments: list[str], talk: list[tuple[bytes, bytes]]) -> tuple[str, int]:
    """Run in a pseudo-terminal; answer each prompt in turn."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "import os,sys; os.setsid(); import fcntl,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
         "from pegboard.cli.main import main; sys.argv[0]='pegboard'; main()", *arguments],
        env=environment(), stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    said, seen, deadline = b"", 0, time.monotonic() + 30
    while time.monotonic() < deadline:
        ready, _, _ = select.select([leader], [], [], 0.1)
        if ready:
            try:
                said += os.read(leader, 65536)
            except OSError:
                break
        if talk and talk[0][0] in said[seen:]:
            seen = len(said)
            os.write(leader, talk.pop(0)[1])
    status = process.wait(10)
    os.close(leader)
    return said.decode("utf-8", "replace"), status


def _sleepers(workspace: Path) -> list[str]:
    """Processes whose working folder is the workspace."""
    found: list[str] = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit() and int(one.name) != os.getpid():
            try:
                if os.readlink(one / "cwd") == str(workspace):
                    found.append((one / "cmdline").read_text())
            except OSError:
                continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [*(pytest.param(w, marks=pytest.mark.full) for w in (["--help"], ["tools"])), ["call", "list_dir"]],
)
def test_a_full_disk_behind_the_output_is_one_line_and_a_failure(workspace: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            argv(*words), cwd=workspace, stdout=full, stderr=subprocess.PIPE, env=environment(None), timeout=60,
            check=False,
        )  # fmt: skip

    said = [line for line in done.stderr.decode().splitlines() if not line.startswith("▸")]
    assert (done.returncode, said) == (1, ["pegboard: No space left on device"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "closed", [*(pytest.param(c, marks=pytest.mark.full) for c in ("<&-", ">&-", "2>&-")), "<&- >&- 2>&-"]
)
def test_closed_standard_streams_lead_nowhere_and_harm_no_file(workspace: Path, closed: str) -> None:
    words = argv("call", "write_file", "path=b.txt", "content=hi")

    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *words], cwd=workspace, env=environment(None), timeout=60,
        capture_output=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr and b"unexpected" not in done.stderr
    assert (workspace / "b.txt").read_text() == "hi"
    # Had the history got number 1 or 2, what was printed would stand in it.
    assert json.loads(
        subprocess.run(
            argv("audit", "verify", "--json"), cwd=workspace, env=environment(None), timeout=60,
            capture_output=True, check=True,
        ).stdout
    ) == {"cli": []}  # fmt: skip


@pytest.mark.slow
def test_a_current_folder_that_is_gone_is_named_with_the_way_out(workspace: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    def there(*words: str) -> subprocess.CompletedProcess[bytes]:
        inside = 'cd "$1" && { [ -d "$1" ] && rmdir "$1"; shift; "$@"; }'
        gone.mkdir(exist_ok=True)
        return subprocess.run(
            ["sh", "-c", inside, "sh", str(gone), *argv(*words)], env=environment(None), timeout=60,
            capture_output=True, check=False,
        )  # fmt: skip

    for words in (["tools"], ["call", "list_dir"], ["trust"], ["mcp", "list"]):
        done = there(*words)
        assert done.returncode == 2, (words, done.stderr)
        assert b"the current folder no longer exists" in done.stderr, words
        assert b"--workspace DIR" in done.stderr
    assert there("call", "list_dir", "--workspace", str(workspace)).returncode == 0
