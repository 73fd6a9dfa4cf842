"""Names, parameters and texts of document 003."""

from __future__ import annotations

from typing import Final

from pegboard.compat.profiles.files_and_commands import command, read_write_edit
from pegboard.compat.profiles.shapes import flag, may, need, row, text, whole
from pegboard.core.profiles import Row

MOLTBOT: Final = (
    *read_write_edit("read", "write", "edit"),
    command("exec", "Run a shell command."),
    row(
        "process",
        "Manage background commands.",
        need("action", text("What to do", enum=["list", "stop", "output"])),
        may("task_id", text("Which background command"), "process_id"),
    ),
    Row(name="apply_patch", tool="apply_patch"),
    row(
        "web_search",
        "Search the web.",
        need("query", text("Search query")),
        may("count", whole("Results (1-10)", minimum=1, maximum=10)),
        may("country", text("Country code: US, DE, ALL")),
        may("search_lang", text("Language: en, de, fr")),
        may("freshness", text("Time range: pd, pw, pm, py")),
    ),
    row(
        "web_fetch",
        "Fetch a page.",
        need("url", text("URL of the page")),
        may("prompt", text("What to extract")),
    ),
    Row(
        name="message",
        tool="message",
        description="Send a message on any channel.",
        parameters=(
            may("channel", text("telegram, whatsapp …")),
            may("target", text("User or group"), "chat_id"),
            may("accountId", text("Account"), "account_id"),
            may("message", text("The text"), "content"),
            may("media", text("Path of a media file")),
            may("buffer", text("Base64 media data")),
            may("replyTo", text("Message to answer"), "reply_to"),
            may("silent", flag("Without a notification")),
        ),
        # Used in the document's own example although its parameter list lacks it (ledger M-32): `caption`
        # passes through to the tool unadvertised.
    ),
)
