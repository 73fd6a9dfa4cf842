"""The order of decision (decisions 2), the modes, and what explains them."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import PURE, Effect, Executor, Policy, Rule, tool
from pegboard.core.errors import ConfigError
from pegboard.core.policy.policy import SHIPPED, explain
from pegboard.core.policy.rules import Situation
from tests.ledger import owes

HERE = Situation(values={"tool": "t", "agent": "main"}, workspace="/w")
READ, WRITE, OUT = Effect("read", "a"), Effect("write", "a"), Effect("write", "/etc/a")
LS = Effect("exec", "ls", ("ls",), read_only=True)
MAKE = Effect("exec", "make", ("make",))
BLIND = Effect("exec", "$(x)")


class Granted:
    """Grants everything."""

    def find_for_sender(self, effect: Effect, situation: Situation) -> str | None:
        return None

    def find(self, tool: str, effect: Effect, situation: Situation) -> str | None:
        return "g1"


def verdict(policy: Policy, *effects: Effect, level: Any = "auto") -> str:
    return policy(effects, HERE, level).verdict


@owes("perm-04")
@pytest.mark.parametrize(
    ("effect", "read_only", "ask", "workspace", "full"),
    [
        (READ, "allow", "allow", "allow", "allow"),
        (Effect("read", "/etc/a"), "ask", "ask", "ask", "allow"),
        (WRITE, "deny", "ask", "allow", "allow"),
        (OUT, "deny", "ask", "ask", "allow"),
        (Effect("write", ".git/refs/heads/main"), "deny", "ask", "ask", "allow"),
        (Effect("write", "sub/.git/HEAD", at_least="allow"), "deny", "ask", "ask", "allow"),
        (Effect("write", "src/a.git"), "deny", "ask", "allow", "allow"),
        (Effect("delete", "a"), "deny", "ask", "ask", "allow"),
        (LS, "allow", "ask", "allow", "allow"),
        (MAKE, "deny", "ask", "allow", "allow"),
        (BLIND, "deny", "ask", "ask", "allow"),
        (Effect("exec", "x", ("x",), at_least="ask"), "deny", "ask", "ask", "allow"),
        (Effect("exec", "x", ("x",), at_least="deny"), "deny", "deny", "deny", "deny"),
        (Effect("delete", "a", at_least="allow"), "deny", "ask", "allow", "allow"),
        (Effect("connect", "a.example"), "ask", "ask", "ask", "allow"),
        (Effect("send", "slack:1"), "deny", "ask", "ask", "allow"),
        (Effect("schedule", "j"), "deny", "ask", "ask", "allow"),
        (Effect("control", "lamp"), "deny", "ask", "ask", "allow"),
        (Effect("call", "s/t"), "ask", "ask", "ask", "allow"),
    ],
)
def test_the_defaults_and_the_ceiling_of_every_mode(
    effect: Effect, read_only: str, ask: str, workspace: str, full: str
) -> None:
    got = [verdict(Policy.of(mode=m), effect) for m in ("read-only", "ask", "workspace", "full")]

    assert got == [read_only, ask, workspace, full]


def test_nothing_lifts_the_ceiling() -> None:
    policy = Policy(mode="read-only", rules=(Rule.parse("allow write:* override=true"),), grants=Granted())

    decision = policy((WRITE,), HERE)

    assert (decision.verdict, decision.rule) == ("deny", "mode read-only (ceiling)")


def test_a_deny_wins_over_grants_and_earlier_allows() -> None:
    policy = Policy(
        rules=(Rule.parse("allow write:a"), Rule.parse("deny write:a reason=no")), grants=Granted()
    )

    decision = policy((WRITE,), HERE)

    assert (decision.verdict, decision.rule, decision.reason) == ("deny", "deny write:a", "no")


@owes("X-25")
def test_only_the_users_own_override_lifts_a_deny_and_it_says_so() -> None:
    deny = Rule.parse("deny write:a")
    mine = Rule.parse("allow write:a override=true", source="user pegboard.toml rules[0]")
    theirs = Rule.parse("allow write:a override=true", source="project pegboard.toml rules[0]")
    asks = Rule.parse("ask write:a override=true")

    lifted = Policy(rules=(deny, mine))((WRITE,), HERE)
    assert (lifted.verdict, lifted.rule) == ("allow", "allow write:a override=true")
    assert "overridden" in lifted.reason
    assert verdict(Policy(rules=(deny, theirs)), WRITE) == "deny"
    assert verdict(Policy(rules=(deny, asks)), WRITE) == "deny"
    assert verdict(Policy(rules=(mine,)), Effect("write", "a", at_least="deny")) == "allow"


def test_an_override_lifts_the_deny_of_a_tool_without_effects_too() -> None:
    rules = [Rule.parse("deny tool=t"), Rule.parse("allow tool=t override=true")]

    assert Policy.of(rules)((), HERE).verdict == "allow"
    assert Policy.of(rules[:1])((), HERE).verdict == "deny"
    assert Policy.of(rules[1:])((), HERE).verdict == "allow"


def test_a_grant_wins_over_an_ask_and_is_named() -> None:
    policy = Policy(rules=(Rule.parse("ask write:*"),), grants=Granted())

    decision = policy((WRITE, OUT), HERE)

    assert decision.verdict == "allow"
    assert decision.grants == ("g1",)


def test_the_first_matching_allow_or_ask_decides() -> None:
    assert verdict(Policy.of(["allow write:/etc/*", "ask write:*"]), OUT) == "allow"
    assert verdict(Policy.of(["ask write:*", "allow write:/etc/*"]), OUT) == "ask"


def test_the_tools_level_and_the_modes_default_the_stricter() -> None:
    assert verdict(Policy.of(), READ, level="confirm") == "ask"
    assert verdict(Policy.of(), OUT, level="confirm") == "ask"
    assert verdict(Policy.of(), READ, level="deny") == "deny"
    assert verdict(Policy.of(mode="full"), WRITE, level="confirm") == "ask"
    assert verdict(Policy.of(["allow read:a"]), READ, level="confirm") == "allow"


def test_a_call_gets_its_strictest_effects_answer() -> None:
    policy = Policy.of(["deny connect:evil.example reason=bad"])

    decision = policy((READ, OUT, Effect("connect", "evil.example")), HERE)

    assert decision.verdict == "deny"
    assert [e.verdict for e in decision.effects] == ["allow", "ask", "deny"]
    assert policy((READ, OUT), HERE).verdict == "ask"


def test_a_call_without_effects_is_decided_by_rules_that_name_no_kind_and_by_its_level() -> None:
    assert Policy.of()((), HERE).verdict == "allow"
    assert Policy.of()((), HERE, "confirm").verdict == "ask"
    assert Policy.of(["ask tool=t reason=look"])((), HERE).reason == "look"
    assert Policy.of(["ask tool=other"])((), HERE).verdict == "allow"
    assert Policy.of(["deny read:*"])((), HERE).verdict == "allow"


@owes("G-07")
def test_without_a_sandbox_every_command_asks_except_in_full() -> None:
    assert verdict(Policy.of(sandboxed=False), LS) == "ask"
    assert verdict(Policy.of(sandboxed=False, mode="full"), LS) == "allow"


def test_the_shipped_rules_protect_what_runs_by_itself() -> None:
    assert verdict(Policy.of(mode="full"), Effect("write", ".git/hooks/pre-commit")) == "ask"
    assert verdict(Policy.of(mode="full"), Effect("write", "pegboard.toml")) == "deny"
    assert verdict(Policy.of(mode="full"), Effect("delete", "sub/.pegboard/x")) == "deny"
    assert verdict(Policy.of(mode="full"), Effect("write", ".envrc")) == "ask"
    assert verdict(Policy(mode="full", shipped=False), Effect("write", "pegboard.toml")) == "allow"


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="yolo"):
        Policy.of(mode="yolo")


def test_the_revision_changes_with_mode_rules_and_sandbox() -> None:
    one = {
        Policy.of().revision,
        Policy.of(mode="ask").revision,
        Policy.of(["ask read:*"]).revision,
        Policy.of(sandboxed=False).revision,
    }

    assert len(one) == 4
    assert Policy.of().revision == Policy.of().revision


def test_answers_are_remembered_by_everything_that_rules_look_at() -> None:
    policy = Policy.of(["deny read:a agent=x", "deny read:b tainted=true", "deny read:~/k"])

    assert policy((READ,), Situation(values={"tool": "x"})).verdict == "allow"
    assert policy((READ,), Situation(values={"agent": "x"})).verdict == "deny"
    assert policy((Effect("read", "b"),), Situation()).verdict == "allow"
    assert policy((Effect("read", "b"),), Situation(tainted=True)).verdict == "deny"
    assert policy((Effect("read", "/h/k"),), Situation()).verdict == "ask"
    assert policy((Effect("read", "/h/k"),), Situation(home="/h")).verdict == "deny"


def test_the_memory_of_answers_does_not_grow_without_end() -> None:
    policy = Policy.of(["deny read:none"])

    for number in range(4200):
        policy((Effect("read", f"f{number}"),), HERE)

    assert len(policy._cache) < 4200


def test_explain_names_every_rule_that_was_tried() -> None:
    policy = Policy(rules=(Rule.parse("ask write:src/*"), Rule.parse("allow read:~/x")), home="/h")

    out = explain(policy, (Effect("write", "src/a"), Effect("read", "/h/x")), HERE)

    assert (out["decision"], out["rule"]) == ("ask", "ask write:src/*")
    tried = [t for t in out["effects"][0]["tried"] if t["matches"]]
    assert tried == [{"rule": "ask write:src/*", "source": "user", "matches": True}]
    assert [t["rule"] for t in out["effects"][1]["tried"] if t["matches"]] == ["allow read:~/x"]
    assert len(out["effects"][0]["tried"]) == len(SHIPPED) + 2
    asked = explain(Policy.of(), (OUT,), HERE)["effects"][0]
    assert asked["reason"] == "the path is outside the workspace"


async def test_a_home_rule_holds_in_the_executor(own_home: Any) -> None:
    @tool(effects=[Effect("read", f"{own_home}/.ssh/id")])
    def peek() -> str:
        """Look."""
        return "secret"

    door = Executor([peek], mode="full", policy=["deny read:~/.ssh"])

    assert (await door.explain("peek"))["decision"] == "deny"
    assert not (await door.call("peek")).ok


async def test_a_command_that_nobody_analysed_asks() -> None:
    from pegboard import Command

    @tool
    def sh(command: Command) -> str:
        """Run."""
        return "ran"

    result = await Executor([sh]).call("sh", {"command": "ls"})

    assert result.error is not None
    assert "not analysed" in str(result)


async def test_explain_of_a_call_that_cannot_be_planned_gives_the_error() -> None:
    @tool(effects=PURE)
    def ok() -> str:
        """Say."""
        return "x"

    door = Executor([ok])

    assert (await door.explain("okk"))["error"]["code"] == "unknown_tool"
    assert (await door.explain("ok"))["decision"] == "allow"
