"""`pegboard memory`: list, show and forget notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def notes(pegboard: Run, home: Path) -> Run:
    for name, content in (("build", "Build with make."), ("style", "Tabs.")):
        done = pegboard("call", "memory_write", f"name={name}", f"content={content}", "--yes")
        assert done.status == 0, done.err
    return pegboard


def test_notes_are_listed_shown_and_forgotten(notes: Run) -> None:
    listed = json.loads(notes("memory", "--json").out)["notes"]
    assert sorted(n["name"] for n in listed) == ["build", "style"]
    assert "Build with make." in notes("memory").out
    assert notes("memory", "show", "build").out == "Build with make.\n"

    assert notes("memory", "forget", "build").out == "forgotten: build\n"
    assert [n["name"] for n in json.loads(notes("memory", "list", "--json").out)["notes"]] == ["style"]
    notes("memory", "forget", "--all")

    assert notes("memory").out == "no notes in this workspace\n"


def test_a_forgotten_note_comes_back_with_undo(notes: Run) -> None:
    notes("memory", "forget", "build")

    done = notes("undo", "--last")

    assert done.status == 0, done.err
    assert notes("memory", "show", "build").out == "Build with make.\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [(["frob"], "use list, show NAME"), (["forget"], "forget --all"), (["forget", "build", "--all"], "forget --all"),
     (["show", "bild"], "did you mean 'build'?")],
)  # fmt: skip
def test_what_is_wrong_is_said(notes: Run, words: list[str], says: str) -> None:
    done = notes("memory", *words)

    assert done.status != 0
    assert says in done.err
