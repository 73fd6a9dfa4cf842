"""Tool names: what other agents call the tools that we have, for files that were written for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pegboard.core.effects import Effect
from pegboard.core.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolSpelling:
    """A tool as Claude Code names it.

    Attributes:
        name: its name there.
        others: further names, there and in Codex, goose and Deep Agents.
        parameters: our parameter -> theirs, where they differ.
    """

    name: str
    others: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


_PATH: Final = {"path": "file_path"}

CLAUDE_CODE: Final[Mapping[str, ToolSpelling]] = {
    "exec": ToolSpelling(
        "Bash", ("Shell", "developer__shell", "execute", "local_shell", "shell_command", "exec_command"),
        {"timeout_ms": "timeout", "background": "run_in_background"},
    ),
    "process": ToolSpelling("BashOutput", ("KillShell", "KillBash", "TaskOutput"), {"process_id": "bash_id"}),
    "read_file": ToolSpelling("Read", ("NotebookRead", "developer__read_image"), _PATH),
    "write_file": ToolSpelling("Write", ("developer__write",), _PATH),
    "edit_file": ToolSpelling("Edit", ("MultiEdit", "NotebookEdit", "developer__edit", "developer__text_editor"), _PATH),
    # Codex lets the matchers Edit and Write cover its patches, and sends the patch as `command`.
    "apply_patch": ToolSpelling("apply_patch", ("Edit", "Write", "MultiEdit"), {"patch": "command"}),
    "glob": ToolSpelling("Glob"),
    "grep": ToolSpelling("Grep", (), {"mode": "output_mode", "limit": "head_limit"}),
    "list_dir": ToolSpelling("LS", ("ls", "developer__tree")),
    "web_fetch": ToolSpelling("WebFetch", ("fetch_url",)),
    "web_search": ToolSpelling("WebSearch"),
    "ask_user": ToolSpelling("AskUserQuestion", ("ask_user_question",)),
    "call_subagent": ToolSpelling("Task", ("Agent", "task"), {"instruction": "prompt", "agent_name": "subagent_type"}),
    "todo": ToolSpelling("TodoWrite", ("write_todos", "update_plan")),
    "propose_plan": ToolSpelling("ExitPlanMode"),
    "read_skill": ToolSpelling("Skill"),
}  # fmt: skip
"""By our name."""

_OURS: Final = {
    there: name for name, row in reversed(CLAUDE_CODE.items()) for there in (*row.others, row.name)
}


def theirs(tool: Tool, effects: Iterable[Effect] = ()) -> tuple[str, ...]:
    """What other agents call a tool, Claude Code's name first; a tool of an MCP server is `mcp__SERVER__TOOL`."""
    row = CLAUDE_CODE.get(tool.canonical or tool.name)
    servers = [e.target.replace("/", "__", 1) for e in effects if e.kind == "call" and "/" in e.target]
    return (*((row.name, *row.others) if row else ()), *(f"mcp__{name}" for name in servers))


def our_name(name: str) -> str:
    """Our name for a tool of theirs; `Bash(git *)` is the tool without its pattern, a name that we do not know stays."""
    bare = re.sub(r"\(.*\)$", "", name.strip())
    return _OURS.get(bare, bare)
