"""A workspace with the fake language server, and writes in it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pegboard.core.call.call import WriteReport
from pegboard.core.effects import Change
from pegboard.lsp.checks import CheckedWrites
from pegboard.lsp.pool import ServerPool
from pegboard.lsp.programs import Checker
from pegboard.shell.programs import ConfinedPrograms
from pegboard.shell.sandbox.none import Unconfined

FAKE = Path(__file__).parents[1] / "fakes/language_server.py"
PATIENT_S = 60.0
"""How long a check may take where the test is not about that: the machine may be busy."""


def toy(*behaviour: str, name: str = "toy") -> Checker:
    """The fake server."""
    return Checker(name=name, argv=(sys.executable, str(FAKE), *behaviour))


def command(*argv: str, name: str = "lint") -> Checker:
    """A command that checks."""
    return Checker(name=name, argv=argv, kind="command")


def pool_in(root: Path) -> ServerPool:
    """Programs without a sandbox: confinement is tried elsewhere."""
    programs = ConfinedPrograms(root, backend=Unconfined(), environment=dict(os.environ))
    return ServerPool(root, open_programs=lambda: programs.start, which=shutil.which)


class Work:
    """A workspace whose writes are checked.

    Args:
        root: an empty folder.
        checkers: for every file.
    """

    def __init__(
        self, root: Path, *checkers: Checker, limit_s: float = PATIENT_S, pattern: str = "*"
    ) -> None:
        self.root = root.resolve()
        self.pool = pool_in(self.root)
        self.checks = CheckedWrites(self.root, checkers={pattern: checkers}, pool=self.pool, limit_s=limit_s)

    async def __aenter__(self) -> Work:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.checks.aclose()
        await self.pool.aclose()

    async def write(self, files: dict[str, str | None] | None = None, /, **more: str) -> WriteReport | None:
        """Write some files (None deletes one) and check them, as a call does."""
        changes: list[Change] = []
        named: dict[str, Any] = {**(files or {}), **{f"{name}.toy": text for name, text in more.items()}}
        for name, text in named.items():
            path = self.root / name
            before = path.read_bytes() if path.exists() else None
            after = None if text is None else text.encode()
            if after is None:
                path.unlink()
            else:
                path.write_bytes(after)
            kind = "delete" if after is None else "create" if before is None else "modify"
            changes.append(Change(path=name, kind=kind, before=before, after=after))
        return await self.checks.check(changes)


def lines(report: WriteReport | None) -> list[str]:
    """What a report says, without its first line."""
    return [] if report is None else report.text.splitlines()[1:]
