"""Globs: what they mean is what the regular expressions of git's wildmatch mean, in bounded time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.core.policy.patterns import exec_pattern_matches, glob, path_glob
from pegboard.core.policy.rules import path_regex

TEXT = st.text("ab/*?.[]!-\\\n", max_size=12)
PATH = st.text("ab/.\n-", max_size=14)


@given(TEXT, PATH)
def test_a_path_glob_means_what_its_regular_expression_means(pattern: str, path: str) -> None:
    try:
        expected = re.compile(path_regex(pattern), re.DOTALL)
    except re.error:
        with pytest.raises(re.error):
            path_glob(pattern)
        return

    assert path_glob(pattern)(path) is (expected.fullmatch(path) is not None)


@given(st.text("ab*?\n", max_size=10), st.text("ab\n", max_size=10))
def test_a_text_glob_means_what_its_regular_expression_means(pattern: str, text: str) -> None:
    written = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)

    assert glob(pattern)(text) is (re.fullmatch(written, text, re.DOTALL) is not None)


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("*.pem", "a/b/x.pem", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/*.py", "src/b.py", True),
        ("/etc/*", "/etc/ssh/key", True),
        ("a[!/]b", "a/b", False),
        ("build/", "x/build/y", True),
        ("**/a/**", "x/a", False),
        ("**/a/**", "x/a/y", True),
        (r"a\/b", "a/b", True),
    ],
)
def test_path_globs_known_from_gitignore(pattern: str, path: str, covered: bool) -> None:
    assert path_glob(pattern)(path) is covered


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [("*x*y*", "zxzyz", True), ("*x*y*", "zyzxz", False), ("a*b*a", "aba", True), ("a*a", "a", False)],
)
def test_what_stands_between_stars_comes_in_order(pattern: str, text: str, fits: bool) -> None:
    assert glob(pattern)(text) is fits


def test_no_pattern_and_no_text_take_more_than_a_moment() -> None:
    # Written as regular expressions, each of these takes years.
    started = time.process_time()

    assert not glob("*a" * 60 + "b")("a" * 4000)
    assert not path_glob("*a" * 60 + "b")("a" * 4000)
    assert not path_glob("**/a/" * 60 + "b")("a/" * 2000)
    assert not exec_pattern_matches("x " + "*a" * 60 + "b", ["x", "a" * 4000])
    assert not exec_pattern_matches("x " + "** a " * 60 + "b", ["x", *["a"] * 2000])

    assert time.process_time() - started < 2.0


def test_brackets_that_can_match_nothing_are_no_pattern() -> None:
    with pytest.raises(re.error, match="match nothing"):
        path_regex("[z-a]")
