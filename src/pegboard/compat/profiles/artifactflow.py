"""Names, parameters and texts of ArtifactFlow."""

from __future__ import annotations

from typing import Final

from pegboard.compat.profiles.builders import integer, optional, required, row, text

ARTIFACTFLOW: Final = (
    row(
        "call_subagent",
        "Route the task to a subagent.",
        required("agent_name", text("Name of the subagent")),
        required("instruction", text("The task in full")),
    ),
    row(
        "web_search",
        "Search the web for information using Bocha AI search engine",
        required("query", text("Search query using keywords.")),
        optional(
            "freshness",
            text(
                "Time range filter: 'noLimit', 'oneDay', 'oneWeek', 'oneMonth', 'oneYear'",
                default="noLimit",
            ),
        ),
        optional("count", integer("Number of results to return (1-50)", default=10)),
    ),
    row(
        "web_fetch",
        "Fetch the content of web pages or PDFs",
        required(
            "url_list",
            {"type": "array", "items": {"type": "string"}, "description": "URLs to fetch"},
            "urls",
        ),
        optional("max_content_length", integer("Characters of each page", default=10000), "max_chars"),
        optional("max_concurrent", integer("How many at once (max 5)", default=3), None),
    ),
    row(
        "create_artifact",
        "Create a new artifact",
        required("id", text("Unique id of the artifact")),
        optional("content_type", text("Kind of content", default="markdown")),
        required("title", text("Title")),
        required("content", text("The content")),
    ),
    row(
        "read_artifact",
        "Read an artifact, also an old version",
        required("id", text("The artifact")),
        optional("version", integer("Which version")),
    ),
    row(
        "update_artifact",
        "Replace one text in an artifact (fuzzy matching)",
        required("id", text("The artifact")),
        required("old_str", text("The text to replace")),
        required("new_str", text("The text to put in its place")),
    ),
    row(
        "rewrite_artifact",
        "Replace the whole content of an artifact",
        required("id", text("The artifact")),
        required("content", text("The new content")),
    ),
)
