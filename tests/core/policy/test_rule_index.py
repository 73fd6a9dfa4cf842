"""The index of rules answers as trying every rule does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.core.effects import Effect
from pegboard.core.policy.rule_index import RuleIndex
from pegboard.core.policy.rules import Rule, Situation
from tests.ledger import owes

PARTS = [
    "a",
    "b",
    "src",
    ".env",
    "x.pem",
    "~",
    "*",
    "**",
    "*.pem",
    "?.pem",
    "a*",
    "[ab]",
    "\\a",
    "",
    ".",
    ".pem",
]
PLACES = ["a", "b", "src", ".env", "x.pem", "~", "home", "me", "w", ".pem", "~a"]
HERE = Situation(
    values={"tool": "exec", "agent": "main", "sender": "ann"}, workspace="/home/me/w", home="/home/me"
)
WORDS = ["git", "/usr/bin/git", "./git", "rm", "-rf", "-fr", "*", "**", "'a b'", "push", "g?t"]
HOSTS = [
    "example.com",
    "*.example.com",
    "a.example.com",
    "*",
    "example.com:80",
    "*.com:*",
    "[::1]:80",
    "EXAMPLE.com.",
    "?.com",
]


def scan(rules: list[Rule], effect: Effect, here: Situation) -> tuple[Rule | None, Rule | None, Rule | None]:
    """The definition: try every rule in order."""
    hits = [r for r in rules if r.covers(effect, here) and r.applies(here)]
    return (
        next((r for r in hits if r.verdict == "deny"), None),
        next((r for r in hits if r.verdict != "deny" and not r.override), None),
        next((r for r in hits if r.override and r.verdict == "allow" and r.source.startswith("user")), None),
    )


def path_patterns() -> st.SearchStrategy[str]:
    body = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/".join)
    return st.tuples(
        st.sampled_from(["", "", "/", "~/", "//", "/home/me/"]), body, st.sampled_from(["", "/"])
    ).map("".join)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    kind = draw(st.sampled_from(["read", "write", "exec", "connect", "send", "*"]))
    target = draw(
        {
            "exec": st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
            "connect": st.sampled_from(HOSTS),
            "send": st.sampled_from(["mail:bob", "mail:*", "*", "chat:?"]),
        }.get(kind, path_patterns())
    )
    conditions = draw(
        st.sampled_from(
            [
                {},
                {"tool": "exec"},
                {"tool": "ex*"},
                {"sender": "bob"},
                {"sender": "ann|bob"},
                {"sender": "!bob"},
                {"tool": "!ex*|read"},
                {"agent": "main", "sender": ""},
            ]
        )
    )
    return Rule(
        verdict=draw(st.sampled_from(["allow", "ask", "deny"])), kind=kind, target=target or "*", conditions=conditions,  # pyright: ignore[reportArgumentType]
        override=draw(st.booleans()), source=draw(st.sampled_from(["user", "project"])),
        tainted=draw(st.sampled_from([None, None, True])),
    )  # fmt: skip


def effects() -> st.SearchStrategy[Effect]:
    path = st.tuples(
        st.sampled_from(["", "", "/", "/home/me/", "/home/me/w/"]),
        st.lists(st.sampled_from(PLACES), min_size=1, max_size=4).map("/".join),
    ).map("".join)
    argv = st.lists(
        st.sampled_from(["git", "/usr/bin/git", "./git", "/x/git", "rm", "-rf", "a b", "push", ""]),
        max_size=3,
    ).map(tuple)
    host = st.sampled_from(
        ["example.com", "a.example.com:443", "notexample.com", "[::1]:80", "example.com.", "x.com:80", "com"]
    )
    return st.one_of(
        st.builds(Effect, st.sampled_from(["read", "write", "delete"]), st.one_of(path, st.just("."))),
        st.builds(Effect, st.just("exec"), st.just("text"), st.one_of(argv, st.none())),
        st.builds(Effect, st.just("connect"), host),
        st.builds(Effect, st.just("send"), st.sampled_from(["mail:bob", "chat:x"])),
    )  # fmt: skip


@owes("K-20", "X-22")
@settings(max_examples=400, deadline=None)
@given(
    st.lists(rules(), max_size=12), effects(),
    st.sampled_from([HERE, Situation(), Situation(workspace="/w", home="/"), Situation(values={"sender": "bob"}, tainted=True)]),
)  # fmt: skip
@pytest.mark.slow
def test_the_index_answers_as_trying_every_rule_does(
    listed: list[Rule], effect: Effect, here: Situation
) -> None:
    assert RuleIndex(listed).find(effect, here) == scan(listed, effect, here)


PROGRAMS = ["git", "/usr/bin/git", "rm", "-rf", "a b", ""]
COMMANDS = [(), *((a,) for a in PROGRAMS), *((a, b) for a in PROGRAMS for b in ("push", "-rf", ""))]


@owes("K-20")
@pytest.mark.parametrize("first", ["git", "/usr/bin/git", "g?t", "[gr]*", "*", "**", "-rf", "'a b'", "rm"])
@pytest.mark.parametrize("rest", ["", " *", " **", " push", " -fr"])
def test_a_rule_alone_is_found_for_every_command_that_it_covers(first: str, rest: str) -> None:
    rule = Rule(verdict="deny", kind="exec", target=first + rest)
    commands = [Effect("exec", "text", argv) for argv in COMMANDS]

    found = [RuleIndex([rule]).find(effect, HERE) for effect in commands]

    assert found == [scan([rule], effect, HERE) for effect in commands]


@owes("K-20")
@pytest.mark.parametrize("target", HOSTS)
def test_a_rule_alone_is_found_for_every_host_that_it_covers(target: str) -> None:
    rule = Rule(verdict="deny", kind="connect", target=target)
    labels_of_result = [
        "example.com",
        "a.example.com:443",
        "notexample.com",
        "[::1]:80",
        "example.com.",
        ".example.com",
        "com",
    ]

    for effect in [Effect("connect", host) for host in labels_of_result]:
        assert RuleIndex([rule]).find(effect, HERE) == scan([rule], effect, HERE)


def test_a_rule_with_a_literal_key_is_not_tried_for_others() -> None:
    tried: list[str] = []

    class Seen(Rule):
        def covers(self, effect: Effect, situation: Situation) -> bool:
            tried.append(self.target)
            return super().covers(effect, situation)

    lines = [
        ("exec", "git *"),
        ("exec", "npm *"),
        ("read", "src/a"),
        ("connect", "*.example.com"),
        ("write", "*.pem"),
    ]
    index = RuleIndex([Seen(verdict="deny", kind=k, target=t) for k, t in lines])  # pyright: ignore[reportArgumentType]

    index.find(Effect("exec", "npm test", ("npm", "test")), HERE)
    index.find(Effect("read", "src/a/b"), HERE)
    index.find(Effect("connect", "deep.a.example.com"), HERE)
    index.find(Effect("write", "keys/x.pem"), HERE)

    assert tried == ["npm *", "src/a", "*.example.com", "*.pem"]


def test_a_rule_for_several_or_all_but_one_is_found() -> None:
    send = Effect("send", "mail:x")
    for condition, senders in (("ann|bob", {"ann", "bob"}), ("!ann", {"bob", "eve"}), ("ann", {"ann"})):
        index = RuleIndex(
            [Rule(verdict="deny", kind="send", target="mail:*", conditions={"sender": condition})]
        )

        hit = {s for s in ("ann", "bob", "eve") if index.find(send, Situation(values={"sender": s}))[0]}

        assert hit == senders


def test_once_a_deny_an_answer_and_an_override_are_found_the_rest_is_not_tried() -> None:
    rules = [
        Rule(verdict="deny"),
        Rule(verdict="ask"),
        Rule(verdict="allow", override=True),
        Rule(verdict="deny"),
    ]

    assert RuleIndex(rules).find(Effect("send", "x"), HERE) == tuple(rules[:3])
