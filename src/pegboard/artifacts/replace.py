"""Replacing one text in an artifact: exactly, else approximately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pegboard.core.errors import InvalidArguments, NotFound, NotUnique
from pegboard.textedit.closest import closest, find_near


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceResult:
    """The text afterwards, and what was replaced in it."""

    text: str
    matched: str
    similarity: float
    update_type: Literal["update", "update_fuzzy"]


def replace_once(text: str, old: str, new: str, name: str) -> ReplaceResult:
    """Replace the one place of `old`, exact before approximate.

    Args:
        text: the artifact's content.
        old: what to replace, not empty.
        new: what stands in its place.
        name: the artifact's id, for messages.

    Raises:
        InvalidArguments: `old` is empty or equals `new`.
        NotUnique: `old` occurs several times, or two places are about as near.
        NotFound: nothing is near enough; the closest text is shown.
    """
    if not old or old == new:
        raise InvalidArguments("old_str is empty or equals new_str, so nothing would change")
    count = text.count(old)
    if count == 1:
        at = text.index(old)
        return ReplaceResult(
            text=text[:at] + new + text[at + len(old) :], matched=old, similarity=1.0, update_type="update"
        )
    if count > 1:
        raise NotUnique(
            f"old_str occurs {count} times in artifact '{name}'",
            hint="Include neighbouring text so that it occurs once.",
            details={"count": count},
        )
    near = find_near(text, old)
    if near is not None and near.rivals:
        raise NotUnique(
            f"old_str is not in artifact '{name}', and {near.rivals + 1} places match about equally well",
            hint="Copy the text exactly, with neighbouring text.",
        )
    if near is None:
        hint = closest(text, old, name)
        shown = f"\nThe closest text begins at line {hint.line}:\n{hint.diff}\n" if hint else ""
        raise NotFound(
            f"old_str is not in artifact '{name}', and nothing is similar enough{shown}",
            hint="Read the artifact and copy the text exactly.",
        )
    return ReplaceResult(
        text=text[: near.start] + new + text[near.end :],
        matched=text[near.start : near.end],
        similarity=near.similarity,
        update_type="update_fuzzy",
    )
