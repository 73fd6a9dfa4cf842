"""Names, parameters and texts of NanoBot.Net."""

from __future__ import annotations

from typing import Any, Final

from pegboard.compat import wording as say
from pegboard.compat.profiles.builders import flag, integer, optional, required, row, text
from pegboard.core.profiles import ProfileParameter, ToolProfile


def _scrolled(given: dict[str, Any]) -> dict[str, Any]:
    """Pixels below zero are upwards."""
    pixels = given.get("pixels")
    return (
        given
        if not isinstance(pixels, int) or pixels >= 0
        else {**given, "direction": "up", "pixels": -pixels}
    )


def _browser(name: str, description: str, *parameters: ProfileParameter, **more: Any) -> ToolProfile:
    """One of the eight tools that stand for actions of `browser`."""
    dropped = [optional(n, text(d), None) for n, d in _IGNORED.items()]
    return row(name, description, *parameters, *dropped, tool="browser", **more)


_IGNORED: Final = {"profile": "Ignored: every session has its own", "sessionKey": "Ignored: it is known"}
_TAB: Final = required("targetId", text("Tab, as browser_open and browser_tabs name it"), "tab")

NANOBOT_NET: Final = (
    row(
        "read_file",
        "Read the contents of a file. Returns the file content with line numbers.",
        required("path", text("Path of the file")),
        optional("startLine", integer("First line, counted from 1"), "offset"),
        optional("endLine", integer("Last line, inclusive"), "end_line"),
        render=say.chain(say.on_success(say.net_read), say.net_failure),
    ),
    row(
        "write_file",
        "Write content to a file. Creates parent directories if needed.",
        required("path", text("Path of the file")),
        required("content", text("The whole content")),
        render=say.chain(say.on_success(say.net_wrote), say.net_failure),
    ),
    row(
        "edit_file",
        "Edit a file by replacing specific text.",
        required("path", text("Path of the file")),
        required("oldText", text("The text to replace"), "old_string"),
        required("newText", text("The text to put in its place"), "new_string"),
        render=say.chain(say.on_success(say.net_edited), say.net_failure),
    ),
    row(
        "list_dir",
        "List contents of a directory.",
        required("path", text("Path of the directory")),
        optional("recursive", flag("List everything below it", default=False)),
    ),
    row(
        "exec",
        "Execute a shell command. Use with caution.",
        required("command", text("The command")),
        optional("timeout", {"type": "number", "description": "Seconds", "default": 60}),
        optional("workingDir", text("Directory to run it in"), "working_dir"),
        render=say.chain(say.on_success(say.net_exec), say.net_failure),
        max_chars=say.MAX_OUTPUT + len(say.TRUNCATED),
    ),
    row(
        "web_search",
        "Search the web using Brave Search API.",
        required("query", text("Search query")),
        optional("count", integer("Results", default=5)),
    ),
    row(
        "web_fetch",
        "Fetch and extract main content from a URL.",
        required("url", text("URL to fetch")),
        optional("maxChars", integer("Maximum characters", default=50000), "max_chars"),
        render=say.chain(say.on_success(say.net_page), say.net_failure),
    ),
    row(
        "message",
        "Send a message to a specific channel and chat.",
        required("content", text("The message")),
        optional("channel", text("Channel")),
        optional("chatId", text("Chat"), "chat_id"),
        render=say.on_success(
            lambda r, _a: "Message sent successfully" if say.facts(r).get("status") == "sent" else None
        ),
    ),
    row(
        "spawn",
        "Create a sub-agent.",
        required("task", text("The task")),
        optional("label", text("A short label")),
    ),
    row(
        "cron",
        "Manage scheduled tasks.",
        required("action", text("add, list or remove", enum=["add", "list", "remove"])),
        optional("name", text("Name of the job")),
        optional("schedule", text("Cron expression")),
        optional("message", text("What to say or do")),
    ),
    _browser(
        "browser_open",
        "Open a new browser tab.",
        required("url", text("Address")),
        fixed={"action": "navigate", "new_tab": True},
    ),
    _browser(
        "browser_navigate",
        "Open another address in a tab.",
        _TAB,
        required("url", text("Address")),
        fixed={"action": "navigate"},
    ),
    _browser(
        "browser_snapshot",
        "Describe the page with a reference for each element.",
        _TAB,
        fixed={"action": "snapshot"},
    ),
    _browser(
        "browser_interact",
        "Use an element of the page: click, hover, scroll, press a key or type.",
        _TAB,
        required("kind", text("What to do", enum=["click", "hover", "scroll", "press", "type"]), "action"),
        optional("reference", text("Element, as browser_snapshot names it"), "ref"),
        optional("text", text("Text to type")),
        optional("key", text("Key to press, such as Enter"), "text"),
        optional("scrollBy", integer("Pixels to scroll, negative for up"), "pixels"),
        adapt=_scrolled,
    ),
    _browser(
        "browser_content",
        "Extract the text of a page.",
        _TAB,
        optional("selector", text("CSS selector of the part")),
        fixed={"action": "content"},
    ),
    _browser("browser_screenshot", "Take a picture of the page.", _TAB, fixed={"action": "screenshot"}),
    _browser("browser_tabs", "List all open tabs.", fixed={"action": "tabs"}),
    _browser("browser_close", "Close a tab.", _TAB, fixed={"action": "close"}),
)
