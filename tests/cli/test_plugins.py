"""`pegboard plugins`, and what a trusted plug-in does on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.config.test_plugins import MCP_SCHEMA, plugin, skill, write

GUARD = """import json, os, sys
call = json.load(sys.stdin)
open(os.environ["PLUGIN_DATA"] + "/seen", "a").write(call["tool_name"] + os.environ["CLAUDE_PLUGIN_ROOT"])
if "rm " in call["tool_input"].get("command", ""):
    print("use git rm", file=sys.stderr)
    sys.exit(2)
"""

SERVER = """
import json, os, sys
import words
for line in sys.stdin:
    m = json.loads(line)
    reply = {"code": -32601, "message": "no"}
    if m.get("method") == "initialize":
        reply = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif m.get("method") == "tools/list":
        reply = {"tools": [{"name": "where", "description": words.TEXT, "inputSchema": {"type": "object"}}]}
    elif m.get("method") == "tools/call":
        told = [os.getcwd(), os.environ["PLUGIN_ROOT"], os.environ["PLUGIN_DATA"], sys.argv[1]]
        reply = {"content": [{"type": "text", "text": " ".join(told)}]}
    if "id" in m:
        key = "error" if "code" in reply else "result"
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], key: reply}), flush=True)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = plugin(tmp_path / "reports", version="1.2.0", description="Writes reports.")
    skill(root / "skills/sums", "sums")
    write(root / "agents/reviewer.md", "---\nname: reviewer\ndescription: Reviews reports\n---\nReview it.\n")
    write(root / "commands/show.md", "read $1")
    hook = {"type": "command", "command": 'python3 "${CLAUDE_PLUGIN_ROOT}/hooks/guard.py"'}
    write(
        root / "hooks/hooks.json",
        json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}),
    )
    write(root / "hooks/guard.py", GUARD)
    write(root / "bin/server.py", SERVER)
    write(root / "bin/words.py", "TEXT = 'Says where it runs.'")
    row = {"type": "stdio", "command": "python3", "args": ["./bin/server.py", "${PLUGIN_DATA}/db"]}
    write(root / "mcp.json", json.dumps({"$schema": MCP_SCHEMA, "mcpServers": {"db": row}}))
    return root


@pytest.fixture
def root(home: Path) -> Path:
    return home / ".local/share/pegboard/plugins/reports"


def words(text: str) -> str:
    return " ".join(text.split())


def test_adding_shows_what_it_brings_and_uses_nothing_of_it(pegboard: Run, source: Path, root: Path) -> None:
    added = pegboard("plugins", "add", str(source))

    assert added.status == 0, added.err
    told = words(added.out)
    assert told.startswith("reports 1.2.0 not trusted SHA-256 ") and f"from {source}" in told
    for part in (
        "Writes reports.", "skill sums: Helps", f"server reports-db runs: python3 ./bin/server.py {root.parent.parent}",
        'hook PreToolUse Bash runs: python3 "${CLAUDE_PLUGIN_ROOT}/hooks/guard.py"', "agent reviewer: Reviews reports", "command /show: read $1",
        f"it is not used until you run: pegboard trust {root}",
    ):  # fmt: skip
        assert part in told
    before = pegboard("call", "exec", "command=rm -f missing")
    assert before.status == 0 and f"reports is ignored until you run: pegboard trust {root}" in words(
        before.err
    )
    assert pegboard("call", "mcp_reports-db_where", "--yes").status != 0
    assert f"would run: python3 ./bin/server.py {root.parent.parent}" in words(pegboard("mcp", "list").out)
    assert "reviewer" not in pegboard("agents").out


def test_a_trusted_plugin_brings_all_that_it_has(
    pegboard: Run, command: Run, source: Path, root: Path, workspace: Path
) -> None:
    pegboard("plugins", "add", str(source))
    trusted = pegboard("trust", str(root))
    assert "use git rm" in trusted.out and "TEXT" not in trusted.out and "now trusted" in trusted.out

    assert pegboard("call", "list_skills").out == "sums: Helps\n"
    denied = json.loads(pegboard("call", "exec", "command=rm a.txt", "--json").out)
    assert denied["error"]["message"] == "exec was refused by hook guard.py: use git rm"
    assert (workspace / "a.txt").exists()
    data = root.parent.parent / "plugin-data/reports"
    assert (data / "seen").read_text() == f"Bash{root}"
    assert "reviewer" in pegboard("agents").out and "Reviews reports" in pegboard("call", "agents_list").out
    chat = command("chat", "--model", "local", stdin=b"/help\n/show a.txt\n")
    assert "/show" in chat.out and "hello" in chat.out
    assert pegboard("plugins").out.startswith("reports 1.2.0  trusted  ")


def test_the_tools_of_its_server_ask_until_a_person_approves_them(
    pegboard: Run, source: Path, root: Path
) -> None:
    pegboard("plugins", "add", str(source))
    pegboard("trust", str(root))

    asked = pegboard("call", "mcp_reports-db_where")
    allowed = pegboard("call", "mcp_reports-db_where", "--yes")

    data = root.parent.parent / "plugin-data/reports"
    assert asked.status == 3 and "call needs approval" in words(asked.err)
    assert allowed.out.split() == [str(root), str(root), str(data), f"{data}/db"]
    # Its Python leaves no cache beside it: the next call finds it trusted still.
    assert pegboard("call", "mcp_reports-db_where", "--yes").status == 0
    assert json.loads(pegboard("plugins", "--json").out)["plugins"][0]["trusted"]


def test_an_update_shows_its_diff_and_has_tools_that_changed_approved_again(
    pegboard: Run, source: Path, root: Path
) -> None:
    pegboard("plugins", "add", str(source))
    pegboard("trust", str(root))
    pegboard("mcp", "test", "reports-db", "--accept")
    write(source / "bin/words.py", "TEXT = 'Sends all files.'")

    added = pegboard("plugins", "add", str(source))

    assert "-TEXT = 'Says where it runs.'\n+TEXT = 'Sends all files.'" in added.out
    assert "not trusted" in added.out
    assert pegboard("call", "mcp_reports-db_where", "--yes").status != 0
    pegboard("trust", str(root))
    assert "Sends all files." in pegboard("mcp", "test", "reports-db").out


def test_adding_the_same_again_says_so_and_keeps_the_trust(pegboard: Run, source: Path, root: Path) -> None:
    pegboard("plugins", "add", str(source))
    pegboard("trust", str(root))

    again = pegboard("plugins", "add", str(source))

    assert again.out.startswith("reports has not changed\nreports 1.2.0  trusted  ")


def test_what_cannot_be_used_is_named(pegboard: Run, source: Path) -> None:
    write(source / "agents/empty.md", "no front matter")
    write(source / "skills/broken/SKILL.md", "no front matter")

    told = words(pegboard("plugins", "add", str(source)).out)

    assert "empty.md is no agent" in told and "note: the skill broken is ignored" in told


def test_removing_it_leaves_nothing(pegboard: Run, source: Path, root: Path) -> None:
    pegboard("plugins", "add", str(source))
    pegboard("trust", str(root))

    assert pegboard("plugins", "remove", "reports").out == "removed reports\n"
    assert not root.exists() and "nothing is trusted" in pegboard("trust", "--list").out
    assert pegboard("plugins").out.startswith("no plug-ins")
    assert pegboard("audit", "verify").status == 0


def test_trust_of_a_plugin_is_taken_back_whole(pegboard: Run, source: Path, root: Path) -> None:
    pegboard("plugins", "add", str(source))
    pegboard("trust", str(root))

    assert "no longer trusted" in pegboard("trust", "--remove", str(root)).out
    assert "not trusted" in pegboard("plugins").out


def test_an_agent_cannot_change_a_plugin(pegboard: Run, source: Path, root: Path) -> None:
    pegboard("plugins", "add", str(source))
    pegboard("trust", str(root))
    target = root / "hooks/guard.py"

    for tool in (["write_file", f"path={target}", "content="], ["exec", f"command=echo > {target}"]):
        assert pegboard("call", *tool, "--mode", "full", "--yes").status != 0

    assert target.read_text() == GUARD


def test_a_hook_of_a_plugin_that_changes_in_a_session_lets_nothing_pass(
    pegboard: Run, source: Path, root: Path, workspace: Path
) -> None:
    import asyncio

    from pegboard.app.app import App
    from pegboard.core.result import ToolResult

    pegboard("plugins", "add", str(source))
    pegboard("trust", str(root))

    async def two_calls() -> tuple[ToolResult, ToolResult]:
        with App.open(workspace=workspace) as app:
            async with app.executor() as executor:
                before = await executor.call("exec", {"command": "echo hi"})
                write(root / "hooks/json.py", "")
                return before, await executor.call("exec", {"command": "echo hi"})

    before, after = asyncio.run(two_calls())

    assert before.ok, before.text
    assert after.error is not None and f"{root} is not as you trusted it" in after.error.message


@pytest.mark.parametrize(
    ("given", "says"),
    [(["frob"], "use list, add SOURCE or remove NAME"), (["add"], "add SOURCE"), (["remove"], "remove NAME"),
     (["remove", "nothing"], "no plug-in is called 'nothing'"), (["add", "ext::sh"], "neither a folder nor"),
     (["add", "."], "has neither plugin.json"), (["add", ".", "--ref", "main"], "--ref main needs")],
)  # fmt: skip
def test_what_is_wrong_is_said(pegboard: Run, given: list[str], says: str) -> None:
    done = pegboard("plugins", *given)

    assert done.status == 2
    assert says in words(done.err)
