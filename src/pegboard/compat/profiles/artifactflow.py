"""Names, parameters and texts of document 004."""

from __future__ import annotations

from typing import Final

from pegboard.compat.profiles.shapes import may, need, text, whole
from pegboard.core.profiles import Row

ARTIFACTFLOW: Final = (
    Row(
        name="call_subagent",
        tool="call_subagent",
        description="Route the task to a subagent.",
        parameters=(
            need("agent_name", text("Name of the subagent")),
            need("instruction", text("The task in full")),
        ),
    ),
    Row(
        name="web_search",
        tool="web_search",
        description="Search the web for information using Bocha AI search engine",
        parameters=(
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
    ),
    Row(
        name="web_fetch",
        tool="web_fetch",
        description="Fetch the content of web pages or PDFs",
        parameters=(
            need(
                "url_list",
                {"type": "array", "items": {"type": "string"}, "description": "URLs to fetch"},
                "urls",
            ),
            may("max_content_length", whole("Characters of each page", default=10000), "max_chars"),
            may("max_concurrent", whole("How many at once (max 5)", default=3), None),
        ),
    ),
    Row(
        name="create_artifact",
        tool="create_artifact",
        description="Create a new artifact",
        parameters=(
            need("id", text("Unique id of the artifact")),
            may("content_type", text("Kind of content", default="markdown")),
            need("title", text("Title")),
            need("content", text("The content")),
        ),
    ),
    Row(
        name="read_artifact",
        tool="read_artifact",
        description="Read an artifact, also an old version",
        parameters=(need("id", text("The artifact")), may("version", whole("Which version"))),
    ),
    Row(
        name="update_artifact",
        tool="update_artifact",
        description="Replace one text in an artifact (fuzzy matching)",
        parameters=(
            need("id", text("The artifact")),
            need("old_str", text("The text to replace")),
            need("new_str", text("The text to put in its place")),
        ),
    ),
    Row(
        name="rewrite_artifact",
        tool="rewrite_artifact",
        description="Replace the whole content of an artifact",
        parameters=(need("id", text("The artifact")), need("content", text("The new content"))),
    ),
)
