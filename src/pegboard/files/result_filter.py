"""Which of the files that a search engine found count, and which it may not judge."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from pegboard.core.errors import NotFound, Unsupported
from pegboard.files.decoding import needs_decoding
from pegboard.files.filters import NameFilter
from pegboard.files.ignore import Scope, scope_of
from pegboard.files.search_engines import path_order
from pegboard.files.slices import HEAD_BYTES
from pegboard.files.walk import enter_scope, open_beneath, open_folder
from pegboard.ports.files import SearchQuery
from pegboard.textedit.encoding import bom_encoding

Verdict: TypeAlias = Literal["yes", "no", "binary", "decode"]


class ResultFilter:
    """Whether a file that an engine found counts; each file is judged once."""

    def __init__(
        self,
        dir_fd: int,
        query: SearchQuery,
        names: NameFilter,
        *,
        denied: Callable[[str], bool] | None,
        alone: bool,
    ) -> None:
        """What counts below an open folder; `alone` where the search is for one named file of it."""
        self._folder = dir_fd
        self._query = query
        self._alone = alone
        self._accept = names.accept()
        self._denied = denied
        self._known: dict[str, Verdict] = {}
        self.decode: frozenset[str] | None = None
        """The files that must be decoded before they are searched; None = those where the first bytes say so."""
        self._scopes: dict[str, Scope | None] = {}

    def of(self, path: str) -> Verdict:
        """`binary` for a file that matches but may not be shown, `decode` for one that ripgrep may not judge."""
        if path not in self._known:
            self._known[path] = self._judge(path)
        return self._known[path]

    def to_decode(self) -> list[str]:
        """The files to decode, in path order."""
        paths = self._known if self.decode is None else self.decode
        return sorted((path for path in paths if self.of(path) == "decode"), key=path_order)

    def _judge(self, path: str) -> Verdict:
        if self._denied is not None and self._denied(path):
            return "no"
        if not self._alone:
            if self._accept is not None and not self._accept(path):
                return "no"
            if not self._query.hidden and any(part.startswith(".") for part in path.split("/")):
                return "no"
            if not self._query.no_ignore and self._ignored(path):
                return "no"
        fd = open_beneath(self._folder, path)
        if fd is None:
            return "no"
        try:
            head = os.read(fd, HEAD_BYTES)
            marked = (bom_encoding(head[:4]) or "").startswith(("utf-16", "utf-32"))
            if b"\0" in head and not marked:
                return "binary"
            other = needs_decoding(fd, head) if self.decode is None else path in self.decode
        except OSError:
            return "no"
        finally:
            os.close(fd)
        return "decode" if other else "yes"

    def _ignored(self, path: str) -> bool:
        """Git's own answer: ripgrep lets a file through that a glob names, and knows one rule less."""
        folder, _, name = path.rpartition("/")
        scope = self._scope(folder)
        return scope is None or scope.ignored(name, is_dir=False)

    def _scope(self, folder: str) -> Scope | None:
        """The rules in a folder, None where the folder itself is ignored."""
        if folder in self._scopes:
            return self._scopes[folder]
        if not folder:
            scope: Scope | None = scope_of(real_path(self._folder))
        else:
            parent, _, name = folder.rpartition("/")
            outer = self._scope(parent)
            scope = None
            if outer is not None and not outer.ignored(name, is_dir=True):
                try:
                    fd = open_folder(Path(f"/proc/self/fd/{self._folder}"), folder)
                except (NotFound, Unsupported):
                    fd = -1
                if fd >= 0:
                    scope = enter_scope(fd, name, outer)
                    os.close(fd)
        self._scopes[folder] = scope
        return scope


def real_path(dir_fd: int) -> Path:
    """Where an open folder lies now."""
    return Path(os.path.realpath(f"/proc/self/fd/{dir_fd}"))
