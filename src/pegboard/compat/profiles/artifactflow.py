"""Names, parameters and texts of document 004."""

from __future__ import annotations

from typing import Final

from pegboard.compat.profiles.shapes import may, need, row, text, whole

ARTIFACTFLOW: Final = (
    row(
        "call_subagent",
        "Route the task to a subagent.",
        need("agent_name", text("Name of the subagent")),
        need("instruction", text("The task in full")),
    ),
    row(
        "web_search",
        "Search the web for information using Bocha AI search engine",
        need("query", text("Search query using keywords.")),
        may(
            "freshness",
            text(
                "Time range filter: 'noLimit', 'oneDay', 'oneWeek', 'oneMonth', 'oneYear'",
                default="noLimit",
            ),
        ),
        may("count", whole("Number of results to return (1-50)", default=10)),
    ),
    row(
        "web_fetch",
        "Fetch the content of web pages or PDFs",
        need(
            "url_list",
            {"type": "array", "items": {"type": "string"}, "description": "URLs to fetch"},
            "urls",
        ),
        may("max_content_length", whole("Characters of each page", default=10000), "max_chars"),
        may("max_concurrent", whole("How many at once (max 5)", default=3), None),
    ),
    row(
        "create_artifact",
        "Create a new artifact",
        need("id", text("Unique id of the artifact")),
        may("content_type", text("Kind of content", default="markdown")),
        need("title", text("Title")),
        need("content", text("The content")),
    ),
    row(
        "read_artifact",
        "Read an artifact, also an old version",
        need("id", text("The artifact")),
        may("version", whole("Which version")),
    ),
    row(
        "update_artifact",
        "Replace one text in an artifact (fuzzy matching)",
        need("id", text("The artifact")),
        need("old_str", text("The text to replace")),
        need("new_str", text("The text to put in its place")),
    ),
    row(
        "rewrite_artifact",
        "Replace the whole content of an artifact",
        need("id", text("The artifact")),
        need("content", text("The new content")),
    ),
)
