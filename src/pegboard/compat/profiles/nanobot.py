"""Names, parameters and texts of nanobot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pegboard.compat import wording as say
from pegboard.compat.locale import message
from pegboard.compat.nanobot.context import current_target
from pegboard.compat.profiles.builders import integer, optional, required, row, text
from pegboard.core.result import ToolResult


def _with_emoji(given: dict[str, Any]) -> dict[str, Any]:
    return {"style": "emoji", **given}


def _job_for_the_chat(given: dict[str, Any]) -> dict[str, Any]:
    """A new job answers to the chat that `set_context` named."""
    return _for_the_chat(given) if given.get("action") == "add" else given


def _for_the_chat(given: dict[str, Any]) -> dict[str, Any]:
    """A message goes to the chat that `set_context` named, where it names none or that channel alone."""
    channel, chat = current_target()
    if not channel or given.get("channel", channel) != channel or given.get("chat_id"):
        return given
    return {**given, "channel": channel, "chat_id": chat}


def _sent(result: ToolResult, arguments: Mapping[str, Any]) -> str | None:
    data = say.facts(result)
    if data.get("status") != "sent" or data.get("not_sent"):
        return None
    files = f" with {data['attachments']} attachments" if data["attachments"] else ""
    return f"Message sent to {data['channel']}:{data['chat_id']}{files}"


def _scheduled(result: ToolResult, arguments: Mapping[str, Any]) -> str:
    job = say.facts(result)["job"]
    return message("scheduled", task=job["message"], cron_expr=job["schedule"])


NANOBOT: Final = (
    row(
        "read_file",
        "Read the contents of a file at the given path.",
        required("path", text("The file path to read")),
        fixed={"numbered": False},
    ),
    row(
        "write_file",
        "Write content to a file at the given path. Creates parent directories if needed.",
        required("path", text("The file path to write to")),
        required("content", text("The content to write")),
    ),
    row(
        "edit_file",
        "Edit a file by replacing old_text with new_text. The old_text must exist exactly once.",
        required("path", text("The file path to edit")),
        required("old_text", text("The exact text to find and replace"), "old_string"),
        required("new_text", text("The text to replace with"), "new_string"),
    ),
    row(
        "list_dir",
        "List the contents of a directory.",
        required("path", text("The directory path to list")),
        adapt=_with_emoji,
    ),
    row(
        "exec",
        "Execute a shell command and return its output. Use with caution.",
        required("command", text("The shell command to execute")),
        optional("working_dir", text("Optional working directory for the command")),
    ),
    row(
        "glob",
        "Match file paths with a glob pattern, newest first.",
        required("pattern", text("Glob pattern, for example **/*.py")),
        optional("path", text("Directory to look in", default=".")),
    ),
    row(
        "grep",
        "Search file contents with a regular expression.",
        required("pattern", text("Regular expression")),
        optional("path", text("Directory or file to search", default=".")),
    ),
    row(
        "delete_file",
        "Delete a file (asks for confirmation).",
        required("path", text("The file path to delete")),
        zh="删除文件(需确认)。",
        level="confirm",
    ),
    row(
        "ask_user",
        "Ask the user a question and wait for the reply.",
        required("question", text("The question")),
    ),
    row(
        "web_search",
        "Search the web. Returns titles, URLs, and snippets.",
        required("query", text("Search query")),
        optional("count", integer("Results (1-10)", minimum=1, maximum=10)),
    ),
    row(
        "web_fetch",
        "Fetch URL and extract readable content.",
        required("url", text("URL to fetch")),
        optional(
            "extractMode",
            text("Form of the content", enum=["markdown", "text"], default="markdown"),
            "extract_mode",
        ),
        optional("maxChars", integer("Maximum characters", minimum=100), "max_chars"),
        render=say.on_success(say.web_json),
    ),
    row(
        "message",
        "Send a message to the user or another chat.",
        required("content", text("The message content to send")),
        optional("channel", text("Target channel")),
        optional("chat_id", text("Target chat")),
        optional("media", {"type": "array", "items": {"type": "string"}, "description": "File paths"}),
        adapt=_for_the_chat,
        render=say.on_success(_sent),
    ),
    row(
        "spawn",
        "Spawn a subagent to handle a task in the background.",
        required("task", text("The task")),
        optional("label", text("Optional short label")),
    ),
    row(
        "cron",
        "Schedule reminders and recurring tasks. Actions: add, list, remove.",
        required("action", text("Action to perform", enum=["add", "list", "remove"])),
        optional("message", text("Reminder message (for add)")),
        optional("every_seconds", integer("Interval in seconds (for recurring tasks)")),
        optional("cron_expr", text("Cron expression like '0 9 * * *'")),
        optional("tz", text("IANA timezone for cron expressions")),
        optional("at", text("ISO datetime for one-time execution")),
        optional("job_id", text("Job ID (for remove)")),
        adapt=_job_for_the_chat,
    ),
    row(
        "schedule_task",
        "Schedule a task, once at a given time or again and again by a cron expression.",
        required("task", text("The task")),
        required("schedule", text("When: a cron expression, or in words")),
        required("channel", text("Channel that the answer goes to")),
        render=say.on_success(_scheduled),
    ),
)
