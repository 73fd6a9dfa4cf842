"""Brackets of gitignore patterns, as wildmatch.c of git reads them."""

from __future__ import annotations

import re

import pytest

from pegboard.core.policy.patterns import wildmatch


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        # The tests of git itself: t/t3070-wildmatch.sh.
        ("[[:alpha:]][[:digit:]][[:upper:]]", ["a1B"], ["a1b", "11B"]),
        ("[[:digit:][:upper:][:space:]]", ["A", "1", " "], ["a", "."]),
        ("[[:digit:][:upper:][:spaci:]]", [], ["1", "A", "a"]),
        ("[[:xdigit:]]", ["5", "f", "D"], ["g"]),
        ("[a-c[:digit:]x-z]", ["5", "b", "y"], ["q"]),
        ("[[:alnum:][:punct:]]", ["a", "_"], [" "]),
        ("[[:]", [":", "["], ["a"]),
        ("[[:1:]", ["1", ":", "["], ["a"]),
        ("[z-a]", [], ["z", "a", "m", "-"]),
        ("[!z-a]", ["z", "q"], ["/"]),
        ("[]-]", ["]", "-"], ["a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[\\-]", ["-"], ["\\"]),
        ("[!a-c]", ["d"], ["a", "/"]),
    ],
)
def test_a_bracket_matches_what_git_says(pattern: str, matches: list[str], others: list[str]) -> None:
    form = re.compile(wildmatch(pattern, pathname=True))

    assert [c for c in [*matches, *others] if form.fullmatch(c)] == matches
