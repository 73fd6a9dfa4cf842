"""The environment of commands."""

from __future__ import annotations

import pytest

from pegboard.core.errors import InvalidArguments
from pegboard.shell.environment import command_environment
from tests.ledger import owes

HOST = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "OPENAI_API_KEY": "sk-test",
    "AWS_SECRET_ACCESS_KEY": "x",
    "LD_PRELOAD": "/evil.so",
    "PROJECT": "p",
}


@owes("K-34", "exec-24")
def test_only_listed_names_reach_a_command() -> None:
    env = command_environment(HOST, {})

    assert env["PATH"] == "/usr/bin"
    assert env["LANG"] == "de_DE.UTF-8"
    assert env["LC_TIME"] == "C"
    assert not {"OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PROJECT"} & set(env)


def test_the_owner_may_let_further_names_through() -> None:
    assert command_environment(HOST, {}, passed=("PROJECT", "MISSING"))["PROJECT"] == "p"


@owes("M-66")
def test_folders_are_put_before_the_path() -> None:
    env = command_environment(HOST, {}, prepend=("/usr/local/bin", "/opt/x"))

    assert env["PATH"] == "/usr/local/bin:/opt/x:/usr/bin"


@pytest.mark.parametrize(
    "name",
    ["PATH", "path", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "DYLD_INSERT_LIBRARIES", "IFS", "HOME",
     "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "PEGBOARD_EXEC", "HTTPS_PROXY", "https_proxy", "TOKEN"],
)  # fmt: skip
def test_a_call_cannot_choose_what_code_is_loaded_or_override_a_secret(name: str) -> None:
    with pytest.raises(InvalidArguments, match=name):
        command_environment(HOST, {name: "x"}, secret_names=("TOKEN",))


@pytest.mark.parametrize(("name", "value"), [("A=B", "x"), ("", "x"), ("1A", "x"), ("A", "x\0y")])
def test_a_malformed_variable_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidArguments):
        command_environment(HOST, {name: value})


def test_where_the_host_sets_nothing_a_command_still_has_what_posix_programs_read() -> None:
    env = command_environment({}, {})

    assert {n: env[n] for n in ("HOME", "LANG", "SHELL")} == {
        "HOME": "/",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
    }
    assert "/usr/bin" in env["PATH"].split(":")


@owes("exec-06")
def test_nothing_opens_a_pager_or_asks_for_a_password() -> None:
    env = command_environment(HOST, {"CI": "1"})

    assert env["PAGER"] == env["GIT_PAGER"] == "cat"
    assert env["GIT_TERMINAL_PROMPT"] == "0"
    assert env["GIT_EDITOR"] == "true"
    assert env["TERM"] == "dumb"
    assert env["CI"] == "1"


def test_a_terminal_gets_real_pagers() -> None:
    env = command_environment(HOST, {}, terminal=True)

    assert env["TERM"] == "xterm-256color"
    assert "PAGER" not in env
