"""Names, parameters and texts of document 002."""

from __future__ import annotations

from typing import Final

from pegboard.compat import wording as say
from pegboard.compat.profiles.shapes import flag, may, need, row, text, whole

NANOBOT_NET: Final = (
    row(
        "read_file",
        "Read the contents of a file. Returns the file content with line numbers.",
        need("path", text("Path of the file")),
        may("startLine", whole("First line, counted from 1"), "offset"),
        may("endLine", whole("Last line, inclusive"), "end_line"),
        render=say.chain(say.on_success(say.net_read), say.net_failure),
    ),
    row(
        "write_file",
        "Write content to a file. Creates parent directories if needed.",
        need("path", text("Path of the file")),
        need("content", text("The whole content")),
        render=say.chain(say.on_success(say.net_wrote), say.net_failure),
    ),
    row(
        "edit_file",
        "Edit a file by replacing specific text.",
        need("path", text("Path of the file")),
        need("oldText", text("The text to replace"), "old_string"),
        need("newText", text("The text to put in its place"), "new_string"),
        render=say.chain(say.on_success(say.net_edited), say.net_failure),
    ),
    row(
        "list_dir",
        "List contents of a directory.",
        need("path", text("Path of the directory")),
        may("recursive", flag("List everything below it", default=False)),
    ),
    row(
        "exec",
        "Execute a shell command. Use with caution.",
        need("command", text("The command")),
        may("timeout", {"type": "number", "description": "Seconds", "default": 60}),
        may("workingDir", text("Directory to run it in"), "working_dir"),
        render=say.chain(say.on_success(say.net_exec), say.net_failure),
        max_chars=say.MAX_OUTPUT + len(say.TRUNCATED),
    ),
    row(
        "web_search",
        "Search the web using Brave Search API.",
        need("query", text("Search query")),
        may("count", whole("Results", default=5)),
    ),
    row(
        "web_fetch",
        "Fetch and extract main content from a URL.",
        need("url", text("URL to fetch")),
        may("maxChars", whole("Maximum characters", default=50000), "max_chars"),
    ),
    row(
        "message",
        "Send a message to a specific channel and chat.",
        need("content", text("The message")),
        may("channel", text("Channel")),
        may("chatId", text("Chat"), "chat_id"),
        render=say.on_success(lambda _r, _a: "Message sent successfully"),
    ),
    row(
        "spawn",
        "Create a sub-agent.",
        need("task", text("The task")),
        may("label", text("A short label")),
    ),
    row(
        "cron",
        "Manage scheduled tasks.",
        need("action", text("add, list or remove", enum=["add", "list", "remove"])),
        may("name", text("Name of the job")),
        may("schedule", text("Cron expression")),
        may("message", text("What to say or do")),
    ),
)
