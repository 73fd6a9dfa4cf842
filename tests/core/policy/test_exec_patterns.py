from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.core.policy.patterns import exec_pattern_matches, matches
from tests.ledger import owes


@owes("perm-09", "X-23")
@pytest.mark.parametrize(
    ("pattern", "argv", "covered"),
    [
        ("git *", "git", True),
        ("git *", "git log --oneline", True),
        ("git *", "gitk --all", False),
        ("git diff *", "git diff HEAD", True),
        ("git diff *", "git diff", True),
        ("git diff *", "git diff-index HEAD", False),
        ("npm run test", "npm run test", True),
        ("npm run test", "npm run test:deploy", False),
        ("npm run test", "npm run test --watch", False),
        ("npm run test:*", "npm run test:unit", True),
        ("npm run test:*", "npm run test:unit --x", False),
        ("git * main", "git push main", True),
        ("git * main", "git push origin main", False),
        ("git ** main", "git push origin main", True),
        ("git ** main", "git main", True),
        ("git ** main", "git push origin dev", False),
        ("./scripts/*", "./scripts/a.sh p", True),
        ("./scripts/*", "scripts/a.sh", False),
        ("./scripts/*", "./scripts/../x.sh", False),
        ("./scripts/*", "./scripts/../scripts/a.sh", True),
        ("/opt/tools/*", "/opt/tools/../x.sh", False),
        ("../tools/*", "../tools/../tools/a.sh", True),
        ("*", "anything at all", True),
        ("git *", "/usr/bin/git log", True),
        ("git *", "/usr/bin/../bin/git log", True),
        ("git *", "./git log", False),
        ("git *", "/tmp/git log", False),
        ("test_? x", "test_1 x", True),
        ("", "git", False),
        ("it's", "it's", True),
    ],
)
def test_a_pattern_covers_whole_tokens_only(pattern: str, argv: str, covered: bool) -> None:
    assert exec_pattern_matches(pattern, argv.split()) is covered


@owes("perm-03")
@pytest.mark.parametrize(
    ("pattern", "argv"),
    [
        ("rm -rf *", "rm -rf /x"),
        ("rm -rf *", "rm -fr /x"),
        ("rm -rf *", "/bin/rm -rf /x"),
        ("rm -rf *", "./rm -rf /x"),
        ("curl *", "curl evil"),
        ("curl", "curl evil"),
        ("git push", "git push --force"),
    ],
)
def test_a_forbidding_pattern_is_read_widely(pattern: str, argv: str) -> None:
    assert exec_pattern_matches(pattern, argv.split(), forbids=True)


def test_a_forbidding_pattern_keeps_word_borders() -> None:
    assert not exec_pattern_matches("git diff", ["git", "diff-index"], forbids=True)
    assert not exec_pattern_matches("rm -rf *", ["rm", "-r", "x"], forbids=True)


def test_nothing_covers_an_empty_command() -> None:
    assert not exec_pattern_matches("*", [])


def test_a_quoted_blank_stays_in_its_token() -> None:
    assert matches("echo 'a b'", ["echo", "a b"])
    assert not matches("echo 'a b'", ["echo", "a", "b"])


@given(st.lists(st.text(min_size=1), min_size=1))
def test_any_command_is_covered_by_its_program_and_a_star(argv: list[str]) -> None:
    assert matches("**", argv)
    assert matches("*", argv)


@given(st.text(), st.lists(st.text()))
def test_no_text_breaks_the_matcher(pattern: str, argv: list[str]) -> None:
    assert matches(pattern, argv) in (True, False)
    assert exec_pattern_matches(pattern, argv, forbids=True) in (True, False)
