"""A glob costs little to match, and means the same as it did."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.core.policy.patterns import wildmatch
from tests.ledger import owes

TOKENS = ["a", "b", "*", "*", "?", "**/", "/", "[ab]", "[!a]", "[.-0]", "/**/", "/**", ".", "**"]


def fits(pattern: str, path: str, *, pathname: bool) -> bool:
    """What a glob means, tried in every way: slow, and plainly right (wildmatch.c's rules)."""
    if not pattern:
        return not path
    if pathname and pattern.startswith("**/"):
        folders = [i + 1 for i, char in enumerate(path) if char == "/"]
        return any(_inside(pattern[3:], path[at:], pathname=pathname) for at in (0, *folders))
    if pathname and pattern == "**":
        return True
    return _inside(pattern, path, pathname=pathname)


def _inside(pattern: str, path: str, *, pathname: bool) -> bool:
    if not pattern:
        return not path
    if pathname and pattern.startswith("**/"):
        return fits(pattern, path, pathname=True)
    if pathname and pattern == "**":
        return True
    return _plain(pattern, path, pathname=pathname)


def _plain(pattern: str, path: str, *, pathname: bool) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "*":
        # Within a component several are as one, `a**` and `a**/` too.
        rest = pattern.lstrip("*")
        ends = [i for i in range(len(path) + 1) if not (pathname and "/" in path[:i])]
        return any(_plain(rest, path[i:], pathname=pathname) for i in ends)
    if not path:
        return False
    if pattern[0] == "[":
        close = pattern.index("]")
        one = {"[ab]": path[0] in "ab", "[!a]": path[0] != "a", "[.-0]": path[0] in "./0"}[
            pattern[: close + 1]
        ]
        return (
            one
            and not (pathname and path[0] == "/")
            and _plain(pattern[close + 1 :], path[1:], pathname=pathname)
        )
    if pattern[0] == "?":
        return not (pathname and path[0] == "/") and _plain(pattern[1:], path[1:], pathname=pathname)
    if pattern[0] != path[0]:
        return False
    # Behind a slash `**` is a whole component again.
    go_on = fits if pattern[0] == "/" else _plain
    return go_on(pattern[1:], path[1:], pathname=pathname)


@given(
    pattern=st.lists(st.sampled_from(TOKENS), min_size=1, max_size=8).map("".join),
    path=st.text(alphabet="aab/.0", max_size=9),
    pathname=st.booleans(),
)
def test_a_glob_matches_what_trying_every_way_matches(pattern: str, path: str, pathname: bool) -> None:
    compiled = re.compile(wildmatch(pattern, pathname=pathname, forgiving=True))

    assert bool(compiled.fullmatch(path)) == fits(pattern, path, pathname=pathname)


@owes("search-17")
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a*a*a*a*a*a*a*a*a*a*a*a*b", "a" * 200),
        ("*?*?*?*?*?*?*?*?*x", "a" * 200),
        ("*[ab]*[ab]*[ab]*[ab]*[ab]*[ab]*x", "ab" * 100),
        ("**/a/" * 12 + "b", "a/" * 100 + "c"),
        ("a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", "a/" * 100 + "c"),
        ("**/*a*a*a*a*a*a*b/**/*a*a*a*a*a*a*b", ("a" * 60 + "/") * 20),
    ],
)
def test_a_glob_made_to_backtrack_answers_at_once(pattern: str, path: str) -> None:
    compiled = re.compile(wildmatch(pattern, pathname=True))
    begun = time.process_time()

    assert compiled.fullmatch(path) is None
    assert time.process_time() - begun < 1


def test_expressions_of_the_same_glob_may_stand_in_one() -> None:
    one, two = (wildmatch("*a*b*", pathname=True) for _ in range(2))

    assert re.compile(f"(?:{one})|(?:{two})").fullmatch("xaybz")
