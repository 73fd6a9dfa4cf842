"""`pegboard outbox`: what went out, what did not, and another try."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    config = own_home / ".config" / "pegboard"
    config.mkdir(parents=True)
    (config / "pegboard.toml").write_text('[channels.log]\nkind = "file"\npath = "new/messages.jsonl"\n')
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def pegboard(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pegboard", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def rows(folder: Path, *words: str) -> Any:
    return json.loads(pegboard(folder, "outbox", *words, "--json").stdout)


def test_a_dead_message_is_shown_retried_and_dropped(folder: Path, own_home: Path) -> None:
    assert pegboard(folder, "outbox").stdout == "no messages\n"
    blocked = own_home / ".config/pegboard/new"
    blocked.write_text("a file where the folder should be")
    sent = pegboard(folder, "call", "message", "content=Hello", "channel=log", "--yes")
    assert sent.returncode == 0, sent.stderr
    assert "Message to log is queued (cannot write" in sent.stdout

    (row,) = rows(folder, "list", "--status", "waiting")
    assert (row["to"], row["content"], row["attempts"]) == ("log", "Hello", 1)
    shown = pegboard(folder, "outbox", "show", row["id"]).stdout
    assert "  | Hello\n" in shown and "next attempt: " in shown
    blocked.unlink()
    retried = pegboard(folder, "outbox", "retry", row["id"])

    assert retried.returncode == 0, retried.stderr
    assert json.loads((own_home / ".config/pegboard/new/messages.jsonl").read_text())["content"] == "Hello"
    assert [r["status"] for r in rows(folder)] == ["sent"]
    refused = pegboard(folder, "outbox", "retry", row["id"])
    assert refused.returncode != 0 and "is sent" in refused.stderr
    assert pegboard(folder, "outbox", "drop", row["id"]).stdout == f"{row['id']} is dropped\n"
    assert rows(folder) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [(["show"], "needs an ID"), (["burn", "x"], "use list"), (["show", "x"], "no message has the id"),
     (["list", "--status", "gone"], "use waiting")],
)  # fmt: skip
def test_a_wrong_command_says_what_is_right(words: list[str], says: str, folder: Path) -> None:
    done = pegboard(folder, "outbox", *words)

    assert done.returncode != 0
    assert says in done.stderr
