"""What moltbot and claude-code have in common: reading, writing, editing and commands in milliseconds."""

from __future__ import annotations

from typing import Any, Final

from pegboard.compat.profiles.builders import flag, integer, optional, required, row, text
from pegboard.core.profiles import ToolProfile

_MS: Final = "Timeout in milliseconds (max 600000)."


def read_write_edit(read: str, write: str, edit: str) -> tuple[ToolProfile, ...]:
    path = required("file_path", text("Path of the file"), "path")
    return (
        row(
            read,
            "Read a file, with line numbers.",
            path,
            optional("offset", integer("First line, counted from 1")),
            optional("limit", integer("Number of lines")),
            tool="read_file",
        ),
        row(
            write,
            "Write a file, overwriting what is there.",
            path,
            required("content", text("The whole content")),
            tool="write_file",
        ),
        row(
            edit,
            "Replace an exact text in a file.",
            path,
            required("old_string", text("The text to replace")),
            required("new_string", text("The text to put in its place")),
            optional("replace_all", flag("Replace every occurrence", default=False)),
            tool="edit_file",
        ),
    )


def command(name: str, description: str, render: Any = None) -> ToolProfile:
    return row(
        name,
        description,
        required("command", text("The command to run")),
        optional("description", text("What the command does, in 5-10 words")),
        optional("timeout", {"type": "number", "description": _MS}, "timeout_ms"),
        optional("run_in_background", flag("Run it in the background"), "background"),
        tool="exec",
        render=render,
    )
