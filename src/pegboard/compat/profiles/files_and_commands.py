"""What 003 and claude-code say alike: reading, writing, editing and commands in milliseconds."""

from __future__ import annotations

from typing import Any, Final

from pegboard.compat.profiles.shapes import flag, may, need, text, whole
from pegboard.core.profiles import Row

_MS: Final = "Timeout in milliseconds (max 600000)."


def read_write_edit(read: str, write: str, edit: str) -> tuple[Row, ...]:
    path = need("file_path", text("Path of the file"), "path")
    return (
        Row(
            name=read,
            tool="read_file",
            description="Read a file, with line numbers.",
            parameters=(
                path,
                may("offset", whole("First line, counted from 1")),
                may("limit", whole("Number of lines")),
            ),
        ),
        Row(
            name=write,
            tool="write_file",
            description="Write a file, overwriting what is there.",
            parameters=(path, need("content", text("The whole content"))),
        ),
        Row(
            name=edit,
            tool="edit_file",
            description="Replace an exact text in a file.",
            parameters=(
                path,
                need("old_string", text("The text to replace")),
                need("new_string", text("The text to put in its place")),
                may("replace_all", flag("Replace every occurrence", default=False)),
            ),
        ),
    )


def command(name: str, description: str, render: Any = None) -> Row:
    return Row(
        name=name,
        tool="exec",
        description=description,
        parameters=(
            need("command", text("The command to run")),
            may("description", text("What the command does, in 5-10 words")),
            may("timeout", {"type": "number", "description": _MS}, "timeout_ms"),
            may("run_in_background", flag("Run it in the background"), "background"),
        ),
        render=render,
    )
