"""CodeIndex: where symbols are defined and used, as language servers know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pegboard.ports.files import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLocation:
    """A place in a file.

    Attributes:
        path: relative to the workspace, absolute outside of it.
        line, column: from 1.
        text: the line; empty if the file may not be read.
    """

    path: str
    line: int
    column: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSymbol:
    """A symbol that a file defines.

    Attributes:
        name: as it is written.
        kind: function, class, and so on.
        path, line: where; see CodeLocation.
        container: the symbol that contains it; empty if none does.
    """

    name: str
    kind: str
    path: str
    line: int
    container: str = ""


class CodeIndex(Protocol):
    """Answers for the files of one workspace; changes nothing.

    Every method raises Unavailable if no language server for the file is installed, or it fails; Unsupported if none
    is known, or it cannot do that; and what Files raises.
    """

    async def definition(self, path: str, symbol: str, *, line: int | None) -> Sequence[CodeLocation]:
        """Where a symbol is defined that `path` uses.

        Args:
            path: a file that uses it.
            symbol: its name.
            line: of the use, from 1; None = the first.

        Raises:
            NotFound: the name does not stand there.
        """
        ...

    async def references(self, path: str, symbol: str, *, line: int | None) -> Sequence[CodeLocation]:
        """Where it is used, its definition included; see `definition`."""
        ...

    async def symbols(self, path: str | None, query: str) -> Sequence[CodeSymbol]:
        """The symbols of a file, or of the whole workspace, whose names hold `query`."""
        ...

    async def rename(self, path: str, symbol: str, new_name: str, *, line: int | None) -> Sequence[Write]:
        """The files as they are after every use has been renamed; changes nothing. See `definition`.

        Raises:
            OutsideWorkspace: a use stands outside the workspace.
        """
        ...
