"""Memory: notes as Markdown files, each with the labels under which it was written in its head."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.context import Context, attach, detach, entered
from pegboard.core.effects import ChangeSet
from pegboard.core.errors import InvalidArguments, NotFound
from pegboard.core.schema.problems import did_you_mean
from pegboard.files.journal import Journal, private_folder
from pegboard.files.workspace import Workspace
from pegboard.ports.files import Delete, Write
from pegboard.ports.memory import NAME, MemoryEntry

_HEAD: Final = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
_UNKNOWN: Final = {"untrusted": "an entry whose head cannot be read"}


def memory_folder(state: Path, workspace: Path) -> Path:
    """Where the entries of a workspace lie, below the folder for state."""
    real = workspace.resolve()
    digest = hashlib.sha256(str(real).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "_", real.name) or "root"
    return state / "memory" / f"{name}-{digest}"


class MemoryFolder:
    """The Memory port over a folder.

    Args:
        folder: made at the first write.
        workspace: whose memory it is; changes are journalled under it.
        journal: where changes go so that they can be undone.
        redact: takes secrets out of what is kept.
        held: what a session holds: label and source.
    """

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        *,
        journal: Journal,
        redact: Callable[[str], str] = str,
        held: Callable[[Context], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._folder = folder
        self._workspace = workspace
        self._journal = journal
        self._redact = redact
        self._held = held
        self._opened: Workspace | None = None

    def entries(self) -> list[MemoryEntry]:
        """All entries, the newest first."""
        if not self._folder.is_dir():
            return []
        names = [p.stem for p in self._folder.glob("*.md") if re.fullmatch(NAME, p.stem) and p.is_file()]
        return sorted(map(self.read, names), key=lambda e: (-e.changed, e.name))

    def read(self, name: str) -> MemoryEntry:
        """See Memory."""
        file = self._file(name)
        try:
            # Some editors put a byte order mark in front.
            text, changed = file.read_text(encoding="utf-8-sig", errors="replace"), file.stat().st_mtime
        except OSError:
            known = [p.stem for p in self._folder.glob("*.md")] if self._folder.is_dir() else []
            raise NotFound(
                f"the memory has no entry {name!r}{did_you_mean(name, known, otherwise='')}",
                hint="memory_search without words lists all entries.",
            ) from None
        head = _HEAD.match(text)
        labels, session = _read_head(head[1] if head else "")
        return MemoryEntry(
            name=name,
            text=text[head.end() :] if head else text,
            labels=labels,
            session=session,
            changed=changed,
        )

    def search(self, query: str, *, limit: int) -> Sequence[MemoryEntry]:
        """See Memory."""
        entries = self.entries()
        if not query.strip():
            return entries[:limit]
        from pegboard.core.tool_search import TextIndex

        index = TextIndex(
            ({"name": e.name.replace("-", " "), "text": e.text} for e in entries), {"name": 3.0, "text": 1.0}
        )
        return [entries[i] for i, _ in index.search(query, limit=limit)]

    def labels(self, context: Context) -> dict[str, str]:
        """See Memory."""
        return dict(self._held(context))

    async def propose(self, name: str, text: str, context: Context) -> ChangeSet:
        """See Memory."""
        head = {"labels": self.labels(context), "session": context.session}
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
        body = self._redact("\n".join(["---", *lines, "---", text.rstrip("\n"), ""]))
        return await self._files().propose(
            [Write(path=str(self._file(name)), data=body.encode("utf-8", "replace"))]
        )

    async def propose_removal(self, name: str) -> ChangeSet:
        """The change that forgetting an entry would make; changes nothing.

        Raises:
            NotFound: there is none of that name.
        """
        self.read(name)
        return await self._files().propose([Delete(path=str(self._file(name)))])

    async def commit(self, changes: ChangeSet) -> Any:
        """See Memory."""
        # The call was authorised for the entry; the file that holds it is ours to know.
        here = entered()
        context = here if here is None or isinstance(here, Context) else here.context
        if context is None or context.effects is None:
            return await self._files().commit(changes)
        before = attach(replace(context, effects=(*context.effects, *changes.effects())))
        try:
            return await self._files().commit(changes)
        finally:
            detach(before)

    def close(self) -> None:
        """Let go of the folder."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _file(self, name: str) -> Path:
        if not re.fullmatch(NAME, name):
            raise InvalidArguments(
                f"{name!r} is not the name of an entry",
                hint="Use small letters, digits and hyphens, at most 64, for example build-commands.",
            )
        return self._folder / f"{name}.md"

    def _files(self) -> Workspace:
        """The workspace with this folder beside it, so that the journal knows the change as one of the workspace."""
        if self._opened is None:
            private_folder(self._folder)
            self._opened = Workspace(
                self._workspace, journal=self._journal, allowed_dirs=[self._folder], protected=()
            )
        return self._opened


def _read_head(head: str) -> tuple[dict[str, str], str]:
    """Labels and session. Without a head that can be read a note is of unknown origin, and so untrusted."""
    found: dict[str, Any] = {}
    try:
        # Not splitlines: JSON leaves U+0085 and U+2028 of a source as they are.
        for line in head.split("\n"):
            key, _, value = line.partition(": ")
            found[key] = json.loads(value)
        labels = cast("dict[object, object]", found["labels"])
        return {str(k): str(v) for k, v in labels.items()}, str(found.get("session", ""))
    except (ValueError, KeyError, AttributeError):
        return dict(_UNKNOWN), ""
