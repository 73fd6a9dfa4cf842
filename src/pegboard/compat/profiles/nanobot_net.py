"""Names, parameters and texts of document 002."""

from __future__ import annotations

from typing import Final

from pegboard.compat import wording as say
from pegboard.compat.profiles.shapes import flag, may, need, text, whole
from pegboard.core.profiles import Row

NANOBOT_NET: Final = (
    Row(
        name="read_file",
        tool="read_file",
        description="Read the contents of a file. Returns the file content with line numbers.",
        parameters=(
            need("path", text("Path of the file")),
            may("startLine", whole("First line, counted from 1"), "offset"),
            may("endLine", whole("Last line, inclusive"), "end_line"),
        ),
        render=say.chain(say.on_success(say.net_read), say.net_failure),
    ),
    Row(
        name="write_file",
        tool="write_file",
        description="Write content to a file. Creates parent directories if needed.",
        parameters=(need("path", text("Path of the file")), need("content", text("The whole content"))),
        render=say.chain(say.on_success(say.net_wrote), say.net_failure),
    ),
    Row(
        name="edit_file",
        tool="edit_file",
        description="Edit a file by replacing specific text.",
        parameters=(
            need("path", text("Path of the file")),
            need("oldText", text("The text to replace"), "old_string"),
            need("newText", text("The text to put in its place"), "new_string"),
        ),
        render=say.chain(say.on_success(say.net_edited), say.net_failure),
    ),
    Row(
        name="list_dir",
        tool="list_dir",
        description="List contents of a directory.",
        parameters=(
            need("path", text("Path of the directory")),
            may("recursive", flag("List everything below it", default=False)),
        ),
    ),
    Row(
        name="exec",
        tool="exec",
        description="Execute a shell command. Use with caution.",
        parameters=(
            need("command", text("The command")),
            may("timeout", {"type": "number", "description": "Seconds", "default": 60}),
            may("workingDir", text("Directory to run it in"), "working_dir"),
        ),
        render=say.chain(say.on_success(say.net_exec), say.net_failure),
        max_chars=say.MAX_OUTPUT + len(say.TRUNCATED),
    ),
    Row(
        name="web_search",
        tool="web_search",
        description="Search the web using Brave Search API.",
        parameters=(need("query", text("Search query")), may("count", whole("Results", default=5))),
    ),
    Row(
        name="web_fetch",
        tool="web_fetch",
        description="Fetch and extract main content from a URL.",
        parameters=(
            need("url", text("URL to fetch")),
            may("maxChars", whole("Maximum characters", default=50000), "max_chars"),
        ),
    ),
    Row(
        name="message",
        tool="message",
        description="Send a message to a specific channel and chat.",
        parameters=(
            need("content", text("The message")),
            may("channel", text("Channel")),
            may("chatId", text("Chat"), "chat_id"),
        ),
        render=say.on_success(lambda _r, _a: "Message sent successfully"),
    ),
    Row(
        name="spawn",
        tool="spawn",
        parameters=(need("task", text("The task")), may("label", text("A short label"))),
        description="Create a sub-agent.",
    ),
    Row(
        name="cron",
        tool="cron",
        description="Manage scheduled tasks.",
        parameters=(
            need("action", text("add, list or remove", enum=["add", "list", "remove"])),
            may("name", text("Name of the job")),
            may("schedule", text("Cron expression")),
            may("message", text("What to say or do")),
        ),
    ),
)
