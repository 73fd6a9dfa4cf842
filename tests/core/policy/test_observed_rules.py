"""Rules in observation (ledger G-23)."""

from __future__ import annotations

from pegboard.core.effects import Effect
from pegboard.core.policy.policy import Policy, explain
from pegboard.core.policy.rules import Rule, Situation
from tests.ledger import owes

HERE = Situation(workspace="/w")


@owes("G-23")
def test_a_rule_in_observation_decides_nothing_and_tells_what_it_would_have() -> None:
    policy = Policy.of(
        ["deny write:gen/** observe=true", "allow write observe=true", "deny tool=x observe=true"]
    )

    decision = policy((Effect("write", "gen/a"), Effect("write", "src/a")), HERE)

    assert decision.verdict == "allow"
    assert decision.observed == ("write gen/a: allow -> deny by deny write:gen/** observe=true",)
    assert decision.to_dict()["observed"] == list(decision.observed)
    assert policy((), Situation(values={"tool": "x"})).verdict == "allow"


@owes("G-23", "G-08")
def test_explain_says_which_rules_are_only_observed() -> None:
    policy = Policy.of(["deny write observe=true"])

    tried = explain(policy, (Effect("write", "a"),), HERE)["effects"][0]["tried"]

    assert [t.get("observe") for t in tried if t["matches"]] == [True]


def test_observe_is_written_and_read_in_both_forms() -> None:
    line = Rule.parse("deny write:a observe=true")

    assert line.observe and Rule.parse(str(line)) == line
    assert Rule.from_mapping({"deny": "write:a", "observe": True}) == line


def test_a_condition_of_several_or_none_of_them() -> None:
    rule = Rule.parse("deny send sender=ann|bob channel=!mail")
    here = {"sender": "bob", "channel": "chat"}

    assert rule.applies(Situation(values=here))
    assert not rule.applies(Situation(values={**here, "channel": "mail"}))
    assert not rule.applies(Situation(values={**here, "sender": "eve"}))
