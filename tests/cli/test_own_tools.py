"""Tools of one's own Python files at the command line: `--tools-from` and `tools` of the settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

OWN = '''
import sys
from pegboard import Effect, PURE, tool
from pegboard.tools.read_file import read_file  # a built-in one that is only used

print("made by", __name__)


@tool(effects=PURE)
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool(effects=lambda given: [Effect("send", given["to"])])
def send_note(to: str) -> str:
    """Send a note."""
    return f"sent to {to}"
'''


@pytest.fixture
def own(workspace: Path) -> Path:
    path = workspace / "my_tools.py"
    path.write_text(OWN, encoding="utf-8")
    return path


def scripted(folder: Path, *turns: object) -> str:
    path = folder / "script.jsonl"
    path.write_text("".join(json.dumps(t) + "\n" for t in turns), encoding="utf-8")
    return f"scripted:{path}"


def test_tools_of_a_file_are_listed_called_explained_and_used_by_a_run(
    pegboard: Run, own: Path, tmp_path: Path
) -> None:
    model = scripted(
        tmp_path,
        {"calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]},
        {"text": "It is sunny."},
    )

    listed = pegboard("tools", "--tools-from", "my_tools.py", "--json")
    called = pegboard("call", "--tools-from", "my_tools.py", "get_weather", "city=Oslo")
    one = pegboard("tools", "--tools-from", "my_tools.py:get_weather", "--json")
    run = pegboard("run", "--tools-from", "my_tools.py", "--model", model, "--json", "weather?")

    names = {row["name"] for row in json.loads(listed.out)}
    assert {"get_weather", "send_note", "read_file"} <= names
    assert "send_note" not in {row["name"] for row in json.loads(one.out)}
    assert (called.status, called.out) == (0, "sunny in Oslo\n")
    results = [e for line in run.out.splitlines() if (e := json.loads(line))["type"] == "call.finished"]
    assert "sunny in Oslo" in json.dumps(results)


def test_the_option_may_stand_before_the_command(pegboard: Run, own: Path) -> None:
    for words in (["--tools-from", "my_tools.py"], ["--json", "--tools-from=my_tools.py"]):
        done = pegboard(*words, "call", "get_weather", "city=Oslo")

        assert done.status == 0, done.err
        assert "sunny in Oslo" in done.out


def test_a_policy_decides_about_own_tools_by_their_effects(pegboard: Run, own: Path) -> None:
    refused = pegboard("call", "--tools-from", "my_tools.py", "send_note", "to=ann@example.com")
    explained = pegboard(
        "policy", "explain", "--tools-from", "my_tools.py", "send_note", "to=ann@example.com", "--json"
    )

    assert refused.status == 3
    assert json.loads(explained.out)["effects"][0]["target"] == "ann@example.com"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none.py", "no file"),
        ("nothing.of.the_kind", "no module is installed"),
        ("my_tools", "to load the file, write my_tools.py"),
        ("my_tools.py:nothing", "has no 'nothing'"),
        ("broken.py", "line 2"),
        ("ends.py", "SystemExit"),
        ("clash.py", "two tools are called 'read_file'"),
    ],
)
def test_a_place_without_tools_is_refused_by_name(
    pegboard: Run, workspace: Path, own: Path, place: str, message: str
) -> None:
    (workspace / "broken.py").write_text("x = 1\nraise ValueError('no')\n", encoding="utf-8")
    (workspace / "ends.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    (workspace / "clash.py").write_text(OWN.replace("def get_weather", "def read_file"), encoding="utf-8")

    done = pegboard("tools", "--tools-from", place)

    assert done.status == 2
    assert message in done.err


def test_the_settings_of_an_untrusted_project_load_no_code_and_a_change_revokes_trust(
    pegboard: Run, workspace: Path, own: Path
) -> None:
    (workspace / "pegboard.toml").write_text('tools = ["my_tools.py"]\n', encoding="utf-8")

    before = pegboard("call", "get_weather", "city=Oslo")
    trusted = pegboard("trust", "--json")
    after = pegboard("call", "get_weather", "city=Oslo")
    own.write_text(OWN.replace("sunny", "stolen"), encoding="utf-8")
    changed = pegboard("call", "get_weather", "city=Oslo")

    assert (before.status, changed.status) == (2, 2)
    assert "made by" not in before.err + changed.err
    assert "pegboard trust" in before.err
    assert f"pegboard trust {own}" in changed.err
    assert [row["path"] for row in json.loads(trusted.out)["tools"]] == [str(own)]
    assert after.out == "sunny in Oslo\n"


def test_a_planted_bytecode_file_beside_a_trusted_one_is_not_run(
    pegboard: Run, workspace: Path, own: Path
) -> None:
    import os
    import py_compile

    (workspace / "pegboard.toml").write_text('tools = ["my_tools.py"]\n', encoding="utf-8")
    pegboard("trust")
    stat = own.stat()
    own.write_text(OWN.replace("sunny", "bad!!"), encoding="utf-8")
    os.utime(own, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    py_compile.compile(str(own))
    own.write_text(OWN, encoding="utf-8")
    os.utime(own, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert pegboard("call", "get_weather", "city=Oslo").out == "sunny in Oslo\n"


def test_the_users_own_settings_load_a_file_beside_them(pegboard: Run, home: Path) -> None:
    folder = home / ".config" / "pegboard"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(OWN, encoding="utf-8")
    (folder / "pegboard.toml").write_text(
        'tools = ["read_file", "mine.py:get_weather", "gone.py"]\n', encoding="utf-8"
    )

    done = pegboard("tools", "--json")

    assert [row["name"] for row in json.loads(done.out)] == ["read_file", "get_weather"]
    assert "gone.py is not a file" in done.err


def test_a_tool_may_not_change_the_file_that_it_is_loaded_from(pegboard: Run, own: Path) -> None:
    shown = pegboard(
        "call",
        "--tools-from",
        "my_tools.py",
        "write_file",
        "path=my_tools.py",
        "content=x",
        "--yes",
        "--json",
    )

    assert json.loads(shown.out)["ok"] is False
    assert own.read_text(encoding="utf-8") == OWN


def test_a_run_with_own_tools_is_resumed_with_them_and_says_what_is_missing(
    pegboard: Run, own: Path, tmp_path: Path
) -> None:
    model = scripted(
        tmp_path,
        {"calls": [{"name": "send_note", "arguments": {"to": "ann@example.com"}}]},
        {"text": "Sent."},
    )
    first = pegboard(
        "run", "--tools-from", "my_tools.py", "--model", model, "--on-ask", "suspend", "--json", "tell Ann"
    )
    run = json.loads(first.out.splitlines()[-1])["run"]
    pending = json.loads(first.out.splitlines()[-1])["pending"][0]["pending"]
    pegboard("approvals", "approve", pending)

    without = pegboard("runs", "resume", run)
    own.write_text(OWN + "\n# later\n", encoding="utf-8")
    resumed = pegboard("runs", "resume", run, "--tools-from", "my_tools.py")

    assert without.status == 2
    assert f"pegboard runs resume {run} --tools-from my_tools.py" in without.err
    assert resumed.status == 0
    assert "Sent." in resumed.out
    assert "my_tools.py has changed since this run started" in resumed.err


def test_own_tools_are_served_over_mcp_like_others(pegboard: Run, own: Path) -> None:
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]  # fmt: skip
    import subprocess

    from tests.cli.conftest import argv, environment

    done = subprocess.run(
        argv("mcp", "serve", "--tools-from", "my_tools.py"), cwd=own.parent, env=environment(), timeout=60,
        input="".join(json.dumps(one) + "\n" for one in asked).encode(), capture_output=True, check=False,
    )  # fmt: skip

    answers = {a.get("id"): a for line in done.stdout.splitlines() if (a := json.loads(line))}
    names = [t["name"] for t in answers[2]["result"]["tools"]]
    assert "get_weather" in names and "send_note" not in names
