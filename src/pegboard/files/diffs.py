"""What a change of one file looks like to people: a unified diff, or a line for links, modes and moves."""

from __future__ import annotations

import stat
from typing import Final

from pegboard.files.names import shown
from pegboard.textedit import diff

MAX_CHARS: Final = 200_000
"""A longer diff of one file is cut; the change itself is never cut."""


def unified(
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    moved_to: str | None = None,
    mode: int | None = None,
) -> str:
    """The diff of one file; one line for binary content, links and new modes.

    Args:
        path: as shown in the header.
        before, after: whole contents, None where the file is not there.
        moved_to: the new path of a move.
        mode: the new mode; a link's content is its target.
    """
    if before != after and mode is not None and stat.S_ISLNK(mode):
        return f"Symbolic link {shown(path)}: {_link(before)} -> {_link(after)}\n"
    if before == after and moved_to is None:
        return f"mode {shown(path)} => {stat.S_IMODE(mode or 0):o}\n"
    return diff.unified(
        shown(path),
        before,
        after,
        moved_to=None if moved_to is None else shown(moved_to),
        max_chars=MAX_CHARS,
        visible_returns=True,
    )


def _link(target: bytes | None) -> str:
    return "none" if target is None else shown(target.decode("utf-8", "backslashreplace"))
