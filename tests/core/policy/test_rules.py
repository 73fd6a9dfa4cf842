"""Rules: read from a line or a table, and what they speak of."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import Effect, Policy, Rule
from pegboard.core.errors import ConfigError
from pegboard.core.hosts import host_matches
from pegboard.core.policy.rules import Situation, path_glob, path_matches
from tests.ledger import owes

HERE = Situation(workspace="/w/p", home="/h/ann")


def test_a_line_is_read_into_its_parts() -> None:
    rule = Rule.parse(
        "deny exec:git push ** tool=exec agent=a* unless=exec:git push origin,git push --dry-run "
        "tainted=true override=false reason=pushes are for people",
        source="project x",
    )

    assert (rule.verdict, rule.kind, rule.target) == ("deny", "exec", "git push **")
    assert rule.conditions == {"tool": "exec", "agent": "a*"}
    assert rule.unless == ("git push origin", "git push --dry-run")
    assert (rule.tainted, rule.override, rule.source) == (True, False, "project x")
    assert rule.reason == "pushes are for people"


@pytest.mark.parametrize(
    ("line", "kind", "target"),
    [
        ("ask tool=delete_*", "*", "*"),
        ("ask * tool=x", "*", "*"),
        ("allow read:", "read", "*"),
        ("allow read", "read", "*"),
        ("allow *:secret*", "*", "secret*"),
        ("  allow   write:docs/**  ", "write", "docs/**"),
    ],
)
def test_a_rule_may_name_only_a_tool_or_only_a_kind(line: str, kind: str, target: str) -> None:
    rule = Rule.parse(line)

    assert (rule.kind, rule.target) == (kind, target)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "write allow, ask or deny first"),
        ("permit read:x", "'permit'"),
        ("allow", "needs KIND:TARGET"),
        ("allow reason=because", "needs KIND:TARGET"),
        ("allow raed:x", "'raed' is not an effect kind"),
        ("allow read:x tainted=yes", "neither true nor false"),
        ("allow read:x override=1", "neither true nor false"),
        ("deny read:[z-a]", "cannot be read"),
        ("deny read:x unless=[z-a]", "cannot be read"),
    ],
)
def test_a_line_that_is_wrong_is_refused_with_what_is_wrong(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Rule.parse(line)

    assert said in str(caught.value)


def test_a_table_is_read_as_the_line_is() -> None:
    rule = Rule.from_mapping(
        {"deny": "exec:git push **", "unless": ["exec:git push origin"], "tool": "exec", "reason": "no"},
    )

    assert rule == Rule.parse("deny exec:git push ** tool=exec unless=exec:git push origin reason=no")
    assert Rule.from_mapping({"ask": "", "tool": "x", "unless": "a"}).unless == ("a",)
    assert Rule.from_mapping({"allow": "read:x", "tainted": False, "override": True}).override


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"deny": "read:x", "allow": "read:y"}, "exactly one"),
        ({}, "exactly one"),
        ({"deny": "read:x", "tol": "y"}, "unknown key 'tol'"),
        ({"deny": ""}, "needs KIND:TARGET"),
        ({"deny": "read:x", "tainted": "false"}, "tainted is 'false'"),
        ({"allow": "read:x", "override": "no"}, "override is 'no'"),
        ({"deny": "write:[b-a]"}, "cannot be read"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_what_is_wrong(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Rule.from_mapping(table)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "deny exec:git push ** tool=exec",
        "ask tool=x tainted=false",
        "allow read:/etc/** unless=/etc/shadow,/etc/gshadow override=true",
    ],
)
def test_a_rule_is_told_as_the_line_that_makes_it(line: str) -> None:
    told = str(Rule.parse(line))

    assert Rule.parse(told) == Rule.parse(line)


def covers(line: str, effect: Effect, here: Situation = HERE) -> bool:
    rule = Rule.parse(line)
    return rule.covers(effect, here) and rule.applies(here)


# The expected column is gitignore(5): a pattern with a slash is anchored, one without matches at any
# depth, `*` and `?` stop at `/`, `**` does not, and what covers a folder covers all below it.
@owes("perm-10")
@pytest.mark.parametrize(
    ("pattern", "target", "expected"),
    [
        ("src", "src", True),
        ("src", "src/a/b.py", True),
        ("src", "lib/src/a.py", True),
        ("src", "srcs", False),
        ("src/", "src/a", True),
        ("docs/a", "docs/a", True),
        ("docs/a", "x/docs/a", False),
        ("docs/*", "docs/a/b", True),
        ("*.py", "a/b/c.py", True),
        ("*.py", "a.pyc", False),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/x/y/c", True),
        ("a/**", "a/x/y", True),
        ("a/**", "ab/x", False),
        ("?.md", "a.md", True),
        ("?.md", "ab.md", False),
        ("[ab].md", "b.md", True),
        ("[!ab].md", "b.md", False),
        ("[^ab].md", "c.md", True),
        ("[a-c].md", "b.md", True),
        ("[&&~|].md", "~.md", True),
        ("[a\\].md", "\\.md", True),
        ("a[b", "a[b", True),
        ("\\*.md", "*.md", True),
        ("\\*.md", "a.md", False),
        ("a\\", "a\\", True),
        ("**", "anything/at/all", True),
        ("**", "/etc/passwd", False),
        ("*", "/etc/passwd", True),
        ("/etc/passwd", "/etc/passwd", True),
        ("/etc", "/etc/ssh/key", True),
        ("/etc", "/etcetera", False),
        ("/w/p/src", "src/a", True),
        ("/w/p", ".", True),
        ("/w/p/x", ".", False),
        ("~", "/h/ann", True),
        ("~/.ssh", "/h/ann/.ssh/id", True),
        ("~/.ssh", "/h/bob/.ssh/id", False),
        ("~x", "~x", True),
        ("*.pem", "/other/key.pem", True),
        ("**/.ssh/**", "/h/bob/.ssh/id", True),
        ("docs/a", "/docs/a", False),
        ("a\nb", "a\nb", True),
    ],
)
def test_path_targets_match_as_gitignore_does(pattern: str, target: str, expected: bool) -> None:
    assert covers(f"deny read:{pattern}", Effect("read", target)) is expected


def test_a_home_pattern_speaks_of_nothing_where_no_home_is_known_and_of_the_workspace_inside_it() -> None:
    assert not path_matches("~/.ssh", "/h/ann/.ssh", Situation(workspace="/w"))
    assert path_matches("~/p/x", "x", Situation(workspace="/h/ann/p", home="/h/ann/"))


def test_an_absolute_pattern_without_a_workspace_speaks_of_absolute_targets_only() -> None:
    assert not path_matches("/w/a", "a", Situation())
    assert path_matches("/w/a", "/w/a", Situation())


def test_the_root_folder_covers_everything_absolute() -> None:
    assert path_glob("/")("/")


def test_what_unless_names_is_left_out() -> None:
    line = "deny write:src/** unless=src/gen/**,write:src/tmp"

    assert covers(line, Effect("write", "src/a.py"))
    assert not covers(line, Effect("write", "src/gen/a.py"))
    assert not covers(line, Effect("write", "src/tmp/x"))
    assert not covers(line, Effect("read", "src/a.py"))


@pytest.mark.parametrize(
    ("pattern", "target", "expected"),
    [
        ("example.com", "example.com", True),
        ("example.com", "EXAMPLE.com.", True),
        ("example.com", "example.com.:443", True),
        ("example.com", "example.com:8443", False),
        ("example.com", "notexample.com", False),
        ("example.com", "a.example.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", ".example.com", False),
        ("*.example.com", "evilexample.com", False),
        ("*.pkg.example", "notpkg.example", False),
        ("example.com:443", "example.com:443", True),
        ("example.com:443", "example.com:80", False),
        ("example.com:*", "example.com:80", True),
        ("*", "anything", True),
        ("**", "anything:1", True),
        ("[::1]:80", "[::1]:80", True),
        ("::1", "[::1]:80", True),
        ("::1", "::1", True),
        ("::1", "::2", False),
    ],
)
def test_hosts_match_whole_labels(pattern: str, target: str, expected: bool) -> None:
    assert host_matches(pattern, target) is expected


@pytest.mark.parametrize(
    ("line", "target", "expected"),
    [
        ("allow connect:example.com", "example.com", True),
        ("allow connect:example.com", "example.com:80", True),
        ("allow connect:example.com", "example.com:443", True),
        ("allow connect:example.com", "example.com:22", False),
        ("allow connect:*.example.com", "a.example.com:22", False),
        ("allow connect:example.com:22", "example.com:22", True),
        ("allow connect:example.com:22", "example.com", False),
        ("allow connect:example.com:*", "example.com:22", True),
        ("allow connect:*", "example.com:22", True),
        ("allow connect:* unless=connect:example.com", "example.com:22", False),
        ("allow connect:example.com", "example.com:*", False),
        ("deny connect:example.com", "example.com:22", True),
        ("ask connect:example.com", "example.com:22", True),
        ("deny connect:example.com:443", "example.com", True),
        ("deny connect:example.com:22", "example.com", False),
        ("deny connect:* unless=connect:example.com", "example.com:22", True),
        ("deny connect:* unless=connect:example.com", "example.com:443", False),
        ("allow connect:b\u00fccher.example", "xn--bcher-kva.example", True),
    ],
)
def test_a_rule_that_permits_a_host_means_the_web_s_ports_and_one_that_forbids_it_every_port(
    line: str, target: str, expected: bool
) -> None:
    assert covers(line, Effect("connect", target)) is expected
    assert (Policy.of([line])((Effect("connect", target),), HERE).verdict == line.split()[0]) is expected


@owes("perm-09")
@pytest.mark.parametrize(
    ("pattern", "argv", "expected"),
    [
        ("git diff *", ("git", "diff", "HEAD"), True),
        ("git diff *", ("git", "diff-index", "HEAD"), False),
        ("npm run test", ("npm", "run", "test:deploy"), False),
        ("git push **", ("git", "push"), True),
        ("*", None, True),
        ("**", None, True),
        ("git **", None, False),
    ],
)
def test_exec_patterns_match_tokens_and_what_was_not_analysed_is_matched_by_everything_only(
    pattern: str, argv: tuple[str, ...] | None, expected: bool
) -> None:
    assert covers(f"allow exec:{pattern}", Effect("exec", "x", argv)) is expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("allow exec:man **", False),
        ("allow exec:*", False),
        ("allow exec:man -P ./x *", True),
        ("allow exec:* override=true", True),
        ("allow *", True),
        ("ask exec:man **", True),
        ("deny exec:man **", True),
        ("deny exec:* unless=exec:man **", True),
        ("deny exec:* unless=exec:man -P ./x *", False),
    ],
)
def test_a_rule_that_allows_covers_what_decides_another_program_only_where_it_spells_it(
    rule: str, expected: bool
) -> None:
    effect = Effect("exec", "x", ("man", "-P", "./x", "ls"), at_least="ask", decisive=("./x",))

    assert covers(rule, effect) is expected


def test_a_program_in_any_folder_is_spelt_by_its_name() -> None:
    effect = Effect("exec", "x", ("/usr/bin/gdb", "-x", "y"), at_least="ask", decisive=("/usr/bin/gdb",))

    assert covers("allow exec:gdb **", effect)


def test_what_denials_of_other_kinds_leave_out_is_as_it_was() -> None:
    assert not covers("deny read:** unless=src", Effect("read", "src/a"))


def test_other_targets_match_whole_texts_with_stars() -> None:
    assert covers("allow send:slack:*", Effect("send", "slack:general"))
    assert not covers("allow send:slack:gen", Effect("send", "slack:general"))
    assert covers("allow call:git?ub/*", Effect("call", "github/issues"))
    assert covers("allow connect:*.example.com", Effect("connect", "a.example.com"))


def test_all_conditions_must_hold() -> None:
    here = Situation(values={"tool": "send", "agent": "main", "channel": "slack"}, tainted=True)
    rule = Rule.parse("deny send tool=s* channel=slack tainted=true")

    assert rule.applies(here)
    assert not Rule.parse("deny send tool=s* channel=matrix").applies(here)
    assert not Rule.parse("deny send tainted=false").applies(here)
    assert not Rule.parse("deny send sender=ann").applies(here)
    assert Rule.parse("deny send sender=*").applies(here)
