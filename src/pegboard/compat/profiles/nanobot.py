"""Names, parameters and texts of documents 000 and 001."""

from __future__ import annotations

from typing import Any, Final

from pegboard.compat.profiles.shapes import may, need, row, text, whole


def _with_emoji(given: dict[str, Any]) -> dict[str, Any]:
    return {"style": "emoji", **given}


NANOBOT: Final = (
    row(
        "read_file",
        "Read the contents of a file at the given path.",
        need("path", text("The file path to read")),
        fixed={"numbered": False},
    ),
    row(
        "write_file",
        "Write content to a file at the given path. Creates parent directories if needed.",
        need("path", text("The file path to write to")),
        need("content", text("The content to write")),
    ),
    row(
        "edit_file",
        "Edit a file by replacing old_text with new_text. The old_text must exist exactly once.",
        need("path", text("The file path to edit")),
        need("old_text", text("The exact text to find and replace"), "old_string"),
        need("new_text", text("The text to replace with"), "new_string"),
    ),
    row(
        "list_dir",
        "List the contents of a directory.",
        need("path", text("The directory path to list")),
        adapt=_with_emoji,
    ),
    row(
        "exec",
        "Execute a shell command and return its output. Use with caution.",
        need("command", text("The shell command to execute")),
        may("working_dir", text("Optional working directory for the command")),
    ),
    row(
        "glob",
        "Match file paths with a glob pattern, newest first.",
        need("pattern", text("Glob pattern, for example **/*.py")),
        may("path", text("Directory to look in", default=".")),
    ),
    row(
        "grep",
        "Search file contents with a regular expression.",
        need("pattern", text("Regular expression")),
        may("path", text("Directory or file to search", default=".")),
    ),
    row(
        "delete_file", "Delete a file (asks for confirmation).", need("path", text("The file path to delete"))
    ),
    row(
        "ask_user", "Ask the user a question and wait for the reply.", need("question", text("The question"))
    ),
    row(
        "web_search",
        "Search the web. Returns titles, URLs, and snippets.",
        need("query", text("Search query")),
        may("count", whole("Results (1-10)", minimum=1, maximum=10)),
    ),
    row(
        "web_fetch",
        "Fetch URL and extract readable content.",
        need("url", text("URL to fetch")),
        may(
            "extractMode",
            text("Form of the content", enum=["markdown", "text"], default="markdown"),
            "extract_mode",
        ),
        may("maxChars", whole("Maximum characters", minimum=100), "max_chars"),
    ),
    row(
        "message",
        "Send a message to the user or another chat.",
        need("content", text("The message content to send")),
        may("channel", text("Target channel")),
        may("chat_id", text("Target chat")),
        may("media", {"type": "array", "items": {"type": "string"}, "description": "File paths"}),
    ),
    row(
        "spawn",
        "Spawn a subagent to handle a task in the background.",
        need("task", text("The task")),
        may("label", text("Optional short label")),
    ),
    row(
        "cron",
        "Schedule reminders and recurring tasks. Actions: add, list, remove.",
        need("action", text("Action to perform", enum=["add", "list", "remove"])),
        may("message", text("Reminder message (for add)")),
        may("every_seconds", whole("Interval in seconds (for recurring tasks)")),
        may("cron_expr", text("Cron expression like '0 9 * * *'")),
        may("tz", text("IANA timezone for cron expressions")),
        may("at", text("ISO datetime for one-time execution")),
        may("job_id", text("Job ID (for remove)")),
    ),
)
