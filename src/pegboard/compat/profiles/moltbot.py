"""Names, parameters and texts of moltbot."""

from __future__ import annotations

from typing import Final

from pegboard.compat import wording as say
from pegboard.compat.profiles.builders import flag, integer, optional, required, row, text
from pegboard.compat.profiles.files_and_commands import command, read_write_edit
from pegboard.core.profiles import ToolProfile

COMMANDS: Final = {
    "type": "array",
    "description": "Shapes in order: rect (x, y, width, height), circle (centre x, y, radius), text (x, y, text, size)",
    "items": {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["rect", "circle", "text"]},
            "x": {"type": "number"},
            "y": {"type": "number"},
            "width": {"type": "number"},
            "height": {"type": "number"},
            "radius": {"type": "number"},
            "text": {"type": "string"},
            "size": {"type": "number", "description": "Height of text"},
            "fill": {"type": "string", "description": "A colour"},
        },
        "required": ["type", "x", "y"],
    },
}

MOLTBOT: Final = (
    *read_write_edit("read", "write", "edit"),
    command("exec", "Run a shell command."),
    row(
        "process",
        "Manage background commands.",
        required("action", text("What to do", enum=["list", "stop", "output"])),
        optional("task_id", text("Which background command"), "process_id"),
    ),
    ToolProfile(name="apply_patch", tool="apply_patch"),
    row(
        "web_search",
        "Search the web.",
        required("query", text("Search query")),
        optional("count", integer("Results (1-10)", minimum=1, maximum=10)),
        optional("country", text("Country code: US, DE, ALL")),
        optional("search_lang", text("Language: en, de, fr"), "language"),
        optional("freshness", text("Time range: pd, pw, pm, py")),
        render=say.on_success(say.web_json),
    ),
    row(
        "web_fetch",
        "Fetch a page.",
        required("url", text("URL of the page")),
        optional("prompt", text("What to extract")),
    ),
    row(
        "browser",
        "Control a web browser.",
        required("action", text("What to do", enum=["navigate", "click", "type", "screenshot"])),
        optional("url", text("Address, for navigate")),
        optional("selector", text("CSS selector of the element, for click and type")),
        optional("text", text("What to type")),
    ),
    row(
        "canvas",
        "Draw simple shapes.",
        required("width", integer("Width in pixels", minimum=1, maximum=4096)),
        required("height", integer("Height in pixels", minimum=1, maximum=4096)),
        required("commands", COMMANDS),
    ),
    row(
        "gateway",
        "Manage the gateway.",
        required("action", text("What to do", enum=["status", "restart"])),
    ),
    row(
        "nodes",
        "Manage paired devices.",
        required("action", text("What to do", enum=["list", "screenshot", "location"])),
        optional("nodeId", text("Which device; may be left out if there is one"), "node"),
    ),
    row(
        "image",
        "Generate an image, or describe one.",
        optional("prompt", text("What to show, or what to ask about image")),
        optional("size", text("Size", enum=["1024x1024", "1792x1024", "1024x1792"])),
        optional("image", text("Path or URL of an image to look at")),
    ),
    row(
        "tts",
        "Convert text to speech.",
        required("text", text("Text to say")),
    ),
    row(
        "agents_list",
        "List the agents.",
        render=say.on_success(say.molt_agents),
    ),
    row(
        "sessions_list",
        "List all sessions.",
        optional("filter", text("Which sessions", enum=["active", "all"])),
        render=say.on_success(say.molt_sessions),
    ),
    row(
        "sessions_history",
        "Read a session's history.",
        optional("sessionKey", text("Session key"), "session"),
        optional("limit", integer("How many messages", minimum=1, maximum=500)),
        render=say.on_success(say.molt_history),
    ),
    row(
        "sessions_send",
        "Send a message to another session.",
        optional("sessionKey", text("Session key"), "session"),
        optional("label", text("Session label")),
        optional("agentId", text("Agent ID"), "agent"),
        required("message", text("The message")),
        optional(
            "timeoutSeconds", integer("Seconds to wait for the reply", minimum=0, maximum=600), "timeout_s"
        ),
    ),
    row(
        "session_status",
        "Show a session's status.",
        optional("sessionKey", text("Session key"), "session"),
        render=say.on_success(say.molt_status),
    ),
    row(
        "sessions_spawn",
        "Spawn a sub-agent session.",
        required("prompt", text("The task for the sub-agent")),
        optional("thinking", text("How much it thinks", enum=["low", "medium", "high"])),
        optional("agentId", text("Which agent"), "agent"),
    ),
    row(
        "cron",
        "Manage scheduled tasks.",
        required("action", text("What to do", enum=["add", "list", "remove"])),
        optional("schedule", text("Cron expression, such as 0 9 * * *")),
        optional("prompt", text("What to do then"), "message"),
        optional("id", text("Task id"), "job_id"),
    ),
    ToolProfile(
        name="message",
        tool="message",
        description="Send a message on any channel.",
        parameters=(
            optional("channel", text("telegram, whatsapp …")),
            optional("target", text("User or group"), "chat_id"),
            optional("accountId", text("Account"), "account_id"),
            optional("message", text("The text"), "content"),
            optional("media", text("Path of a media file")),
            optional("buffer", text("Base64 media data")),
            optional("replyTo", text("Message to answer"), "reply_to"),
            optional("silent", flag("Without a notification")),
        ),
        # Used in the document's own example although its parameter list lacks it: `caption`
        # passes through to the tool unadvertised.
    ),
)
