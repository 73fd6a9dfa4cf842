"""Naming profiles: the canonical tool names, and every document's spelling of them (ledger X-62)."""

from __future__ import annotations

from typing import Final

TOOL_ALIASES: Final[dict[str, str]] = {
    "read": "read_file",
    "readfile": "read_file",
    "write": "write_file",
    "writefile": "write_file",
    "edit": "edit_file",
    "str_replace": "edit_file",
    "bash": "exec",
    "shell": "exec",
    "ls": "list_dir",
    "list_directory": "list_dir",
    "find_files": "glob",
    "search_files": "grep",
    "apply-patch": "apply_patch",
    "schedule_task": "cron",
}
"""Other spellings of tool names; they resolve only where the target is in the toolkit and the
alias itself is no tool of the kit."""
