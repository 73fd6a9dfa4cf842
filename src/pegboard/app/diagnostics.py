"""What a write broke, and the language servers of a session: started confined, when they are first needed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.core.call.call import WriteReport
from pegboard.core.effects import Change
from pegboard.core.errors import Unavailable

if TYPE_CHECKING:
    from pegboard.config.diagnostics import DiagnosticsSettings
    from pegboard.config.load import Config
    from pegboard.lsp.checks import CheckedWrites
    from pegboard.lsp.pool import ServerPool
    from pegboard.shell.sandbox.confinement import Backend


class SessionWriteChecks:
    """Implements `core.call.call.WriteChecks`; nothing is loaded before a file changes that something looks at.

    Args:
        settings: what looks at which files.
        root: real path of the workspace.
        pool: gives the session's programs.
        closers: takes what ends them with the session.
    """

    def __init__(
        self,
        settings: DiagnosticsSettings,
        root: Path,
        *,
        pool: Callable[[], ServerPool],
        closers: list[Callable[[], Any]],
    ) -> None:
        self._settings = settings
        self._root = root
        self._pool = pool
        self._closers = closers
        self._checks: CheckedWrites | None = None

    async def check(self, changes: Sequence[Change]) -> WriteReport | None:
        """See WriteChecks."""
        settings = self._settings
        if not any(settings.wants(change.moved_to or change.path) for change in changes):
            return None
        if self._checks is None:
            from pegboard.lsp.checks import CheckedWrites

            pool = self._pool() if settings.files else None
            self._checks = CheckedWrites(self._root, checkers=settings.files, pool=pool)
            # Behind the pool's, since the last is the first to be called.
            self._closers.append(self._checks.aclose)
        return await self._checks.check(changes)


def server_pool(root: Path, config: Config, choose: Callable[[str], Backend]) -> ServerPool:
    """Language servers and checkers, found on the PATH that commands have.

    Args:
        root: real path of the workspace.
        config: the settings.
        choose: the sandbox in which programs see the installations of a search path, and cannot write the workspace.
    """
    from pegboard.config.environment import environment as this_environment
    from pegboard.lsp.pool import ServerPool
    from pegboard.lsp.programs import KNOWN
    from pegboard.shell.environment import command_environment

    environment = command_environment(this_environment(), {}, prepend=config.path_prepend)
    path = environment["PATH"]

    def open_programs() -> Any:
        from pegboard.shell.programs import ConfinedPrograms

        checkers = [*KNOWN.values(), *(c for several in config.diagnostics.files.values() for c in several)]
        found = (shutil.which(checker.argv[0], path=path) for checker in checkers)
        # A link to a program leads into the installation that it needs.
        folders = [str(Path(program).resolve().parent) for program in found if program]
        backend = choose(os.pathsep.join(dict.fromkeys([*path.split(os.pathsep), *folders])))
        if backend.name == "none" and config.sandbox != "none":
            raise Unavailable(
                "language servers and checkers run in the sandbox, and no sandbox works here",
                hint="The user can run `pegboard doctor` to see why.",
            )
        return ConfinedPrograms(root, backend=backend, environment=environment).start

    return ServerPool(root, open_programs=open_programs, which=lambda name: shutil.which(name, path=path))
