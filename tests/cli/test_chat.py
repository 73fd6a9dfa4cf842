"""`pegboard chat`, tried at a real terminal: tmux."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.dialects import dialect
from pegboard.runtime.transcripts import fold
from pegboard.store.logs import decode
from pegboard.store.sqlite import SqliteStore
from tests.ledger import owes
from tests.transcript import assert_valid_transcript

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

    def start(self, *args: str) -> None:
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
        self.tmux(
            "new-session", "-d", "-x", "220", "-y", "50", f"{shlex.join(words)}; echo ended $?; sleep 60"
        )

    def type(self, text: str, *keys: str) -> None:
        self.tmux("send-keys", "-l", text)
        for key in keys:
            self.tmux("send-keys", key)

    def wait(self, wanted: str, *, count: int = 1, timeout_s: float = 40.0) -> str:
        """The screen once it shows `wanted`; waits on the terminal and not on time."""
        end = time.monotonic() + timeout_s
        screen = ""
        while time.monotonic() < end:
            screen = self.tmux("capture-pane", "-p", "-S", "-500")
            if screen.count(wanted) >= count:
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{wanted!r} did not come up:\n{screen}")


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

    terminal.wait("nowhere\n>")
    terminal.type("/he", "Tab")
    terminal.wait("> /help")
    terminal.type("", "Enter")
    assert "/compact" in terminal.wait("leave; the conversation is kept")
    terminal.type("first line\\", "Enter")
    terminal.type("second line", "Enter")
    asked = terminal.wait("allow?")
    assert "I look." in asked
    if "-old line" not in asked:
        terminal.type("y", "Enter")
        asked = terminal.wait("-old line")
    assert "+new line" in asked
    assert "write a.txt" in asked
    terminal.type("y", "Enter")
    terminal.wait("I changed it.")
    assert (work / "a.txt").read_text() == "new line\n"
    terminal.type("/undo", "Enter")
    terminal.wait("undone: 1 file changes")
    assert (work / "a.txt").read_text() == "old line\n"
    terminal.type("/mode read-only", "Enter")
    terminal.wait("mode read-only")
    terminal.type("/nonsense", "Enter")
    terminal.wait("there is no /nonsense")
    terminal.type("/runs", "Enter")
    terminal.wait("done")
    terminal.type("/tools", "Enter")
    terminal.wait("edit_file")
    terminal.type("/compact", "Enter")
    terminal.wait("tokens, now")
    terminal.type("/exit", "Enter")
    terminal.wait("ended 0")

    store = SqliteStore(tmp_path / "STATE" / "pegboard" / "history.sqlite")
    history = fold(decode(store.read("chat_t")))
    store.close()
    assert history.messages[0].text == "first line\nsecond line"  # pyright: ignore
    assert_valid_transcript([m for x in history.messages for m in dialect("openai-chat").encode(x)])

    again = script(tmp_path / "more.jsonl", [{"text": "I remember."}])
    terminal.restart()
    terminal.start("chat", "--model", again, "--workspace", str(work), "--session", "chat_t")
    terminal.wait("messages of this session are remembered")
    terminal.type("still there?", "Enter")
    terminal.wait("I remember.")
    terminal.type("", "Up")
    terminal.wait("still there?", count=2)
