"""Names, parameters and texts of documents 000 and 001."""

from __future__ import annotations

from typing import Final

from pegboard.compat.profiles.shapes import may, need, text, whole
from pegboard.core.profiles import Row

NANOBOT: Final = (
    Row(
        name="read_file",
        tool="read_file",
        description="Read the contents of a file at the given path.",
        parameters=(need("path", text("The file path to read")),),
        fixed={"numbered": False},
    ),
    Row(
        name="write_file",
        tool="write_file",
        description="Write content to a file at the given path. Creates parent directories if needed.",
        parameters=(
            need("path", text("The file path to write to")),
            need("content", text("The content to write")),
        ),
    ),
    Row(
        name="edit_file",
        tool="edit_file",
        description="Edit a file by replacing old_text with new_text. The old_text must exist exactly once.",
        parameters=(
            need("path", text("The file path to edit")),
            need("old_text", text("The exact text to find and replace"), "old_string"),
            need("new_text", text("The text to replace with"), "new_string"),
        ),
    ),
    Row(
        name="list_dir",
        tool="list_dir",
        description="List the contents of a directory.",
        parameters=(need("path", text("The directory path to list")),),
        adapt=lambda given: {"style": "emoji", **given},
    ),
    Row(
        name="exec",
        tool="exec",
        description="Execute a shell command and return its output. Use with caution.",
        parameters=(
            need("command", text("The shell command to execute")),
            may("working_dir", text("Optional working directory for the command")),
        ),
    ),
    Row(
        name="glob",
        tool="glob",
        description="Match file paths with a glob pattern, newest first.",
        parameters=(
            need("pattern", text("Glob pattern, for example **/*.py")),
            may("path", text("Directory to look in", default=".")),
        ),
    ),
    Row(
        name="grep",
        tool="grep",
        description="Search file contents with a regular expression.",
        parameters=(
            need("pattern", text("Regular expression")),
            may("path", text("Directory or file to search", default=".")),
        ),
    ),
    Row(
        name="delete_file",
        tool="delete_file",
        description="Delete a file (asks for confirmation).",
        parameters=(need("path", text("The file path to delete")),),
    ),
    Row(
        name="ask_user",
        tool="ask_user",
        description="Ask the user a question and wait for the reply.",
        parameters=(need("question", text("The question")),),
    ),
    Row(
        name="web_search",
        tool="web_search",
        description="Search the web. Returns titles, URLs, and snippets.",
        parameters=(
            need("query", text("Search query")),
            may("count", whole("Results (1-10)", minimum=1, maximum=10)),
        ),
    ),
    Row(
        name="web_fetch",
        tool="web_fetch",
        description="Fetch URL and extract readable content.",
        parameters=(
            need("url", text("URL to fetch")),
            may(
                "extractMode",
                text("Form of the content", enum=["markdown", "text"], default="markdown"),
                "extract_mode",
            ),
            may("maxChars", whole("Maximum characters", minimum=100), "max_chars"),
        ),
    ),
    Row(
        name="message",
        tool="message",
        description="Send a message to the user or another chat.",
        parameters=(
            need("content", text("The message content to send")),
            may("channel", text("Target channel")),
            may("chat_id", text("Target chat")),
            may("media", {"type": "array", "items": {"type": "string"}, "description": "File paths"}),
        ),
    ),
    Row(
        name="spawn",
        tool="spawn",
        description="Spawn a subagent to handle a task in the background.",
        parameters=(need("task", text("The task")), may("label", text("Optional short label"))),
    ),
    Row(
        name="cron",
        tool="cron",
        description="Schedule reminders and recurring tasks. Actions: add, list, remove.",
        parameters=(
            need("action", text("Action to perform", enum=["add", "list", "remove"])),
            may("message", text("Reminder message (for add)")),
            may("every_seconds", whole("Interval in seconds (for recurring tasks)")),
            may("cron_expr", text("Cron expression like '0 9 * * *'")),
            may("tz", text("IANA timezone for cron expressions")),
            may("at", text("ISO datetime for one-time execution")),
            may("job_id", text("Job ID (for remove)")),
        ),
    ),
)
