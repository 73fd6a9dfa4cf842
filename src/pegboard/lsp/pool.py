"""ServerPool: the language servers and checkers of one session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from pegboard.core.errors import Unavailable
from pegboard.lsp.programs import Checker
from pegboard.lsp.server import LanguageServer, Program, StartProgram


class ServerPool:
    """Starts programs when they are first needed, and ends them together.

    Args:
        root: real path of the workspace.
        open_programs: gives what starts programs, confined; called once, when the first is needed.
        which: finds a program; None if it is not installed.
    """

    def __init__(
        self, root: Path, *, open_programs: Callable[[], StartProgram], which: Callable[[str], str | None]
    ) -> None:
        self.root = root
        self._open_programs = open_programs
        self._which = which
        self._starter: StartProgram | None = None
        self._servers: dict[str, LanguageServer] = {}

    def installed(self, checker: Checker) -> bool:
        """Whether its program is there."""
        return self._which(checker.argv[0]) is not None

    def server(self, checker: Checker) -> LanguageServer:
        """The session's server, which may not have been started yet."""
        if checker.name not in self._servers:
            self._servers[checker.name] = LanguageServer(checker, root=self.root, start=self.start)
        return self._servers[checker.name]

    @property
    def servers(self) -> tuple[LanguageServer, ...]:
        """Those that have been used in this session."""
        return tuple(self._servers.values())

    async def start(self, argv: Sequence[str], on_output: Callable[[bytes], None]) -> Program:
        """Start a program.

        Raises:
            Unavailable: it is not installed, or cannot be started confined.
        """
        program = self._which(argv[0])
        if program is None:
            raise Unavailable(f"{argv[0]} is not installed", hint="The user can install it.")
        if self._starter is None:
            # Finding a sandbox that works runs something in it.
            self._starter = await asyncio.to_thread(self._open_programs)
        return await self._starter((program, *argv[1:]), on_output)

    async def aclose(self) -> None:
        """End them all."""
        servers = [*self._servers.values()]
        self._servers.clear()
        for server in servers:
            await server.stop()
