"""LanguageServer: one server over a workspace, started at its first use; its documents and what it says of them."""

from __future__ import annotations

import asyncio
import contextvars
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import unquote, urlsplit

from pegboard.core.errors import Unavailable
from pegboard.lsp.client import Json, LspConnection, LspError
from pegboard.lsp.diagnostics import Diagnostic, diagnostic_of
from pegboard.lsp.programs import Checker, language_of

ANSWER_S: Final = 60.0
"""Seconds in which a server answers a request; one that takes longer is ended."""

MAX_STARTS: Final = 3
"""How often a server that ends by itself is started in one session."""

MAX_OPEN: Final = 50
"""Documents that a server holds open; the one used longest ago is closed for another."""

MAX_TEXT: Final = 2 * 1024 * 1024
"""Bytes of a file that is given to a server."""

_SERVER_CANCELLED: Final = -32802


class Program(Protocol):
    """A started program."""

    @property
    def exit_code(self) -> int | None:
        """Its exit status; None while it runs."""
        ...

    @property
    def last_words(self) -> str:
        """How it ended, and the last line that it wrote to standard error."""
        ...

    @property
    def errors(self) -> str:
        """What it wrote to standard error, of much the beginning and the end."""
        ...

    def write(self, data: bytes) -> bool:
        """Give bytes to its standard input; False if that is closed."""
        ...

    async def wait(self) -> None:
        """Return when it has ended and all of its output was handed on."""
        ...

    async def end(self) -> None:
        """End it with everything that it started."""
        ...

    def kill_now(self) -> None:
        """End it without an event loop."""
        ...


class StartProgram(Protocol):
    """Starts a program in the workspace, confined as commands are."""

    def __call__(self, argv: Sequence[str], on_output: Callable[[bytes], None]) -> Awaitable[Program]:
        """Raises Unavailable if it cannot be started."""
        ...


@dataclass(slots=True)
class Document:
    """A file as a server sees it; `stamp` is its time and size on disk then."""

    version: int
    text: str
    stamp: tuple[int, int] | None = None


class LanguageServer:
    """One language server; hold its `lock` around everything else.

    Args:
        checker: how it is started.
        root: real path of the workspace.
        start: starts the program.
        answer_s: see ANSWER_S.

    Attributes:
        starts: how often it was started.
        capabilities: what it said that it can do; empty before it was started.
        documents: the files that it holds open, that used longest ago first.
    """

    def __init__(
        self, checker: Checker, *, root: Path, start: StartProgram, answer_s: float = ANSWER_S
    ) -> None:
        self.checker = checker
        self.capabilities: Json = {}
        self.documents: dict[str, Document] = {}
        self._root = root
        self._start = start
        self._answer_s = answer_s
        self.starts = 0
        self._program: Program | None = None
        self._connection: LspConnection | None = None
        self._watching: asyncio.Task[None] | None = None
        self._fault = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._published: dict[str, list[Diagnostic]] = {}

    @property
    def lock(self) -> asyncio.Lock:
        """Held by the caller that uses the server."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._program is not None:
                # The event loop that it was started in has ended, and its pipes with it.
                self._program.kill_now()
                self._forget("its event loop has ended")
            self._loop, self._lock, self._arrived = loop, asyncio.Lock(), asyncio.Event()
        return self._lock

    # -- the program ------------------------------------------------------------------------------

    async def ready(self) -> LspConnection:
        """The connection; the program is started where it does not run.

        Raises:
            Unavailable: it cannot be started, does not answer, or has ended too often.
        """
        connection = self._connection
        if connection is not None and not connection.fault:
            return connection
        await self.stop()
        if self.starts >= MAX_STARTS:
            raise Unavailable(
                f"the language server {self.checker.name} was given up: {self._fault or 'it ended too often'}"
            )
        self.starts += 1
        connection = LspConnection(
            self.checker.name,
            lambda data: self._program is not None and self._program.write(data),
            answers={
                "workspace/configuration": lambda params: [None] * len(list_of(params.get("items"))),
                "workspace/workspaceFolders": lambda _: self._folders(),
                "workspace/applyEdit": lambda _: {"applied": False},
                "client/registerCapability": lambda _: None,
                "client/unregisterCapability": lambda _: None,
                "window/workDoneProgress/create": lambda _: None,
                "window/showMessageRequest": lambda _: None,
            },
            notifications={"textDocument/publishDiagnostics": self._on_published},
        )

        def on_output(data: bytes) -> None:
            connection.feed(data)
            if connection.fault:
                self._arrived.set()

        program = self._program = await self._start(self.checker.argv, on_output)
        # In an empty context: it outlives the call that needs the server first.
        self._watching = asyncio.get_running_loop().create_task(
            self._watch(program, connection), context=contextvars.Context()
        )
        reply = await self._ask(connection, "initialize", self._initialize())
        connection.notify("initialized")
        self.capabilities = dict_of(dict_of(reply).get("capabilities"))
        self._connection = connection
        return connection

    async def _watch(self, program: Program, connection: LspConnection) -> None:
        await program.wait()
        connection.close(f"it ended by itself ({program.last_words or 'no reason given'})")
        self._arrived.set()

    async def stop(self) -> None:
        """End the program; it is started again at the next use."""
        program, watching = self._program, self._watching
        self._forget("it was ended")
        if program is None:
            return
        if self._loop is not asyncio.get_running_loop():
            program.kill_now()
            return
        if watching is not None:
            watching.cancel()
        await program.end()

    def _forget(self, why: str) -> None:
        if self._connection is not None:
            self._connection.close(why)
            self._fault = self._connection.fault
        self._program = self._connection = self._watching = None
        self.documents.clear()
        self._published.clear()

    async def request(self, method: str, params: Json) -> Any:
        """Ask the server; its result.

        Raises:
            LspError: it answered with an error.
            Unavailable: it does not work, or did not answer in time and was ended.
        """
        return await self._ask(await self.ready(), method, params)

    async def _ask(self, connection: LspConnection, method: str, params: Json) -> Any:
        try:
            async with asyncio.timeout(self._answer_s):
                return await connection.request(method, params)
        except TimeoutError:
            await self._give_up(connection, f"it gave no answer to {method} within {self._answer_s:g} s")
        except Unavailable:
            if connection.fault:
                self._fault = connection.fault
                await self.stop()
            raise

    async def _give_up(self, connection: LspConnection, fault: str) -> None:
        connection.close(fault)
        self._fault = connection.fault
        await self.stop()
        raise Unavailable(f"the language server {self.checker.name} was ended: {fault}") from None

    def _folders(self) -> list[Json]:
        return [{"uri": self._root.as_uri(), "name": self._root.name or "/"}]

    def _initialize(self) -> Json:
        return {
            # Our own id would mean nothing in the sandbox's namespace, and servers end when it is not there.
            "processId": None,
            "clientInfo": {"name": "pegboard"},
            "rootUri": self._root.as_uri(),
            "workspaceFolders": self._folders(),
            "capabilities": {
                "general": {"positionEncodings": ["utf-16"]},
                "workspace": {
                    "configuration": True, "workspaceFolders": True, "symbol": {},
                    "workspaceEdit": {"documentChanges": True},
                },
                "textDocument": {
                    "publishDiagnostics": {"versionSupport": True}, "diagnostic": {}, "definition": {}, "references": {},
                    "documentSymbol": {"hierarchicalDocumentSymbolSupport": True}, "rename": {},
                },
            },
        }  # fmt: skip

    # -- documents --------------------------------------------------------------------------------

    async def sync(self, path: str, text: str) -> None:
        """Let the server see this text as the file's content.

        Args:
            path: relative to the workspace.
            text: the whole file.
        """
        connection, uri = await self.ready(), self.uri(path)
        document = self.documents.pop(path, None)
        if document is None:
            while len(self.documents) >= MAX_OPEN:
                await self.close(next(iter(self.documents)))
            document = Document(1, text)
            opened = {"uri": uri, "languageId": language_of(path), "version": 1, "text": text}
            connection.notify("textDocument/didOpen", {"textDocument": opened})
            self._published.pop(path, None)
        elif document.text != text:
            document.version, document.text = document.version + 1, text
            changed = {"uri": uri, "version": document.version}
            connection.notify(
                "textDocument/didChange", {"textDocument": changed, "contentChanges": [{"text": text}]}
            )
            self._published.pop(path, None)
        document.stamp = _stamp(self._root / path)
        self.documents[path] = document

    async def close(self, path: str) -> None:
        """Let the server forget a file."""
        if self.documents.pop(path, None) is not None:
            (await self.ready()).notify("textDocument/didClose", {"textDocument": {"uri": self.uri(path)}})
        self._published.pop(path, None)

    async def refresh(self, *, but: Iterable[str] = ()) -> None:
        """Bring the open documents that have changed on disk since up to date."""
        for path, document in [*self.documents.items()]:
            if path in but or (stamp := _stamp(self._root / path)) == document.stamp:
                continue
            text = None if stamp is None else await asyncio.to_thread(_read, self._root / path)
            if text is None:
                await self.close(path)
            else:
                await self.sync(path, text)

    async def problems(self, paths: Sequence[str]) -> dict[str, list[Diagnostic]]:
        """What the server says of these documents, which are open, and of the others as far as it has said it."""
        connection = await self.ready()
        pull = self.capabilities.get("diagnosticProvider")
        if pull:
            wanted = list(self.documents) if dict_of(pull).get("interFileDependencies") else paths
            return {path: await self._pull(connection, path) for path in wanted if path in self.documents}
        try:
            async with asyncio.timeout(self._answer_s):
                while any(p in self.documents and p not in self._published for p in paths):
                    if connection.fault:
                        await self._give_up(connection, connection.fault)
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            await self._give_up(connection, f"it said nothing of {paths[0]} within {self._answer_s:g} s")
        return {path: found for path, found in self._published.items() if path in self.documents}

    async def _pull(self, connection: LspConnection, path: str) -> list[Diagnostic]:
        asked = {"textDocument": {"uri": self.uri(path)}}
        for attempt in range(3):
            try:
                report = dict_of(await self._ask(connection, "textDocument/diagnostic", asked))
                return [
                    d
                    for item in list_of(report.get("items"))
                    if (d := diagnostic_of(item, path, self.checker.name))
                ]
            except LspError as error:
                if error.number != _SERVER_CANCELLED or attempt == 2:
                    raise
        return []

    def _on_published(self, params: Json) -> None:
        path = self.path(str(params.get("uri")))
        document = None if path is None else self.documents.get(path)
        version: Any = params.get("version")
        if path is None or document is None or (isinstance(version, int) and version < document.version):
            return
        items = list_of(params.get("diagnostics"))
        self._published[path] = [d for i in items if (d := diagnostic_of(i, path, self.checker.name))]
        self._arrived.set()

    # -- names ------------------------------------------------------------------------------------

    def uri(self, path: str) -> str:
        """The URI of a file of the workspace."""
        return (self._root / path).as_uri()

    def path(self, uri: str) -> str | None:
        """The file that a URI names: relative to the workspace, or absolute outside of it; None if it names none."""
        parts = urlsplit(uri)
        if parts.scheme != "file":
            return None
        named = os.path.normpath(unquote(parts.path))
        root = str(self._root)
        return named.removeprefix(root + "/") if named.startswith(root + "/") else named


def _stamp(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = os.lstat(path)
        return status.st_mtime_ns, status.st_size
    return None


def _read(path: Path) -> str | None:
    """A file's text; None if it is no longer a text file of ordinary size."""
    with suppress(OSError, UnicodeDecodeError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_TEXT:
                return file.read(MAX_TEXT).decode()
    return None


def dict_of(value: object) -> Json:
    """An object of a server's answer; empty where it is something else."""
    return cast("Json", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """A list of a server's answer; empty where it is something else."""
    return cast("list[Any]", value) if isinstance(value, list) else []
