"""CheckedWrites: what the writes of a session broke, by Python's compiler and the checkers that the settings name."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from pegboard.core.call.call import WriteReport
from pegboard.core.effects import Change
from pegboard.core.errors import ToolError
from pegboard.core.policy.patterns import path_glob
from pegboard.lsp.diagnostics import (
    Diagnostic,
    changed_lines,
    diagnostics_in,
    is_python,
    keys_of,
    new_problems,
    python_syntax,
    text_of,
)
from pegboard.lsp.pool import ServerPool
from pegboard.lsp.programs import Checker
from pegboard.lsp.server import MAX_TEXT, LanguageServer, StartProgram

LIMIT_S: Final = 2.0
"""Seconds that a result waits for its checks."""

COMMAND_S: Final = 60.0
"""Seconds after which a command that checks is ended."""

_MAX_OUTPUT: Final = 1024 * 1024
_KEPT_FILES: Final = 5000

Known: TypeAlias = Counter[tuple[str, str]]
_Contents: TypeAlias = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A text file that a call has changed.

    Attributes:
        path: relative to the workspace.
        before, after: its text; None if there was, or is, no such file.
    """

    path: str
    before: str | None
    after: str | None


class Looker(Protocol):
    """One checker at work."""

    async def look(
        self, changed: Sequence[Changed], told: dict[str, Known]
    ) -> Mapping[str, list[Diagnostic]]:
        """Every problem in the changed files now, and in others as far as it is known.

        Args:
            changed: each file once.
            told: what stood in a file before; files that are missing here are added, where the checker can know it.

        Raises:
            ToolError: it does not work.
        """
        ...

    async def stop(self) -> None:
        """End what it has started."""
        ...


class ServerLooker:
    """A language server as a checker: it is shown the text before and the text after."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server

    async def look(
        self, changed: Sequence[Changed], told: dict[str, Known]
    ) -> Mapping[str, list[Diagnostic]]:
        """See Looker."""
        server = self._server
        async with server.lock:
            unknown: list[str] = []
            for one in changed:
                seen = server.documents.get(one.path)
                if one.before is None:
                    told[one.path] = Counter()
                elif one.path not in told or seen is None or seen.text != one.before:
                    await server.sync(one.path, one.before)
                    unknown.append(one.path)
            if unknown:
                found = await server.problems(unknown)
                told.update({path: keys_of(found.get(path, ())) for path in unknown})
            here: list[str] = []
            for one in changed:
                if one.after is None:
                    await server.close(one.path)
                else:
                    await server.sync(one.path, one.after)
                    here.append(one.path)
            await server.refresh(but=here)
            return await server.problems(here) if here else {}

    async def stop(self) -> None:
        """End the server."""
        await self._server.stop()


class CommandLooker:
    """A command as a checker. It sees the files as they are now.

    Of a file that it sees for the first time, only problems in changed lines count as new.
    """

    def __init__(
        self, checker: Checker, *, root: Path, start: StartProgram, limit_s: float = COMMAND_S
    ) -> None:
        self._checker = checker
        self._root = str(root)
        self._start = start
        self._limit_s = limit_s
        self._ran = False

    async def look(
        self, changed: Sequence[Changed], told: dict[str, Known]
    ) -> Mapping[str, list[Diagnostic]]:
        """See Looker."""
        paths = [one.path for one in changed if one.after is not None]
        if not paths:
            return {}
        argv: list[str] = []
        for word in self._checker.argv:
            # `./` so that no file name is taken for an option.
            argv += [f"./{path}" for path in paths] if word == "{file}" else [word]
        by_path: dict[str, list[Diagnostic]] = {path: [] for path in paths}
        for one in diagnostics_in(await self._output(argv), self._checker.name, self._root):
            by_path.setdefault(one.path, []).append(one)
        whole = "{file}" not in self._checker.argv
        for path, found in by_path.items():
            if path not in told and path not in paths:
                # What it did not name the last time had no problems then.
                told[path] = Counter() if whole and self._ran else keys_of(found)
        for one in changed:
            if one.after is None or one.path in told:
                continue
            if whole and self._ran:
                told[one.path] = Counter()
            else:
                lines = changed_lines(one.before, one.after)
                told[one.path] = keys_of(d for d in by_path[one.path] if d.line not in lines)
        self._ran = True
        # A problem that the command no longer names has gone, in every file.
        return {path: [] for path in told} | by_path

    async def _output(self, argv: Sequence[str]) -> str:
        output = bytearray()

        def on_output(data: bytes) -> None:
            if len(output) < _MAX_OUTPUT:
                output.extend(data)

        program = await self._start(argv, on_output)
        try:
            async with asyncio.timeout(self._limit_s):
                await program.wait()
        except TimeoutError:
            raise ToolError(f"{self._checker.name} did not end within {self._limit_s:g} s") from None
        finally:
            await asyncio.shield(program.end())
        if program.exit_code in (126, 127) and not output:
            raise ToolError(f"{self._checker.name} could not be run: {program.last_words}")
        # Linters write to the one, compilers and shells to the other.
        return output.decode("utf-8", "replace") + "\n" + program.errors

    async def stop(self) -> None:
        """Nothing of it runs between looks."""


class _Watch:
    """One checker over a session: what was told of its findings, and what it still has to look at.

    A look that takes longer than a result waits goes on, and what it found is told with the next result.

    Attributes:
        failure: why its last look failed; empty if it did not.
    """

    def __init__(self, looker: Looker) -> None:
        self.failure = ""
        self._looker = looker
        self._told: dict[str, Known] = {}
        self._found: dict[str, list[Diagnostic]] = {}
        self._left: dict[str, Changed] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, changed: Sequence[Changed]) -> asyncio.Task[None]:
        """Look at these files, after those that wait already; the task ends when nothing is left."""
        for one in changed:
            before = self._left.get(one.path)
            self._left[one.path] = one if before is None else replace(one, before=before.before)
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            # In an empty context: it may outlive the call.
            self._task = loop.create_task(self._work(), context=contextvars.Context())
        return self._task

    async def _work(self) -> None:
        while self._left:
            changed, self._left = [*self._left.values()], {}
            try:
                self._found.update(await self._looker.look(changed, self._told))
                self.failure = ""
            except ToolError as error:
                self.failure = error.message

    @property
    def done(self) -> bool:
        """Whether nothing is left to look at."""
        return self._task is None or self._task.done()

    def tell(self) -> list[Diagnostic]:
        """What is new since the last time; from now on it is known."""
        if self._task is not None and not self._task.cancelled():
            self._task.result()  # Raises what is a defect of ours, and no failure of the checker.
        out: list[Diagnostic] = []
        for path, found in self._found.items():
            if path in self._told:
                out += new_problems(found, self._told[path])
            self._told[path] = keys_of(found)
        while len(self._told) > _KEPT_FILES:
            del self._told[next(iter(self._told))]
        self._found.clear()
        return out

    async def stop(self) -> None:
        """End it with what it has started."""
        task = self._task
        if task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])
        await self._looker.stop()


class CheckedWrites:
    """Says what a write broke; implements `core.call.call.WriteChecks`.

    Args:
        root: real path of the workspace.
        checkers: by pattern of a file's path, as rules have them.
        pool: the session's programs; None = there are no checkers, and only Python is compiled.
        limit_s: see LIMIT_S.
    """

    def __init__(
        self,
        root: Path,
        *,
        checkers: Mapping[str, Sequence[Checker]] | None = None,
        pool: ServerPool | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._root = root
        self._checkers = [(path_glob(pattern), several) for pattern, several in (checkers or {}).items()]
        self._pool = pool
        self._limit_s = limit_s
        self._watches: dict[str, _Watch] = {}
        self._remarked: set[str] = set()

    async def check(self, changes: Sequence[Change]) -> WriteReport | None:
        """See WriteChecks."""
        files = _files(changes)
        remarks: list[str] = []
        watched = self._watched(files, remarks)
        looking = {name: self._watches[name].add(several) for name, several in watched.items()}
        compiled = asyncio.ensure_future(asyncio.to_thread(_python, files))
        await asyncio.wait([*looking.values(), compiled], timeout=self._limit_s)
        found = compiled.result() if compiled.done() else []
        pending: list[str] = []
        for name, watch in self._watches.items():
            if not watch.done:
                if name in looking:
                    pending.append(name)
                    remarks.append(f"{name} is still checking; what it finds is said after the next write")
                continue
            # Of one that does not look at these files too: it may have been late before.
            found += watch.tell()
            if watch.failure:
                self._remark(remarks, f"not checked with {name}: {watch.failure}")
        if not found and not remarks:
            return None
        data = {"new": [one.to_dict() for one in found], "pending": pending, "remarks": remarks}
        return WriteReport(text=text_of(found, remarks), data=data)

    def _watched(self, files: Mapping[str, _Contents], remarks: list[str]) -> dict[str, list[Changed]]:
        """The files that each checker looks at."""
        out: dict[str, list[Changed]] = {}
        if self._pool is None or not self._checkers:
            return out
        for path, (before, after) in files.items():
            # Notes and the like have names that are not paths.
            if path.startswith("/") or not (after is None or (self._root / path).is_file()):
                continue
            named = {c.name: c for matches, several in self._checkers if matches(path) for c in several}
            one = _changed(path, before, after) if named else None
            if one is None:
                continue
            for checker in named.values():
                if not self._pool.installed(checker):
                    how = f" ({checker.install})" if checker.install else ""
                    self._remark(
                        remarks, f"not checked with {checker.name}: {checker.argv[0]} is not installed{how}"
                    )
                    continue
                if checker.name not in self._watches:
                    self._watches[checker.name] = _Watch(self._looker(checker))
                out.setdefault(checker.name, []).append(one)
        return out

    def _looker(self, checker: Checker) -> Looker:
        assert self._pool is not None
        if checker.kind == "server":
            return ServerLooker(self._pool.server(checker))
        return CommandLooker(checker, root=self._root, start=self._pool.start)

    def _remark(self, remarks: list[str], remark: str) -> None:
        """Say something once in a session."""
        if remark not in self._remarked:
            self._remarked.add(remark)
            remarks.append(remark)

    async def aclose(self) -> None:
        """End what still looks."""
        for watch in self._watches.values():
            await watch.stop()


def _files(changes: Sequence[Change]) -> dict[str, _Contents]:
    """Each file that was changed, with what it held before the first change and holds after the last."""
    out: dict[str, _Contents] = {}
    for change in changes:
        path = change.path
        before = out[path][0] if path in out else change.before
        if change.moved_to is not None:
            # What was wrong under the old name is nothing new under the new one.
            out[change.moved_to] = (before, change.before if change.after is None else change.after)
            out[path] = (before, None)
        else:
            out[path] = (before, change.after)
    return out


def _changed(path: str, before: bytes | None, after: bytes | None) -> Changed | None:
    """The change as text; None if the file is not UTF-8, or too large for a server."""
    try:
        texts = [None if d is None else d.decode() for d in (before, after)]
    except UnicodeDecodeError:
        return None
    if max(len(d or b"") for d in (before, after)) > MAX_TEXT:
        return None
    return Changed(path=path, before=texts[0], after=texts[1])


def _python(files: Mapping[str, _Contents]) -> list[Diagnostic]:
    """What Python's compiler refuses in the files now, and did not before."""
    out: list[Diagnostic] = []
    for path, (before, after) in files.items():
        if after is not None and is_python(path) and (found := python_syntax(path, after)):
            out += new_problems(found, keys_of([] if before is None else python_syntax(path, before)))
    return out
