"""Search in a text that is no file of the workspace: a spilled result, an artifact."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from pegboard.files.grep import search
from pegboard.ports.files import GrepResult, SearchQuery


def search_text(query: SearchQuery) -> GrepResult:
    """What `search` finds in `query.text`, under the name `query.path`.

    By way of a file of mode 0600, so that the engines are the same and a pattern that backtracks without
    end is ended as in any file.

    Raises:
        InvalidArguments, TimedOut: as `search`.
    """
    name = query.path.replace("/", "_")[:100]
    with tempfile.TemporaryDirectory(prefix="pegboard-search-") as folder:
        file = Path(folder).resolve() / name
        file.touch(mode=0o600)
        file.write_bytes((query.text or "").encode("utf-8", "replace"))
        found = search(file.parent, replace(query, path=name, text=None, glob=None, type=None))
    return replace(
        found,
        matches=tuple(replace(match, path=query.path) for match in found.matches),
        counts=tuple((query.path, count) for _, count in found.counts),
    )
