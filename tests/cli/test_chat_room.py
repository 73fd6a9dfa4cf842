"""`pegboard chat` in this process: its commands, its approvals, its end (ledger K-25, K-73)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.document import Document

from pegboard.app.app import App
from pegboard.cli.chat import (
    Chat,
    _Commands,  # pyright: ignore[reportPrivateUsage]
    chat,
)
from pegboard.cli.options import Options
from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.events import ContextCompacted, UserSaid
from pegboard.dialects import dialect
from pegboard.runtime.fold import fold
from tests.ledger import owes
from tests.transcript import assert_valid_transcript

WindowedConversation = Callable[..., str]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind in ("STATE", "CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def talk(work: Path, capsys: pytest.CaptureFixture[str]) -> WindowedConversation:
    """Type lines into a chat with a scripted model; what it printed."""

    def say(lines: list[str], turns: list[dict[str, Any]], **options: Any) -> str:
        path = work.parent / "turns.jsonl"
        path.write_text("\n".join(json.dumps(t) for t in turns))
        # Some at once and one without its end, as a program would write them.
        reader, writer = os.pipe()
        os.write(writer, "\n".join(lines).encode())
        os.close(writer)
        chosen: dict[str, Any] = {"mode": "ask", **options}
        with os.fdopen(reader) as stdin, pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdin", stdin)
            status = chat(
                model=f"scripted:{path}", session="chat_x", last=False,
                options=Options(workspace=work, **chosen),
            )  # fmt: skip
        assert status == 0
        read = capsys.readouterr()
        return read.out + read.err

    return say


def write(text: str) -> dict[str, Any]:
    return {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": text}}]}


@pytest.mark.slow
@owes("K-25")
def test_a_no_with_its_reason_reaches_the_model_and_a_yes_carries_out(
    talk: WindowedConversation, work: Path
) -> None:
    shown = talk(
        ["write it", "what?", "n: not yet", "again", "y", "/exit"],
        [write("1"), {"text": "all right"}, write("2"), {"text": "written"}],
    )

    assert "+1" in shown
    assert "not yet" in shown
    assert (work / "a.txt").read_text() == "2"
    assert "conversation saved; continue with: pegboard chat --resume chat_x" in shown


@pytest.mark.slow
@owes("K-73", "K-25")
def test_every_command_does_what_its_help_says(talk: WindowedConversation, work: Path) -> None:
    shown = talk(
        ["/help", "/compact", "/tools", "/mode", "/mode full", "/mode odd", "write it", "/diff", "/undo", "/undo nothing",
         "/redo", "/undo", "/runs", "/cost", "/status", "/todo", "/rewind", "/rewind 7", "/resume", "/resume nothing", "/model", "/model nosuch:model", "/compact", "/nope", "/exit"],
        [write("1"), {"text": "ok", "usage": {"input_tokens": 7, "output_tokens": 2}}],
    )  # fmt: skip

    for line in (
        "shorten the conversation sent to the model", "nothing to compact", "write_file", "mode ask", "mode full",
        "unknown mode 'odd'", "1 file changed in this conversation", "undone: 1 file change", "redone: 1 file change",
            "workspace  ", "the agent keeps no list", "1  write it", "give the number of a message, 1 to 1",
            "continue one: /resume ID", "no conversation 'nothing'", "done", "2 model turns, 7 tokens in, 2 out",
        "scripted:", "tokens, now", "unknown command /nope",
    ):  # fmt: skip
        assert line in shown, line
    assert not (work / "a.txt").exists()
    with App.open(workspace=work) as app:
        events = asyncio.run(app.history.events("chat_x"))
        [run, *_] = asyncio.run(app.history.runs())
    assert isinstance(events[-1], ContextCompacted)
    assert run.status == "done"
    assert_valid_transcript([m for x in fold(events).messages for m in dialect("openai-chat").encode(x)])


@pytest.mark.slow
def test_a_later_chat_goes_on_and_another_model_may_answer(talk: WindowedConversation, work: Path) -> None:
    talk(["hello", "/exit"], [{"text": "hi"}])
    other = work.parent / "other.jsonl"
    other.write_text(json.dumps({"text": "I am another"}))

    shown = talk([f"/model scripted:{other}", "who?"], [{"text": "unused"}])  # Ctrl+D ends it.

    assert "1 earlier message loaded" in shown
    assert "I am another" in shown


@pytest.mark.slow
def test_a_failed_run_is_told_and_the_chat_goes_on(talk: WindowedConversation) -> None:
    shown = talk(["one", "two", "/exit"], [{"error": "overloaded"}, {"text": "better"}])

    assert "failed: overloaded" in shown
    assert "better" in shown


def test_commands_values_and_files_are_completed(work: Path) -> None:
    (work / "notes.md").touch()
    (work / "sub").mkdir()
    (work / "sub" / "deep.txt").touch()
    with App.open(workspace=work) as app:
        complete = _Commands(app)

        def found(text: str) -> list[str]:
            return [c.text for c in complete.get_completions(Document(text), None)]

        assert found("/mo") == ["/mode", "/model"]
        assert found("/mode re") == ["read-only"]
        assert found("/re") == ["/redo", "/rewind", "/resume"]
        assert found("look at @no") == ["@notes.md"]
        assert found("look at @sub/") == ["@sub/deep.txt"]
        assert found("look at @../") == []
        assert found("plain") == []
    assert Chat is not None


@pytest.mark.slow
def test_for_a_program_a_chat_is_events_a_line_as_those_of_a_run(talk: WindowedConversation) -> None:
    said = talk(["hello", "again"], [{"text": "One."}, {"text": "Two."}], json=True)

    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [e["answer"] for e in events if e["type"] == "run.finished"] == ["One.", "Two."]
    assert "Enter sends" not in said


@pytest.mark.slow
def test_a_wrong_model_is_told_before_the_chat_greets(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="unknown model provider 'bogus'"):
        chat(model="bogus", session=None, last=True, options=Options(workspace=work))

    read = capsys.readouterr()
    assert read.out == ""
    assert "no earlier chat in this workspace; starting a new one" in read.err


@pytest.mark.slow
def test_a_person_who_types_nothing_can_run_commands_attach_files_and_start_anew(
    talk: WindowedConversation, work: Path
) -> None:
    (work / "b.txt").write_text("attached text\n")

    shown = talk(
        ["!echo made > c.txt; cat c.txt", "!exit 3", "look at @b.txt", "/rewind 1", "/new", "hello", "/exit"],
        [{"text": "**Seen.**"}],
    )

    assert "  made\n" in shown and "Exit code: 3" in shown
    assert "back to before message 1" in shown
    assert "the conversation before: /resume chat_x" in shown
    # A pipe gets the text as it is.
    assert shown.count("**Seen.**") == 2
    with App.open(workspace=work) as app:
        events = asyncio.run(app.history.events("chat_x"))
    said = next(e.message.text for e in events if isinstance(e, UserSaid))
    assert "made" in said and "attached text" in said
    assert fold(events).messages == []


def test_an_argument_without_resume_is_told(work: Path) -> None:
    from pegboard.cli.chat import chat_command

    with pytest.raises(BuildError, match="chat --resume ID"):
        chat_command(conversation="hello")
