"""What a person sees and presses in `pegboard chat`, at terminals of 80 and 120 columns: tmux."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pegboard.core.events import UserSaid
from pegboard.core.transcript import UserMessage
from pegboard.runtime.fold import fold
from pegboard.store.log import decode_events
from tests.cli.test_chat import Terminal, script
from tests.cli.test_chat import terminal as terminal
from tests.sync_store import open_sqlite
from tests.waiting import until

READY = "(Shift+Tab)"
WIDTHS = pytest.mark.parametrize("columns", [80, 120])
pytestmark = pytest.mark.slow


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def edit(old: str, new: str) -> dict[str, Any]:
    return {"calls": [call("edit_file", path="a.txt", old_string=old, new_string=new)]}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("old line\n")
    return folder


def start(terminal: Terminal, work: Path, turns: list[dict[str, Any]], columns: int, *options: str) -> None:
    model = script(work.parent / "turns.jsonl", turns)
    terminal.start("chat", "--model", model, "--workspace", str(work), *options, columns=columns)
    terminal.wait(READY)


SENTENCE = "This sentence is **certainly** longer than any of the terminals that it is tried at, so that its words have to be wrapped, and `none` of them is cut in two at the edge of the screen."


@WIDTHS
def test_an_answer_is_markdown_with_whole_words_and_one_key_answers_with_the_diff_in_colour(
    terminal: Terminal, work: Path, columns: int
) -> None:
    turns = [
        {
            "text": f"# Heading\n\n{SENTENCE}\n\n- first\n- second\n\n```sh\necho code\n```",
            **edit("old", "new"),
        },
        edit("new", "newer"),
        {"text": "All *done*."},
    ]
    start(terminal, work, turns, columns, "--mode", "ask")

    terminal.type("go", "Enter")
    asked = terminal.wait("allow?")
    shown = re.search(r"This sentence.*?screen\.", asked, re.DOTALL)
    assert shown is not None
    assert shown[0].split() == SENTENCE.replace("*", "").replace("`", "").split()
    assert max(map(len, asked.splitlines())) <= columns
    for plain in ("Heading", " • first", "  echo code"):
        assert plain in asked.splitlines(), plain
    assert "**" not in asked and "```" not in asked
    coloured = terminal.colours()
    assert re.search(r"\x1b\[31m-old line", coloured)
    assert re.search(r"\x1b\[32m\+new line", coloured)

    terminal.press("?")
    terminal.wait("write a.txt: ask")
    terminal.wait("allow?", count=2)
    assert (work / "a.txt").read_text() == "old line\n"
    terminal.press("r")  # The second edit is of the same file: it is not asked about again.
    terminal.wait("All done.")
    assert (work / "a.txt").read_text() == "newer line\n"
    terminal.press("C-d")
    screen = terminal.wait("ended 0")
    assert re.search(r"continue with: pegboard chat --resume chat_\w+", screen.replace("\n", ""))


@WIDTHS
def test_output_comes_while_the_command_runs_and_ctrl_c_ends_a_run_that_asks(
    terminal: Terminal, work: Path, columns: int
) -> None:
    waiting = "echo first output; while [ ! -e go ]; do sleep 0.05; done; echo second output"
    turns = [{"calls": [call("exec", command=waiting)]}, edit("old", "new"), {"text": "never said"}]
    start(terminal, work, turns, columns, "--mode", "workspace")

    terminal.type("go", "Enter")
    terminal.wait("  first output")
    assert "second output\n" not in terminal.wait("Ctrl+C stops the run")
    terminal.type("/mode ask", "Enter")
    terminal.wait("mode ask (Shift+Tab)")
    (work / "go").touch()
    terminal.wait("allow?")
    terminal.press("C-c")
    terminal.wait("stopped")
    terminal.type("/runs", "Enter")
    terminal.wait("cancelled")
    terminal.press("C-d")
    terminal.wait("ended 0")
    assert (work / "a.txt").read_text() == "old line\n"


@WIDTHS
def test_modes_commands_files_and_going_back(terminal: Terminal, work: Path, columns: int) -> None:
    turns = [edit("old", "new"), {"text": "Edited."}, {"text": "Seen."}, {"text": "Fresh."}]
    start(terminal, work, turns, columns, "--session", "chat_m")

    terminal.wait("mode workspace (Shift+Tab)")
    terminal.press("BTab")
    terminal.wait("mode auto (Shift+Tab)")
    terminal.press("BTab")
    terminal.wait("mode plan (Shift+Tab)")
    terminal.press("BTab", "BTab")
    terminal.wait("mode workspace (Shift+Tab)")
    terminal.type("edit it", "Enter")
    terminal.wait("Edited.")
    terminal.wait("context 0.")
    terminal.type("/diff", "Enter")
    terminal.wait("1 file changed in this conversation")
    terminal.type("/undo", "Enter")
    terminal.wait("undone: 1 file change")
    terminal.type("/redo", "Enter")
    terminal.wait("redone: 1 file change")
    assert (work / "a.txt").read_text() == "new line\n"
    terminal.type("!echo said by $((6*7))", "Enter")
    terminal.wait("  said by 42")
    terminal.type("read @a.txt", "Enter")
    terminal.wait("Seen.")
    for command, wanted in (
        ("/status", "context    about"), ("/tools", "propose_plan"), ("/cost", "3 model turns"),
        ("/help", "go back to before one"), ("/todo", "the agent keeps no list"), ("/rewind", "1  edit it"),
    ):  # fmt: skip
        terminal.type(command, "Enter")
        terminal.wait(wanted)
    terminal.type("/rewind 1", "Enter")
    terminal.wait("its text is in the prompt")
    terminal.wait("> edit it", count=2)
    assert (work / "a.txt").read_text() == "old line\n"
    terminal.type(" again", "Enter")
    terminal.wait("Fresh.")
    terminal.press("C-d")
    terminal.wait("ended 0")

    store = open_sqlite(work.parent / "STATE" / "pegboard" / "history.sqlite")
    events = decode_events(store.read("chat_m"))
    store.close()
    kept = [m.text for m in fold(events).messages if isinstance(m, UserMessage)]
    assert kept == ["edit it again"]
    said = [e.message.text for e in events if isinstance(e, UserSaid)]
    assert "said by 42" in said[1] and "new line" in said[1]


@WIDTHS
def test_an_earlier_conversation_is_continued_from_the_list_by_id_or_as_the_latest(
    terminal: Terminal, work: Path, columns: int
) -> None:
    start(
        terminal,
        work,
        [{"text": "The **first** answer."}],
        columns,
        "--session",
        "chat_one",
    )
    terminal.type("remember me", "Enter")
    terminal.wait("The first answer.")
    terminal.type("/new", "Enter")
    terminal.wait("/resume chat_one")
    terminal.type("a newer one", "Enter")
    terminal.wait("The first answer.", count=2)
    terminal.type("/resume chat_one", "Enter")
    terminal.wait("1 earlier message loaded")
    terminal.type("/clear", "Enter")
    until(lambda: "remember me" not in terminal.wait("session chat_"), "an empty screen")
    terminal.press("C-d")
    terminal.wait("ended 0")

    terminal.restart()
    start(terminal, work, [{"text": "More."}], columns, "--continue")
    assert "a newer one" in terminal.wait("(Shift+Tab)")
    terminal.press("C-d")
    terminal.wait("ended 0")

    terminal.restart()
    model = script(work.parent / "turns.jsonl", [{"text": "More."}])
    terminal.start("chat", "--model", model, "--workspace", str(work), "--resume", columns=columns)
    listed = terminal.wait("which one?")
    assert "remember me" in listed and "a newer one" in listed
    terminal.type("chat_one", "Enter")
    assert "The first answer." in terminal.wait("(Shift+Tab)")
    terminal.type("and now?", "Enter")
    terminal.wait("More.")
    terminal.press("C-d")
    terminal.wait("ended 0")


@WIDTHS
def test_a_plan_is_shown_as_effects_and_its_steps_stand_below_the_prompt(
    terminal: Terminal, work: Path, columns: int
) -> None:
    steps = [{"text": "Read", "status": "done"}, {"text": "Write", "status": "pending"}]
    plan = call(
        "propose_plan", plan="## Goal\n\nChange **one** line.", files=["a.txt"], commands=["cat a.txt"]
    )
    turns = [
        {"calls": [call("todo", items=steps), plan]},
        edit("old", "new"),
        {"calls": [call("write_file", path="b.txt", content="beyond")]},
        {"text": "Finished."},
    ]
    start(terminal, work, turns, columns, "--mode", "plan")

    terminal.type("go", "Enter")
    asked = terminal.wait("allow?")
    for line in ("[x] Read", "Change one line.", "? write a.txt", "? exec cat a.txt"):
        assert line in asked, line
    terminal.press("y")
    asked = terminal.wait("allow?", count=2)
    assert "it is not part of the plan that you approved" in asked
    assert (work / "a.txt").read_text() == "new line\n"
    terminal.press("n")
    terminal.wait("Finished.")
    terminal.wait("mode workspace, as planned (Shift+Tab)")
    terminal.wait("1 of 2 steps done")
    terminal.press("C-d")
    terminal.wait("ended 0")
    assert not (work / "b.txt").exists()


def test_text_from_a_model_a_tool_and_a_file_does_nothing_to_the_terminal(
    terminal: Terminal, work: Path
) -> None:
    (work / "evil.txt").write_text("\x1b]0;owned\x07\x1b[2Jfile text\n")
    turns = [
        {"text": "\x1b[2Jmodel text\x1b]0;owned\x07", "calls": [call("read_file", path="evil.txt")]},
        {"calls": [call("exec", command="printf '\\033[2Jtool\\033]0;owned\\007 text\\n'")]},
        {"text": "Finished."},
    ]
    start(terminal, work, turns, 80)

    terminal.type("go", "Enter")
    terminal.wait("Finished.")
    terminal.type("!printf '\\033[2Jtyped text\\n'", "Enter")
    screen = terminal.wait("  typed text")
    for text in ("> go", "model text", "file text", "text"):
        assert text in screen, text
    assert "owned" not in terminal.tmux("display-message", "-p", "#{pane_title}")
    terminal.press("C-d")
    terminal.wait("ended 0")
