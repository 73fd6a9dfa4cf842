"""grep_artifact: find a text in artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from pegboard.core.effects import PURE
from pegboard.core.errors import Unavailable
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.artifacts import ArtifactMatch, Artifacts
from pegboard.ports.files import Files, SearchQuery


@tool(effects=PURE, hints=("search artifacts", "find text in an artifact"))
async def grep_artifact(
    pattern: Annotated[str, Field(min_length=1), Alias("query", "text")],
    id: Annotated[str | None, Alias("artifact_id", "name")] = None,
    regex: bool = False,
    ignore_case: bool = False,
    limit: Annotated[int, Field(ge=1, le=1000), Alias("max_results", "head_limit")] = 100,
    offset: Annotated[int, Field(ge=0)] = 0,
    *,
    artifacts: Inject[Artifacts],
    files: Inject[Files | None] = None,
) -> ToolResult:
    """Find the lines of artifacts that contain a text, in their newest versions.

    Args:
        pattern: The text to look for, letter by letter.
        id: Only in this artifact.
        regex: Take the pattern as a regular expression, as grep does.
        ignore_case: Whether upper and lower case are the same.
        limit: How many lines at most.
        offset: How many lines to leave out first, to page.

    Raises:
        NotFound: no such artifact.
        InvalidArguments: the pattern is no regular expression.
    """
    last = offset + limit
    if regex:
        hits = await _by_regex(artifacts, files, pattern, id, ignore_case, last + 1)
    else:
        hits = await artifacts.grep(pattern, id=id, ignore_case=ignore_case, limit=last + 1)
    shown = hits[offset:last]
    lines = [f"{hit.id}:{hit.line}: {hit.text}" for hit in shown]
    if len(hits) > last:
        lines.append(f"[lines {offset + 1}-{last}; more exist: offset={last} goes on]")
    nothing = f"Nothing beyond {offset}." if offset and hits else f"No line contains {pattern!r}."
    return ToolResult.from_text(
        "\n".join(lines) or nothing,
        data=[{"id": hit.id, "line": hit.line, "text": hit.text} for hit in shown],
    )


async def _by_regex(
    artifacts: Artifacts, files: Files | None, pattern: str, id: str | None, ignore_case: bool, most: int
) -> Sequence[ArtifactMatch]:
    """By the search of the Files port, which ends a pattern that backtracks without end."""
    if files is None:
        raise Unavailable(
            "regular-expression search is not available here", hint="Leave regex out to look for plain text."
        )
    found: list[ArtifactMatch] = []
    for one in [await artifacts.read(id)] if id is not None else await artifacts.list():
        if one.data is not None or len(found) >= most:
            continue
        query = SearchQuery(
            pattern=pattern, path=one.id, text=one.content, ignore_case=ignore_case, limit=most - len(found)
        )
        matches = (await files.search(query)).matches
        found += [ArtifactMatch(id=one.id, line=match.line, text=match.text) for match in matches]
    return found
