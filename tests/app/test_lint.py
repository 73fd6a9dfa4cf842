"""`policy lint`: what is odd about rules (ledger G-08)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from pegboard.core.effects import Effect
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Rule, Situation
from pegboard.services.lint import lint
from tests.cli.conftest import Run, home, pegboard, workspace  # noqa: F401  Fixtures.
from tests.ledger import owes


def kinds(*lines: str) -> list[tuple[str, str]]:
    return [(one.kind, str(one.rule)) for one in lint(Rule.parse(line) for line in lines)]


@owes("G-08")
@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (("ask exec:git push *", "allow exec:git push origin"), "unreachable"),
        (("allow exec:git push *", "deny exec:git **"), "unreachable"),
        (("deny exec:**", "allow exec:git **"), "unreachable"),
        (("allow exec:git **", "deny exec:**"), "unreachable"),
        (("ask exec:**", "allow exec:git **"), "unreachable"),
        (("allow exec:**", "ask exec:git push **"), "unreachable"),
        (("deny exec:git", "allow exec:git push"), "unreachable"),
        (("deny exec:g*", "allow exec:git push **"), "unreachable"),
        (("deny read:**", "allow read:src/**"), "unreachable"),
        (("deny read:**/*", "allow read:src/*.py"), "unreachable"),
        (("deny read:.env", "allow read:a/.env"), "unreachable"),
        (("deny read:/", "allow read:a.txt"), "unreachable"),
        (("deny connect:**", "allow connect:a.example.com"), "unreachable"),
        (("deny connect:a.example", "allow connect:a.example:443"), "unreachable"),
        (("deny call:files/*", "allow call:files/read"), "unreachable"),
        (("deny send:mail:*", "allow send:mail:ann"), "unreachable"),
        (("deny exec:rm -rf", "deny exec:rm -fr build"), "double"),
        (("deny read:secrets/", "allow read:secrets/a.txt"), "unreachable"),
        (("deny connect:*.example.com", "allow connect:a.example.com"), "unreachable"),
        (("deny exec", "allow exec:ls"), "unreachable"),
        (("ask tool=x", "allow write:a.txt tool=x"), "unreachable"),
        (("allow write:.git/hooks/pre-commit",), "unreachable"),
        (("deny exec:rm **", "deny exec:rm -rf **"), "double"),
        (("allow read:a", "allow read:a"), "double"),
        (("allow exec:*",), "wide"),
        (("allow connect:*",), "wide"),
        (("allow *",), "wide"),
        (("allow exec:bash *",), "wide"),
        (("allow exec:/usr/bin/python3 **",), "wide"),
        (("allow write:/",), "wide"),
        (("allow read:~/**",), "wide"),
        (("allow connect:*.com",), "wide"),
        (("allow exec:curl x | sh",), "idle"),
        (("deny connect:https://evil.example/",), "idle"),
        (("deny exec:rm ** unless=exec:rm **",), "idle"),
    ],
)
def test_what_is_odd_is_named(lines: tuple[str, ...], kind: str) -> None:
    assert kind in [found for found, _ in kinds(*lines)]


@owes("G-08")
@pytest.mark.parametrize(
    "lines",
    [
        ("allow exec:git push origin", "ask exec:git push *"),
        ("deny exec:git push --force **", "allow exec:git push *"),
        ("deny read:secrets/ unless=secrets/a.txt", "allow read:secrets/a.txt"),
        ("deny exec:* tool=other", "allow exec:ls"),
        ("deny exec:rm ** observe=true", "allow exec:rm a"),
        ("deny exec:rm **", "allow exec:rm build override=true"),
        ("deny read:a.txt", "allow read:a.txt.bak"),
        ("allow exec:git *", "allow exec:npm test"),
        ("deny read:**", "allow read:/srv/a.txt"),
        ("deny read:**", "allow read:*.pem"),
        ("deny read:src/*", "allow read:a/src/b"),
        ("deny read:*.pem", "allow read:/srv/[ab].pem"),
        ("allow exec:npm run", "ask exec:npm run test"),
        ("allow exec:git push", "ask exec:git push"),
        ("deny exec:git * x", "allow exec:git push y"),
        ("deny call:files/?*", "allow call:files/*"),
        ("deny connect:a.example:443", "allow connect:a.example"),
        ("deny connect:*.example.com", "allow connect:notexample.com"),
        ("ask tainted=true tool=web_*", "allow connect:a.example"),
        ("allow connect:*.example.com sender=me", "ask connect:a.example.com"),
        ('allow exec:sh -c "a | b"',),
        ("allow exec:*  channel=terminal",),
    ],
)
def test_what_is_in_order_is_not_remarked_on(lines: tuple[str, ...]) -> None:
    assert kinds(*lines) == []


@owes("G-08")
def test_a_rule_called_unreachable_never_decides() -> None:
    pick = random.Random(7)
    words = [f"{v} {k}" for v in ("allow", "ask", "deny") for k in
             ("exec:git *", "exec:git push *", "exec:git push", "read:a/", "read:a/b", "exec:**", "exec:git", "exec", "read:**", "read:*b", "read:**/b", "read:/", "connect:**", "connect:*.x.example", "connect:y.x.example", "*")]  # fmt: skip
    effects = [
        Effect("exec", "git push", argv=("git", "push")), Effect("exec", "git push o", argv=("git", "push", "o")),
        Effect("exec", "git log", argv=("git", "log")), Effect("exec", "git", argv=("git",)), Effect("exec", "x", at_least="ask"),
        Effect("exec", "/x/git push", argv=("/x/git", "push")), Effect("read", "/etc/b"), Effect("read", "b/c"), Effect("read", "a/b"), Effect("read", "a/c"),
        Effect("connect", "y.x.example"), Effect("connect", "z.x.example"),
    ]  # fmt: skip
    checked = 0
    for _ in range(1500):
        rules = [Rule.parse(pick.choice(words), source=f"user {n}") for n in range(4)]
        policy = Policy(mode="full", rules=tuple(rules))
        for finding in lint(rules):
            if finding.kind not in ("unreachable", "double"):
                continue
            at = next(n for n, rule in enumerate(rules) if rule is finding.rule)
            without = Policy(mode="full", rules=tuple(rules[:at] + rules[at + 1 :]))
            for effect in effects:
                checked += 1
                here = Situation(workspace="/w")
                assert policy((effect,), here).verdict == without((effect,), here).verdict, (rules, finding)
    assert checked > 500


@owes("G-08")
def test_the_command_tells_where_each_stands(pegboard: Run, workspace: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "rules.toml"
    file.write_text('rules = ["allow exec:git push origin", "deny exec:git **"]')

    shown = pegboard("policy", "lint", "--policy", str(file))
    row = json.loads(pegboard("policy", "lint", "--policy", str(file), "--json").out)[0]
    file.write_text('rules = ["deny exec:git **"]')

    assert shown.status == 0
    assert "unreachable: allow exec:git push origin   (user rules.toml rules[0])" in shown.out
    assert (row["kind"], row["by"]) == ("unreachable", "deny exec:git ** (user rules.toml rules[1])")
    assert pegboard("policy", "lint", "--policy", str(file)).status == 0


def test_a_file_is_looked_at_before_it_is_used_and_fails_where_it_cannot_be_read(
    pegboard: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    odd, wrong = tmp_path / "odd.rules", tmp_path / "wrong.rules"
    odd.write_text("allow exec:git push origin\ndeny exec:git **\n")
    wrong.write_text("deny exec:**\nalow read:**\n")

    looked, unread = pegboard("policy", "lint", str(odd)), pegboard("policy", "lint", str(wrong))
    missing = pegboard("policy", "lint", str(tmp_path / "none"))

    assert looked.status == 0 and "2 rules" in looked.out and "unreachable: allow exec:git push" in looked.out
    assert unread.status == 1 and "did you mean 'allow'" in unread.err and "2" in unread.err
    assert missing.status == 1 and "does not exist" in missing.err
