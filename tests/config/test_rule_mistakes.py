"""Mistakes in policy files: each is an error with file, line, key and the nearest name (K-29)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.config.load import read_rules
from pegboard.core.errors import ConfigError
from tests.ledger import owes


@owes("K-29")
@pytest.mark.parametrize(("text", "line", "parts"), [
    ('rules = [\n "deny read:a",\n "dney read:b",\n]', 3, ["rules[1]", "'dney'", "did you mean 'deny'"]),
    ('rules = [\n "deny reed:a",\n]', 2, ["rules[0]", "'reed'", "did you mean 'read'"]),
    ('rules = [\n "allow read:x",\n "allow wirte:**",\n]', 3, ["rules[1]", "did you mean 'write'"]),
    ('rules = [\n "deny read:a.txt resaon=why",\n]', 2, ["'resaon'", "did you mean 'reason='"]),
    ('rules = [\n "deny read:a.txt colour=red",\n]', 2, ["'colour' is not an option", "use tool, agent"]),
    ('rules = [\n "deny read:a tool=x sesion=y",\n]', 2, ["did you mean 'session='"]),
    ('rules = [\n "deny exec:git push unles=git push origin",\n]', 2, ["did you mean 'unless='"]),
    ('rules = [\n "deny tol=read_file",\n]', 2, ["did you mean 'tool='"]),
    ('rules = [\n {deny = "read:a", unles = ["b"]},\n]', 2, ["unknown key 'unles'", "did you mean 'unless'"]),
    ('rules = [\n {dney = "read:a"},\n]', 2, ["unknown key 'dney'", "did you mean 'deny'"]),
    ('rules = [\n {deny = "read:a", tainted = "yes"},\n]', 2, ["tainted is 'yes'"]),
    ('# my rules\nruls = ["deny read:a"]', 2, ["'ruls'", "did you mean 'rules'"]),
    ('mode = "full"\nrules = []', 1, ["'mode' is not allowed in a policy file"]),
])  # fmt: skip
def test_a_mistake_names_file_line_key_and_the_nearest_name(
    tmp_path: Path, text: str, line: int, parts: list[str]
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        read_rules(path)

    assert str(caught.value).startswith(f"{path}:{line}: ")
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("rule", [
    "allow exec:env FOO=1 make", "deny exec:make CC=gcc **", "deny exec:dd if=/dev/zero **", "allow read:a=b",
    "deny read:x reason=because a=b", "allow connect:host.example tool=a|b", "deny write:notes/a=1.txt",
])  # fmt: skip
def test_a_sign_of_equality_that_belongs_there_is_no_mistake(tmp_path: Path, rule: str) -> None:
    path = tmp_path / "policy.txt"
    path.write_text(rule)

    assert len(read_rules(path)) == 1
