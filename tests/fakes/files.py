"""MemoryFiles: the Files port in a dict, held to the same contract as Workspace."""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import posixpath
import re
from collections.abc import Sequence

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import Conflict, InvalidArguments, NotFound, OutsideWorkspace, TooLarge, Unsupported
from pegboard.ports.files import (
    DirectoryEntry,
    DirectoryListing,
    GrepMatch,
    GrepResult,
    Move,
    ResolvedPath,
    SearchQuery,
    Slice,
    Wanted,
    Write,
)  # fmt: skip


class MemoryFiles:
    """Text or bytes by path: `files["a"]` is the text now, `data` all bytes, `commits` what was carried out."""

    def __init__(self, files: dict[str, str | bytes] | None = None) -> None:
        self.data = {path: d.encode() if isinstance(d, str) else d for path, d in (files or {}).items()}
        self.commits: list[ChangeSet] = []

    def __getitem__(self, path: str) -> str:
        return self.data[path].decode()

    def _at(self, path: str) -> str:
        if "\0" in path or not path.strip():
            raise InvalidArguments(f"{path!r} is not a path.")
        target = posixpath.normpath(path)
        if target.startswith(("/", "../", "~")) or target == "..":
            raise OutsideWorkspace(f"{path} is outside the workspace.")
        return target

    def _is_dir(self, target: str) -> bool:
        return target == "." or any(path.startswith(target + "/") for path in self.data)

    def _file(self, path: str) -> bytes:
        target = self._at(path)
        if target in self.data:
            return self.data[target]
        raise (
            Unsupported(f"{path} is a folder.")
            if self._is_dir(target)
            else NotFound(f"File not found: {path}")
        )

    async def resolve(self, path: str, *, write: bool = False) -> ResolvedPath:
        try:
            target = self._at(path)
        except OutsideWorkspace:
            return ResolvedPath(target=posixpath.join("/", path), exists=False, kind="file", inside=False)
        size, is_dir = len(self.data.get(target, b"")), self._is_dir(target)
        exists = is_dir or target in self.data
        return ResolvedPath(
            target=target, exists=exists, kind="dir" if is_dir else "file", inside=True, size=size
        )

    async def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        data = self._file(path)
        if limit is not None and len(data) > limit:
            raise TooLarge(f"{path} is {len(data)} bytes; the limit is {limit}.")
        return data

    async def read_slice(self, path: str, *, offset: int = 1, limit: int | None = None) -> Slice:
        data = self._file(path)
        lines = data.decode().replace("\r\n", "\n").splitlines(keepends=True)
        start = offset - 1 if offset > 0 else max(len(lines) + offset, 0)
        part = lines[start : start + (2000 if limit is None else limit)]
        return Slice(
            text="".join(part), first=start + 1 if part else 0, last=start + len(part) if part else 0,
            total=len(lines), encoding="utf-8", newline="\r\n" if b"\r\n" in data else "\n",
            sha256=hashlib.sha256(data).hexdigest(), size=len(data),
        )  # fmt: skip

    async def list(
        self,
        path: str = ".",
        *,
        pattern: str | None = None,
        depth: int = 1,
        limit: int = 1000,
        hidden: bool = False,
        no_ignore: bool = False,
        ignore_case: bool = False,
        exclude: str | None = None,
    ) -> DirectoryListing:
        if pattern is not None:
            return self._matching(pattern, path, limit)
        base = "" if (target := self._at(path)) == "." else target + "/"
        if target in self.data:
            raise Unsupported(f"{path} is a file, not a folder.")
        if not self._is_dir(target):
            raise NotFound(f"Directory not found: {path}")
        found: dict[str, DirectoryEntry] = {}
        for name in sorted(name[len(base) :] for name in self.data if name.startswith(base)):
            parts = name.split("/")
            for level in range(1, min(depth, len(parts)) + 1):
                kind, key = "file" if level == len(parts) else "dir", "/".join(parts[:level])
                found[key] = DirectoryEntry(
                    path=key, kind=kind, size=len(self.data[base + name]) if kind == "file" else 0
                )
        entries = sorted(found.values(), key=lambda e: (e.path.rpartition("/")[0], e.kind != "dir", e.path))
        return DirectoryListing(entries=tuple(entries[:limit]), truncated=len(entries) > limit)

    def _matching(self, pattern: str, path: str, limit: int) -> DirectoryListing:
        base = "" if (target := self._at(path)) == "." else target + "/"
        names = [name[len(base) :] for name in self.data if name.startswith(base)]
        regex = re.compile(fnmatch.translate(pattern).replace(".*.*/", "(?:.*/)?"))
        hits = [
            DirectoryEntry(path=n, kind="file", size=len(self.data[base + n]))
            for n in names
            if regex.match(n)
        ]
        return DirectoryListing(entries=tuple(hits[:limit]), truncated=len(hits) > limit)

    async def search(self, query: SearchQuery) -> GrepResult:
        pattern = re.compile(re.escape(query.pattern) if query.fixed_strings else query.pattern)
        texts = {path: self.data[path].decode(errors="replace") for path in sorted(self.data)}
        if query.text is not None:
            texts = {query.path: query.text}
        hits = [
            GrepMatch(path=path, line=number, text=line)
            for path, text in texts.items()
            for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line)
        ]
        shown = hits[query.offset : query.offset + query.limit]
        more = len(hits) > query.offset + query.limit
        return GrepResult(matches=tuple(shown), total=len(hits), truncated=more, searched=len(texts))

    async def propose(self, wanted: Sequence[Wanted]) -> ChangeSet:
        after = dict(self.data)
        for want in wanted:
            target = self._at(want.path)
            if not isinstance(want, Write):
                if target not in after:
                    raise NotFound(f"File not found: {want.path}")
                data = after.pop(target)
                if isinstance(want, Move):
                    if self._at(want.to) in after:
                        raise Conflict(f"{want.to} exists already.")
                    after[self._at(want.to)] = data if want.data is None else want.data
                continue
            if self._is_dir(target):
                raise Unsupported(f"{want.path} is a folder.")
            now = hashlib.sha256(after[target]).hexdigest() if target in after else None
            if want.expected_sha256 not in (None, now) or want.expected not in (None, after.get(target)):
                raise Conflict(f"{want.path} is not what was expected.")
            after[target] = want.data
        moved = {self._at(w.path): self._at(w.to) for w in wanted if isinstance(w, Move)}
        changed = [p for p in dict.fromkeys([*self.data, *after]) if self.data.get(p) != after.get(p)]
        return ChangeSet(tuple(self._change(p, after, moved) for p in changed if p not in moved.values()))

    def _change(self, path: str, after: dict[str, bytes], moved: dict[str, str]) -> Change:
        old, new = self.data.get(path), after.get(moved.get(path, path))
        kind = "move" if path in moved else "create" if old is None else "delete" if new is None else "modify"
        texts = [(d or b"").decode(errors="replace").splitlines(keepends=True) for d in (old, new)]
        diff = "".join(difflib.unified_diff(texts[0], texts[1], "a/" + path, "b/" + path))
        diff = diff or f"rename from {path}\nrename to {moved.get(path)}\n"
        return Change(path=path, kind=kind, before=old, after=new, moved_to=moved.get(path), diff=diff)

    async def commit(self, changes: ChangeSet) -> ChangeSet:
        if any(self.data.get(change.path) != change.before for change in changes.changes):
            raise Conflict("a file is no longer as it was; nothing was changed.")
        for change in changes.changes:
            self.data.pop(change.path, None)
            if change.after is not None:
                self.data[change.moved_to or change.path] = change.after
        self.commits.append(changes)
        return changes
