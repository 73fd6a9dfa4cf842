"""Patterns of settings files: what they mean in Python, in bounded time."""

from __future__ import annotations

import re
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.compat.bounded_regex import search
from pegboard.compat.rules import compile_rules
from pegboard.core.effects import Effect
from pegboard.core.errors import ConfigError
from pegboard.core.policy.rules import Situation
from pegboard.shell.guard.deny_patterns import NANOBOT, NANOBOT_NET, SAFETY_HOOK


def denies(pattern: str, command: str) -> bool:
    (rule,) = compile_rules("nanobot", {"deny_patterns": [pattern]}).rules
    return rule.covers(Effect(kind="exec", target=command, argv=tuple(command.split())), Situation())


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*$", r"(\w+\s?)*!$", "(?=a)((?=a)a+)+$", r"(a+)\1+$b", "(.*a){20}$b", r"^(([a-z])+.)+[A-Z]([a-z])+$"],
)  # fmt: skip
def test_a_hostile_pattern_is_answered_at_once_and_never_permits(pattern: str) -> None:
    started = time.process_time()

    search(pattern).within("a" * 40 + "!")
    (_, allow) = compile_rules("nanobot", {"deny_patterns": [], "allow_patterns": [pattern]}).rules
    permitted = allow.covers(Effect(kind="exec", target="a" * 4000 + " b", argv=("a",)), Situation())

    assert not permitted
    assert time.process_time() - started < 2.0


def test_where_a_pattern_gives_up_a_deny_holds() -> None:
    # Look-ahead keeps it off the linear engine; forty letters in all ways are 2^40 steps.
    assert search("(?=a)((?=a)a+)+$").within("a" * 40 + "!") is None
    assert denies("(?=a)((?=a)a+)+$", "a" * 40 + "!")


@given(st.text(st.sampled_from("rmfd -/;&|format:(){}sudo=>\tMK"), max_size=20))
def test_the_documents_patterns_mean_what_they_mean_in_python(text: str) -> None:
    for row in (*NANOBOT, *NANOBOT_NET, *SAFETY_HOOK):
        pattern = row.search.pattern
        assert search(pattern).within(text) is (row.search.search(text) is not None), pattern


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"curl(?!.*localhost)", "curl evil.example"),
        (r"curl(?!.*localhost)", "curl localhost"),
        (r"(['\"]).*\1", "echo 'x'"),
        (r"[a&&b]", "&"),
        (r"[!--]", "-"),
        (r"[[:alpha:]]", "a]"),
        (r"\<x\>", "<x>"),
        (r"x\Z", "x"),
        (r"(?P<word>git) push", "GIT push"),
        (r"(?i:rm)\s", "rm -rf"),
        (r"[]x]", "]"),
        (r"[^]x]", "y"),
    ],
)
def test_other_patterns_mean_what_they_mean_in_python(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        python = re.compile(pattern, re.IGNORECASE)

    assert search(pattern).within(text) is (python.search(text) is not None)
    assert search(pattern).whole(text) is (python.fullmatch(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "not a regular expression"),
        ("a*+b", "possessive"),
        ("x" * 3000, "2,000"),
        ("(x{1,900}){1,900}", "bounded time"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_the_key_and_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"deny_patterns: .*{why}"):
        compile_rules("nanobot", {"deny_patterns": [pattern]})
