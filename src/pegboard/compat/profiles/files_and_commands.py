"""What 003 and claude-code say alike: reading, writing, editing and commands in milliseconds."""

from __future__ import annotations

from typing import Any, Final

from pegboard.compat.profiles.shapes import flag, may, need, row, text, whole
from pegboard.core.profiles import Row

_MS: Final = "Timeout in milliseconds (max 600000)."


def read_write_edit(read: str, write: str, edit: str) -> tuple[Row, ...]:
    path = need("file_path", text("Path of the file"), "path")
    return (
        row(
            read,
            "Read a file, with line numbers.",
            path,
            may("offset", whole("First line, counted from 1")),
            may("limit", whole("Number of lines")),
            tool="read_file",
        ),
        row(
            write,
            "Write a file, overwriting what is there.",
            path,
            need("content", text("The whole content")),
            tool="write_file",
        ),
        row(
            edit,
            "Replace an exact text in a file.",
            path,
            need("old_string", text("The text to replace")),
            need("new_string", text("The text to put in its place")),
            may("replace_all", flag("Replace every occurrence", default=False)),
            tool="edit_file",
        ),
    )


def command(name: str, description: str, render: Any = None) -> Row:
    return row(
        name,
        description,
        need("command", text("The command to run")),
        may("description", text("What the command does, in 5-10 words")),
        may("timeout", {"type": "number", "description": _MS}, "timeout_ms"),
        may("run_in_background", flag("Run it in the background"), "background"),
        tool="exec",
        render=render,
    )
