"""A long text becomes parts that a channel takes, and nothing of it is lost or broken."""

from __future__ import annotations

import html
import re
from random import Random

import pytest

from pegboard.bus.split import split
from pegboard.ports.channel import utf16_length
from tests.ledger import owes


def escaped_length(text: str) -> int:
    return len(html.escape(text, quote=False))


def squeezed(text: str) -> str:
    """What is left without the lines of fences and without whitespace."""
    lines = [line for line in text.split("\n") if not re.match(r" {0,3}(`{3}|~{3})", line)]
    return re.sub(r"\s", "", "".join(lines))


PIECES = ("a", "bb", " ", "  ", "<", "&", "é", "e\u0301", "😀", "👩‍👩‍👧", "🇩🇪", "word ", "longerword")
LINES = ("```python", "```", "~~~", "    indented", "", "one two three four", "````", "``` x")
LENGTHS = (len, utf16_length, escaped_length)


def some_text(random: Random) -> str:
    def line() -> str:
        if random.random() < 0.4:
            return random.choice(LINES)
        return "".join(random.choices(PIECES, k=random.randint(0, 60)))

    return "\n".join(line() for _ in range(random.randint(1, 30)))


@pytest.mark.parametrize("seed", range(300))
def test_no_part_is_too_long_and_nothing_is_lost(seed: int) -> None:
    random = Random(seed)
    text, limit, length = some_text(random), random.randint(40, 200), random.choice(LENGTHS)

    parts = split(text, limit, length=length)

    assert all(length(part) <= limit for part in parts)
    assert all(part.strip() for part in parts)
    assert squeezed("\n".join(parts)) == squeezed(text)


@pytest.mark.parametrize("seed", range(100))
def test_no_character_is_cut(seed: int) -> None:
    random = Random(seed)
    characters = random.choices([p for p in PIECES if p.strip() and p[0] not in "<&wlb"], k=200)

    parts = split("".join(characters), 60, length=utf16_length)

    whole: list[str] = []
    for part in parts:
        taken = 0
        while taken < len(part):
            one = characters[len(whole)]
            assert part.startswith(one, taken), f"{one!r} was cut"
            whole.append(one)
            taken += len(one)
    assert whole == characters


@owes("msg-02")
def test_code_that_is_cut_is_closed_and_opened_again_with_its_language() -> None:
    code = [f"value_{n} = compute({n})" for n in range(40)]
    text = "\n".join(["intro", "```python", *code, "```", "outro"])

    parts = split(text, 500)

    assert len(parts) == 2
    assert all(part.count("```") % 2 == 0 and len(part) <= 500 for part in parts)
    assert [part.startswith("```python\n") for part in parts] == [False, True]
    assert [line for part in parts for line in part.splitlines() if line.startswith("value")] == code
    assert parts[-1].endswith("```\noutro")


@owes("msg-04")
def test_the_limit_is_one_of_the_text_as_it_is_sent() -> None:
    parts = split("<&" * 4000, 4096, length=escaped_length)

    # `&lt;&amp;` are nine characters for two: 72,000 in all, of which at least 4,092 fit into each part.
    assert "".join(parts) == "<&" * 4000
    assert len(parts) == 9 * 4000 // 4096 + 1
    assert all(len(html.escape(part)) <= 4096 for part in parts)


@owes("msg-06")
def test_a_limit_in_utf_16_units_is_kept() -> None:
    parts = split("😀" * 3000, 4096, length=utf16_length)

    assert [len(part.encode("utf-16-le")) // 2 for part in parts] == [4096, 1904]


def test_words_are_kept_whole_and_code_keeps_its_blanks() -> None:
    assert split("one two three four five", 10) == ["one two", "three four", "five"]
    assert split("```\n" + "x " * 20 + "\n```", 24) == ["```\n" + "x " * 8 + "\n```"] * 2 + [
        "```\n" + "x " * 4 + "\n```"
    ]


@pytest.mark.parametrize("text", ["", "  \n ", "\n\n"])
def test_nothing_gives_no_part(text: str) -> None:
    assert split(text, 10) == []
