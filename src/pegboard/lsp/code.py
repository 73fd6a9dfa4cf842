"""ServerCodeIndex: the CodeIndex port over language servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pegboard.core.errors import Conflict, NotFound, OutsideWorkspace, ToolError, Unavailable, Unsupported
from pegboard.core.policy.patterns import path_glob
from pegboard.lsp.client import Json
from pegboard.lsp.pool import ServerPool
from pegboard.lsp.programs import Checker, usual_server
from pegboard.lsp.server import MAX_TEXT, LanguageServer, dict_of, list_of
from pegboard.ports.code import CodeLocation, CodeSymbol
from pegboard.ports.files import Files, Write

AGAIN_S: Final = 0.5
"""Seconds after which a server that has just started is asked again."""

PLACES: Final = 10
"""Places of a name in a file at which a server is asked until it knows something."""
_ATTEMPTS: Final = 10
_BOM: Final = "\ufeff"
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
"""What ends a line (LSP 3.17, Text Documents)."""

_KINDS: Final = (
    "", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum", "interface",
    "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null", "enum member",
    "struct", "event", "operator", "type parameter",
)  # fmt: skip
"""LSP 3.17, SymbolKind."""


class ServerCodeIndex:
    """Asks the session's language servers.

    Args:
        pool: starts them.
        files: reads what is shown and changed.
        checkers: by pattern, what the settings name; a language server of these is asked before the usual one.
        again_s: see AGAIN_S.
    """

    def __init__(
        self,
        pool: ServerPool,
        files: Files,
        *,
        checkers: Mapping[str, Sequence[Checker]] | None = None,
        again_s: float = AGAIN_S,
    ) -> None:
        self._pool = pool
        self._files = files
        self._again_s = again_s
        self._settled: set[tuple[str, int]] = set()
        self._checkers = [(path_glob(pattern), several) for pattern, several in (checkers or {}).items()]

    async def definition(self, path: str, symbol: str, *, line: int | None) -> Sequence[CodeLocation]:
        """See CodeIndex."""
        return await self._places("definition", path, symbol, line, {})

    async def references(self, path: str, symbol: str, *, line: int | None) -> Sequence[CodeLocation]:
        """See CodeIndex."""
        return await self._places("references", path, symbol, line, {"context": {"includeDeclaration": True}})

    async def symbols(self, path: str | None, query: str) -> Sequence[CodeSymbol]:
        """See CodeIndex."""
        wanted = query.casefold()
        if path is None:
            found = await self._workspace_symbols(query)
        else:
            target, text = await self._read(path)
            server = await self._server(target, "documentSymbolProvider")
            async with server.lock:
                await self._open(server, target, text)
                answer = await server.request(
                    "textDocument/documentSymbol", {"textDocument": {"uri": server.uri(target)}}
                )
            found = [s for one in list_of(answer) for s in _symbols(server, dict_of(one), target, "")]
        return [one for one in found if wanted in one.name.casefold()]

    async def rename(self, path: str, symbol: str, new_name: str, *, line: int | None) -> Sequence[Write]:
        """See CodeIndex."""
        target, text = await self._read(path)
        server = await self._server(target, "renameProvider")
        async with server.lock:
            await self._open(server, target, text)
            places = _positions(server, target, text, symbol, line)
            answer = await self._first(server, "textDocument/rename", places, {"newName": new_name})
        edits = _edits(server, dict_of(answer))
        if not edits:
            raise NotFound(
                f"{server.checker.name} finds nothing to rename for {symbol!r} in {target}",
                hint="Give the line on which it is defined or used.",
            )
        writes: list[Write] = []
        for name, several in sorted(edits.items()):
            if name.startswith("/"):
                raise OutsideWorkspace.of(name)
            data = await self._files.read_bytes(name, limit=MAX_TEXT)
            after = _edited(_decoded(name, data), several, name, re.split("[.:]", symbol)[-1])
            writes.append(Write(path=name, data=_encoded(data, after), expected=data))
        return writes

    # -- asking -----------------------------------------------------------------------------------

    async def _places(
        self, what: str, path: str, symbol: str, line: int | None, more: Json
    ) -> Sequence[CodeLocation]:
        target, text = await self._read(path)
        server = await self._server(target, f"{what}Provider")
        async with server.lock:
            await self._open(server, target, text)
            places = _positions(server, target, text, symbol, line)
            answer = await self._first(server, f"textDocument/{what}", places, more)
        rows = [dict_of(row) for row in (list_of(answer) or [answer])]
        texts: dict[str, list[str]] = {target: _lines(text)}
        out: dict[tuple[str, int, int], CodeLocation] = {}
        for row in rows:
            # A location, or a link to one.
            name = server.path(str(row.get("uri") or row.get("targetUri")))
            start = _start(row.get("range") or row.get("targetSelectionRange"))
            if name is None or start is None:
                continue
            if name not in texts:
                texts[name] = await self._lines_of(name)
            shown = texts[name][start[0]].strip() if start[0] < len(texts[name]) else ""
            place = CodeLocation(path=name, line=start[0] + 1, column=start[1] + 1, text=shown)
            out[place.path, place.line, place.column] = place
        return sorted(out.values(), key=lambda place: (place.path, place.line, place.column))

    async def _workspace_symbols(self, query: str) -> list[CodeSymbol]:
        named = {c.name: c for _, several in self._checkers for c in several if c.kind == "server"}
        servers = [self._pool.server(c) for c in named.values() if self._pool.installed(c)]
        servers += [one for one in self._pool.servers if one not in servers]
        found: list[CodeSymbol] = []
        asked = False
        failed: Unavailable | None = None
        for server in servers:
            try:
                async with server.lock:
                    await server.ready()
                    if not server.capabilities.get("workspaceSymbolProvider"):
                        continue
                    await server.refresh()
                    answer = await self._ask(server, "workspace/symbol", {"query": query})
            except Unavailable as error:
                failed = error  # Of another language than what is looked for, maybe.
                continue
            asked = True
            found += [s for one in list_of(answer) for s in _symbols(server, dict_of(one), "", "")]
        if not asked and failed is not None:
            raise failed
        if not asked:
            raise Unavailable(
                "no language server that knows the whole workspace runs in this session",
                hint="Ask for the symbols, or a definition, of one file first; its server then knows the others.",
            )
        return [one for one in found if not one.path.startswith("/")]

    async def _server(self, path: str, capability: str) -> LanguageServer:
        """A running server for a file that can do what is asked.

        Raises:
            Unavailable: none is installed, or none of them works.
            Unsupported: none is known, or none can do it.
        """
        named = {c.name: c for matches, several in self._checkers if matches(path) for c in several}
        if (usual := usual_server(path)) is not None:
            named.setdefault(usual.name, usual)
        candidates = [c for c in named.values() if c.kind == "server"]
        if not candidates:
            raise Unsupported(
                f"no language server is known for {path}",
                hint="Use grep. The user can name one in [diagnostics.files] of the settings.",
            )
        installed = [c for c in candidates if self._pool.installed(c)]
        if not installed:
            how = " or ".join(filter(None, (c.install for c in candidates)))
            raise Unavailable(
                f"the language server for {path} is not installed ({candidates[-1].argv[0]})",
                hint=f"Use grep. The user can install it{f': {how}' if how else ''}.",
            )
        for checker in installed:
            server = self._pool.server(checker)
            async with server.lock:
                await server.ready()
            if server.capabilities.get(capability):
                return server
        what = {"renameProvider": "rename symbols"}.get(
            capability, f"give {capability.removesuffix('Provider')}"
        )
        names = ", ".join(c.name for c in installed)
        raise Unsupported(f"{names} cannot {what} in {path}", hint="Use grep and edit_file.")

    async def _first(self, server: LanguageServer, method: str, places: Sequence[Json], more: Json) -> Any:
        """The first answer that says something: a name also stands in comments and texts, of which nothing is known."""
        answer: Any = None
        for place in places:
            answer = await self._ask(server, method, {**place, **more})
            if list_of(answer) or any(dict_of(answer).values()):
                break
        return answer

    async def _ask(self, server: LanguageServer, method: str, params: Json) -> Any:
        """The server's answer. One that has just started may not have read the workspace: it is asked until two
        answers are the same."""
        answer = await server.request(method, params)
        if (server.checker.name, server.starts) not in self._settled:
            for _ in range(_ATTEMPTS):
                await asyncio.sleep(self._again_s)
                before, answer = answer, await server.request(method, params)
                if answer and answer == before:
                    break
            self._settled.add((server.checker.name, server.starts))
        return answer

    async def _open(self, server: LanguageServer, path: str, text: str) -> None:
        await server.sync(path, text)
        await server.refresh(but=(path,))

    async def _read(self, path: str) -> tuple[str, str]:
        """The resolved path and the text of a file of the workspace."""
        target = (await self._files.resolve(path)).reachable()
        if target.startswith("/"):
            raise OutsideWorkspace.of(target)
        return target, _decoded(target, await self._files.read_bytes(path, limit=MAX_TEXT))

    async def _lines_of(self, path: str) -> list[str]:
        """The lines of a file that is shown; none if it may not be read."""
        try:
            return _lines((await self._files.read_bytes(path, limit=MAX_TEXT)).decode("utf-8", "replace"))
        except ToolError:
            return []


def _lines(text: str) -> list[str]:
    return _LINE_END.split(text)


def _decoded(path: str, data: bytes) -> str:
    """A file's text as servers see it: without a byte order mark."""
    try:
        return data.decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise Unsupported(
            f"{path} is not UTF-8 (byte {error.start})", hint="Use grep and edit_file."
        ) from None


def _encoded(before: bytes, text: str) -> bytes:
    bom = _BOM.encode()
    return bom + text.encode() if before.startswith(bom) else text.encode()


def _positions(server: LanguageServer, path: str, text: str, symbol: str, line: int | None) -> Sequence[Json]:
    """Where a name stands, as servers take it, at most at PLACES places; of `a.b` the last part counts.

    Raises:
        NotFound: it does not stand there.
    """
    lines = _lines(text)
    word = re.compile(rf"(?<!\w){re.escape(symbol)}(?!\w)")
    found = [(n, match) for n, row in enumerate(lines, 1) for match in word.finditer(row)]
    here = [(n, match) for n, match in found if line in (None, n)]
    if not here:
        others = (
            f"It stands on lines {', '.join(str(n) for n in dict(found[:5]))}."
            if found
            else "Read the file first."
        )
        where = path if line is None else f"line {line} of {path}"
        raise NotFound(
            f"{symbol!r} does not stand on {where}" if line else f"{symbol!r} is not in {where}", hint=others
        )
    places: list[Json] = []
    for number, match in here[:PLACES]:
        start = match.start() + max(symbol.rfind("."), symbol.rfind(":")) + 1
        column = len(lines[number - 1][:start].encode("utf-16-le")) // 2
        position = {"line": number - 1, "character": column}
        places.append({"textDocument": {"uri": server.uri(path)}, "position": position})
    return places


def _start(value: object) -> tuple[int, int] | None:
    start = dict_of(dict_of(value).get("start"))
    line, column = start.get("line"), start.get("character")
    return (line, column) if isinstance(line, int) and isinstance(column, int) else None


def _symbols(server: LanguageServer, row: Json, path: str, container: str) -> list[CodeSymbol]:
    """A symbol and those inside it (LSP 3.17, DocumentSymbol, SymbolInformation and WorkspaceSymbol)."""
    place = dict_of(row.get("location"))
    start = _start(row.get("selectionRange") or place.get("range"))
    name, kind = row.get("name"), row.get("kind")
    named = (server.path(str(place["uri"])) or "") if "uri" in place else path
    if not isinstance(name, str) or not named:
        return []
    one = CodeSymbol(
        name=name, kind=_KINDS[kind] if isinstance(kind, int) and 0 < kind < len(_KINDS) else "symbol",
        path=named, line=1 if start is None else start[0] + 1, container=container or str(row.get("containerName") or ""),
    )  # fmt: skip
    inner = [
        s for child in list_of(row.get("children")) for s in _symbols(server, dict_of(child), path, name)
    ]
    return [one, *inner]


def _edits(server: LanguageServer, answer: Json) -> dict[str, list[Json]]:
    """The edits of each file (LSP 3.17, WorkspaceEdit).

    Raises:
        Unsupported: the server wants to make, move or delete files as well.
    """
    rows = [(uri, list_of(edits)) for uri, edits in dict_of(answer.get("changes")).items()]
    for change in map(dict_of, list_of(answer.get("documentChanges"))):
        if "kind" in change:
            raise Unsupported(
                f"{server.checker.name} wants to {change['kind']} a file for this rename",
                hint="Rename in the files with edit_file, and move the file with apply_patch.",
            )
        rows.append((str(dict_of(change.get("textDocument")).get("uri")), list_of(change.get("edits"))))
    out: dict[str, list[Json]] = {}
    for uri, edits in rows:
        path = server.path(uri)
        if path is None:
            raise Unsupported(
                f"{server.checker.name} wants to change {uri}, which is not a file", hint="Use edit_file."
            )
        if edits:
            out.setdefault(path, []).extend(map(dict_of, edits))
    return out


def _edited(text: str, edits: Sequence[Json], path: str, name: str) -> str:
    """The text with a server's edits.

    Raises:
        Conflict: they are for another text, in which the name stands elsewhere.
    """
    stale = Conflict(
        f"the language server sees another content of {path} than the file has",
        hint="It may need a moment after changes: call it again, or use grep and edit_file.",
    )
    ends = [match.span() for match in _LINE_END.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    stops = [*(begin for begin, _ in ends), len(text)]

    def offset(position: Any) -> int:
        line, units = int(position["line"]), int(position["character"])
        if not 0 <= line < len(starts):
            raise ValueError
        row = text[starts[line] : stops[line]].encode("utf-16-le")
        return starts[line] + len(row[: 2 * units].decode("utf-16-le"))

    try:
        spans = sorted(
            (offset(e["range"]["start"]), offset(e["range"]["end"]), str(e["newText"])) for e in edits
        )
    except (KeyError, TypeError, ValueError):
        raise stale from None
    out: list[str] = []
    at = 0
    for start, end, new in spans:
        if start < at or end < start or (start < end and name not in text[start:end]):
            raise stale
        out += [text[at:start], new]
        at = end
    return "".join([*out, text[at:]])
