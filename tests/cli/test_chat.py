"""`pegboard chat`, tried at a real terminal: tmux."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.core.transcript import UserMessage
from pegboard.dialects import dialect
from pegboard.runtime.fold import fold
from pegboard.store.log import decode_events
from tests.ledger import owes
from tests.runtime.transcripts import valid
from tests.sync_store import open_sqlite
from tests.transcript import assert_valid_transcript
from tests.waiting import until

ROOT = Path(__file__).parents[2]


class Terminal:
    """A tmux server with one window."""

    def __init__(self, home: Path) -> None:
        self._socket = f"pegboard-{uuid.uuid4().hex[:8]}"
        self._home = home

    def tmux(self, *args: str) -> str:
        env = {**os.environ, "TMUX_TMPDIR": str(self._home)}
        done = subprocess.run(
            ["tmux", "-L", self._socket, *args], env=env, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def restart(self) -> None:
        """End the window and get another server."""
        self.tmux("kill-server")
        self._socket = f"pegboard-{uuid.uuid4().hex[:8]}"

    def start(self, *args: str, columns: int = 220) -> None:
        env = {"HOME": str(self._home), "PYTHONPATH": f"{ROOT}/src", "PATH": os.environ["PATH"]}
        env |= {f"XDG_{k}_HOME": str(self._home / k) for k in ("STATE", "CONFIG", "DATA", "CACHE")}
        words = [
            "env",
            *(f"{k}={v}" for k, v in env.items()),
            sys.executable,
            "-m",
            "pegboard.cli.main",
            *args,
        ]
        window = f"{shlex.join(words)}; echo ended $?; sleep 60"
        # Words of its own: one text would go to the shell that SHELL names, which may be unset or any other.
        self.tmux("new-session", "-d", "-x", str(columns), "-y", "50", "sh", "-c", window)

    def type(self, text: str, *keys: str) -> None:
        self.tmux("send-keys", "-l", text)
        for key in keys:
            self.tmux("send-keys", key)

    def press(self, *keys: str) -> None:
        """Keys without text, or single letters that are answers."""
        for key in keys:
            self.tmux("send-keys", key)

    def press_until(self, key: str, wanted: str) -> None:
        """Press a key again where it was not taken, since somebody was typing a moment before."""
        for _ in range(10):
            self.press(key)
            try:
                self.wait(wanted, timeout_s=2.0)
                return
            except AssertionError:
                continue
        raise AssertionError(f"{key} was never taken")

    def colours(self) -> str:
        """The screen with its colours."""
        return self.tmux("capture-pane", "-p", "-e", "-S", "-500")

    def wait(self, wanted: str, *, count: int = 1, timeout_s: float = 40.0) -> str:
        """The screen once it shows `wanted`; waits on the terminal and not on time."""
        screens: list[str] = []

        def shown() -> bool:
            screens[:] = [self.tmux("capture-pane", "-p", "-S", "-500")]
            return screens[0].count(wanted) >= count

        try:
            until(shown, f"{wanted!r} on the screen", within_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{screens[0]}") from None
        return screens[0]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    assert shutil.which("tmux"), "tmux is missing: sh scripts/debian_packages.sh"
    made = Terminal(tmp_path)
    yield made
    made.tmux("kill-server")


def script(path: Path, turns: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(json.dumps(t) for t in turns))
    return f"scripted:{path}"


@pytest.mark.slow
@owes("K-25", "K-52")
def test_a_chat_streams_asks_with_the_diff_undoes_and_goes_on_later(
    terminal: Terminal, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old line\n")
    model = script(
        tmp_path / "turns.jsonl",
        [
            {"text": "I look.", "calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]},
            {"calls": [{"name": "edit_file",
                        "arguments": {"path": "a.txt", "old_string": "old", "new_string": "new"}}]},
            {"text": "I changed it."},
        ],
    )  # fmt: skip
    terminal.start("chat", "--model", model, "--mode", "ask", "--workspace", str(work), "--session", "chat_t")

    terminal.wait("leaves this machine)\n>")
    terminal.type("/he", "Tab")
    terminal.wait("> /help")
    terminal.type("", "Enter")
    assert "/compact" in terminal.wait("quit; the conversation is saved")
    terminal.type("first line\\", "Enter")
    terminal.type("second line", "Enter")
    asked = terminal.wait("allow?")
    assert "I look." in asked
    if "-old line" not in asked:
        terminal.press("y")
        asked = terminal.wait("-old line")
    assert "+new line" in asked
    assert "write a.txt" in asked
    terminal.press("y")
    terminal.wait("I changed it.")
    assert (work / "a.txt").read_text() == "new line\n"
    terminal.type("/undo", "Enter")
    terminal.wait("undone: 1 file change")
    assert (work / "a.txt").read_text() == "old line\n"
    terminal.type("/mode read-only", "Enter")
    terminal.wait("mode read-only")
    terminal.type("/nonsense", "Enter")
    terminal.wait("unknown command /nonsense")
    terminal.type("/runs", "Enter")
    terminal.wait("done")
    terminal.type("/tools", "Enter")
    terminal.wait("edit_file")
    terminal.type("/compact", "Enter")
    terminal.wait("tokens, now")
    terminal.type("/exit", "Enter")
    terminal.wait("ended 0")

    store = open_sqlite(tmp_path / "STATE" / "pegboard" / "history.sqlite")
    history = fold(decode_events(store.read("chat_t")))
    store.close()
    assert history.messages[0].text == "first line\nsecond line"  # pyright: ignore
    assert_valid_transcript([m for x in history.messages for m in dialect("openai-chat").encode(x)])

    again = script(tmp_path / "more.jsonl", [{"text": "I remember."}])
    terminal.restart()
    terminal.start("chat", "--model", again, "--workspace", str(work), "--session", "chat_t")
    terminal.wait("1 earlier message loaded")
    terminal.type("still there?", "Enter")
    terminal.wait("I remember.")
    terminal.type("", "Up")
    terminal.wait("still there?", count=2)


@pytest.mark.slow
@owes("K-52", "K-25")
def test_a_line_sent_while_a_run_goes_on_is_read_before_the_next_model_turn(
    terminal: Terminal, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    wait = {"name": "exec", "arguments": {"command": "while [ ! -e go ]; do sleep 0.05; done; rm go"}}
    model = script(
        tmp_path / "turns.jsonl",
        [
            {"text": "I wait for it.", "calls": [wait]},
            {"text": "I heard you."},
            {"text": "And this is the next run."},
        ],
    )
    terminal.start(
        "chat", "--model", model, "--mode", "full", "--workspace", str(work), "--session", "chat_m"
    )
    terminal.wait("leaves this machine)\n>")

    terminal.type("begin", "Enter")
    terminal.wait("I wait for it.")
    terminal.wait("Ctrl+C stops the run")
    terminal.type("and be quick", "Enter")
    terminal.type("/undo", "Enter")
    terminal.wait("/undo is not available during a run")
    terminal.type("/mode", "Enter")
    terminal.wait("mode full")
    terminal.type("half a thought")
    (work / "go").touch()
    terminal.wait("I heard you.")
    # What was being typed is still there, and goes on.
    terminal.type(", now whole", "Enter")
    terminal.wait("And this is the next run.")
    terminal.type("/exit", "Enter")
    terminal.wait("ended 0")

    store = open_sqlite(tmp_path / "STATE" / "pegboard" / "history.sqlite")
    events = decode_events(store.read("chat_m"))
    store.close()
    messages = fold(events).messages
    said = [m.text for m in messages if isinstance(m, UserMessage)]
    assert said == ["begin", "and be quick", "half a thought, now whole"]
    # One run took the first two: it was told behind its call's result, before its next turn.
    kinds = [type(m).__name__ for m in messages[:5]]
    assert kinds == ["UserMessage", "AssistantMessage", "ResultsMessage", "UserMessage", "AssistantMessage"]
    assert [e.type for e in events].count("run.started") == 2
    valid(messages)


@pytest.mark.slow
@owes("K-52", "A-05")
def test_what_was_typed_before_a_question_is_no_answer_to_it_and_ctrl_c_ends_the_run_alone(
    terminal: Terminal, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old\n")
    wait = {
        "name": "exec",
        "arguments": {"command": "touch begun; while [ ! -e go ]; do sleep 0.05; done; rm go"},
    }
    edit = {"name": "edit_file", "arguments": {"path": "a.txt", "old_string": "old", "new_string": "new"}}
    model = script(
        tmp_path / "turns.jsonl", [{"calls": [wait]}, {"calls": [edit]}, {"text": "over"}, {"calls": [wait]}]
    )
    terminal.start("chat", "--model", model, "--mode", "ask", "--workspace", str(work), "--session", "chat_n")
    terminal.wait("leaves this machine)\n>")

    terminal.type("begin", "Enter")
    terminal.wait("allow?")
    terminal.press("y")
    terminal.wait("Ctrl+C stops the run")
    wait_for(work / "begun")
    terminal.type("yes")
    terminal.wait("> yes")
    (work / "go").touch()
    terminal.wait("allow?", count=2)
    assert (work / "a.txt").read_text() == "old\n"
    # Who is in the middle of a sentence does not answer with its next letter.
    terminal.press("y")
    terminal.press_until("t", "because:")
    assert (work / "a.txt").read_text() == "old\n"
    terminal.type("not now", "Enter")
    terminal.wait("not now. It needed approval")
    terminal.wait("over")
    terminal.wait("> yes")
    assert (work / "a.txt").read_text() == "old\n"
    (work / "begun").unlink()
    terminal.type("", "Enter")
    terminal.wait("allow?", count=3)
    terminal.press("y")
    wait_for(work / "begun")
    terminal.type("", "C-c")
    terminal.wait("stopped")
    terminal.type("/runs", "Enter")
    terminal.wait("cancelled")
    terminal.type("/exit", "Enter")
    terminal.wait("ended 0")


def wait_for(path: Path) -> None:
    until(path.exists, f"the file {path.name}", within_s=40)
