"""Markdown on a terminal: whole blocks are printed, words wrapped, and nothing of the text is lost or acts on the terminal."""

from __future__ import annotations

import random

import pytest

from pegboard.cli.markdown import MarkdownStream, render, split_whole

TEXT = """# Title

Some **bold** text with `code` and a [link](https://example.com/x) that goes on.

- one
- two
  continued

| a | b |
|---|---|
| 1 | 2 |

```python
def f(x):

    return x
```

1. first
2. second

Last <div>words</div>."""


def printed(pieces: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    stream = MarkdownStream(lambda: None)
    for piece in pieces:
        stream.feed(piece)
    stream.end()
    return capsys.readouterr().out


@pytest.mark.parametrize("seed", range(8))
def test_text_in_any_pieces_is_printed_as_the_whole_is(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(TEXT)), 40))
    pieces = [TEXT[a:b] for a, b in zip([0, *cuts], [*cuts, len(TEXT)], strict=True)]

    in_pieces = [line for line in printed(pieces, capsys).splitlines() if line.strip()]

    assert in_pieces == [line for line in render(TEXT).splitlines() if line.strip()]


def test_a_block_is_printed_as_soon_as_the_next_one_begins_and_the_last_one_is_shown_as_it_grows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = MarkdownStream(lambda: None)

    stream.feed("First *paragraph*.\n\nSecond one\nis ")

    assert capsys.readouterr().out == "First paragraph.\n"
    assert stream.tail(10) == "Second one is"
    stream.end()
    assert capsys.readouterr().out == "\nSecond one is\n"
    assert stream.tail(10) == ""


def test_words_are_wrapped_whole_at_the_width() -> None:
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu " * 3

    lines = render(words, width=40).splitlines()

    assert max(map(len, lines)) <= 40
    assert " ".join(lines).split() == words.split()


def test_what_looks_like_html_stays_and_control_sequences_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = printed(["Read <stdin> and\x1b[2Jgo\x07 on \u202ehere."], capsys)

    assert out == "Read <stdin> and\\x1b[2Jgo\\x07 on \\u202ehere.\n"


def test_a_secret_that_came_in_pieces_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    stream = MarkdownStream(lambda: None, redact=lambda text: (text.replace("hunter2", "…"), True))

    for piece in ("The word is hun", "ter2", ".\n\nNext"):
        stream.feed(piece)
        assert "hunter2" not in stream.tail(5)
    stream.end()

    assert capsys.readouterr().out == "The word is ….\n\nNext\n"


def test_a_long_block_of_code_is_printed_in_parts_that_are_the_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [f"line {n}" for n in range(200)]
    code = "```text\n" + "\n".join(lines) + "\n```\n"

    stream = MarkdownStream(lambda: None)
    for at in range(0, len(code), 7):
        stream.feed(code[at : at + 7])
    before_end = capsys.readouterr().out
    stream.end()

    assert "line 100" in before_end
    assert (before_end + capsys.readouterr().out).split("\n") == [f"  {line}" for line in lines] + [""]


def test_an_open_list_and_an_open_table_wait_for_their_end() -> None:
    assert split_whole("Intro\n\n- one\n- two\n") == ("Intro\n\n", "- one\n- two\n", False)
    assert split_whole("| a |\n|---|\n| 1 |\n") == ("", "| a |\n|---|\n| 1 |\n", False)
