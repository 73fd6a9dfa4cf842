"""update_artifact: replace one text in an artifact."""

from __future__ import annotations

from typing import Annotated, Final

from pegboard.core.effects import PURE
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, Verbatim
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts

_SHOWN: Final = 200


@tool(effects=PURE, hints=("update an artifact", "change part of an artifact"))
async def update_artifact(
    id: Annotated[str, Alias("artifact_id", "name")],
    old_str: Annotated[str, Alias("old_string", "old_text")],
    new_str: Annotated[str, Verbatim(), Alias("new_string", "new_text")],
    expected_version: int | None = None,
    *,
    artifacts: Inject[Artifacts],
) -> ToolResult:
    """Replace one text in an artifact; older versions are kept.

    `old_str` must occur once. A text with a slip in it still matches where one place is near enough; the
    answer then shows what was replaced.

    Args:
        id: The artifact.
        old_str: The text to replace.
        new_str: The text to put in its place.
        expected_version: Refuse if the newest version is another one.

    Raises:
        NotFound: no such artifact, or nothing near enough; the closest text is shown.
        NotUnique: the text occurs several times.
        Conflict: the newest version is not the expected one; what changed is shown.
    """
    done = await artifacts.update(id, old=old_str, new=new_str, expected_version=expected_version)
    text = f"Updated artifact '{id}' (version {done.version.version})"
    if done.version.update_type == "update_fuzzy":
        text += (
            f"\nNote: old_str was matched approximately ({done.similarity:.0%} similar); check the result."
            f"\nExpected: {_cut(old_str)}\nMatched: {_cut(done.matched)}"
        )
    return ToolResult.from_text(
        text,
        data={
            "id": id,
            "version": done.version.version,
            "update_type": done.version.update_type,
            "similarity": round(done.similarity, 3),
            "matched": done.matched,
        },
    )


def _cut(text: str) -> str:
    """The first 200 characters."""
    return text if len(text) <= _SHOWN else clip(text, 0, _SHOWN) + "…"
