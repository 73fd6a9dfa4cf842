"""A language server in one file, for the language toy: run it as `python language_server.py [BEHAVIOUR …]`.

A word `BAD` makes its line an error with the code `bad` and the rest of the line as its message, `MEH` a warning.
`def NAME` defines a name, every other whole word that equals it uses it. Nothing is known of words behind `#`.

Behaviours: `pull` answers textDocument/diagnostic and publishes nothing; `gate=FIFO` reads the FIFO before it says
anything of a text with BAD in it; `crash` ends at the first BAD, `garbage` writes what is no LSP then, `mute` says nothing
then; `log=FILE` adds each method to a file; `try` has what the process can reach as message
(`port=N`, `file=PATH`); `unversioned` publishes without versions.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

OPTIONS = dict(word.partition("=")[::2] for word in sys.argv[1:])
TEXTS: dict[str, str] = {}
ROOT = Path.cwd()


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    sys.stdout.buffer.flush()


def read() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def problems(text: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines()):
        for word, severity in (("BAD", 1), ("MEH", 2)):
            if (column := line.find(word)) >= 0:
                place = {"line": number, "character": column}
                said = tried() if "try" in OPTIONS else line[column + 4 :].strip() or "bad"
                row = {"range": {"start": place, "end": place}, "severity": severity, "code": word.lower()}
                out.append({**row, "message": said})
    return out


def changed(uri: str, version: int) -> None:
    text = TEXTS[uri]
    if "BAD" in text:
        if gate := OPTIONS.get("gate"):
            Path(gate).read_text()
        if "crash" in OPTIONS:
            print("out of ideas", file=sys.stderr, flush=True)
            os._exit(3)
        if "garbage" in OPTIONS:
            sys.stdout.write("Traceback (most recent call last):\n" * 200)
            sys.stdout.flush()
        if "mute" in OPTIONS:
            return
    if "pull" not in OPTIONS:
        said = {"uri": uri, "diagnostics": problems(text)}
        if "unversioned" not in OPTIONS:
            said["version"] = version
        send({"method": "textDocument/publishDiagnostics", "params": said})


def tried() -> str:
    """What this process can reach."""
    can: list[str] = []
    with suppress(OSError):
        Path("made-by-server").write_text("x")
        can.append("workspace written")
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", int(OPTIONS["port"])), timeout=5).close()
        can.append("connected")
    with suppress(OSError):
        Path(OPTIONS["file"]).read_text()
        can.append("file read")
    return ", ".join(can) or "nothing"


def word_at(uri: str, position: dict[str, int]) -> str:
    line = TEXTS[uri].splitlines()[position["line"]]
    units = line.encode("utf-16-le")
    at = len(units[: 2 * position["character"]].decode("utf-16-le"))
    if "#" in line[:at]:
        return ""
    return next((m[0] for m in re.finditer(r"\w+", line) if m.start() <= at < m.end()), "")


def uses(word: str) -> list[tuple[str, int, int, int, str]]:
    out: list[tuple[str, int, int, int, str]] = []
    for path in sorted(ROOT.rglob("*.toy")) if word else ():
        uri = path.as_uri()
        text = TEXTS.get(uri, path.read_bytes().decode("utf-8-sig"))
        for number, line in enumerate(re.split(r"\r\n|\n|\r", text)):
            for match in re.finditer(rf"\b{re.escape(word)}\b", line):
                start, end = (len(line[:n].encode("utf-16-le")) // 2 for n in match.span())
                out.append((uri, number, start, end, line))
    return out


def span(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def answer(method: str, params: dict[str, Any]) -> Any:
    uri = params.get("textDocument", {}).get("uri", "")
    match method:
        case "initialize":
            able: dict[str, Any] = {
                "textDocumentSync": 1,
                "documentSymbolProvider": True,
                "workspaceSymbolProvider": True,
            }
            able |= dict.fromkeys(("definitionProvider", "referencesProvider", "renameProvider"), True)
            if "pull" in OPTIONS:
                able["diagnosticProvider"] = {"interFileDependencies": False, "workspaceDiagnostics": False}
            return {"capabilities": able}
        case "textDocument/diagnostic":
            return {"kind": "full", "items": problems(TEXTS[uri])}
        case "textDocument/definition" | "textDocument/references":
            found = uses(word_at(uri, params["position"]))
            if method.endswith("definition"):
                found = [one for one in found if re.match(r"def\s", one[4])]
            return [{"uri": where, "range": span(line, start, end)} for where, line, start, end, _ in found]
        case "textDocument/rename":
            if params["newName"] == "elsewhere":
                return {
                    "changes": {Path(sys.executable).as_uri(): [{"range": span(0, 0, 1), "newText": "x"}]}
                }
            if params["newName"] == "moved":
                return {"documentChanges": [{"kind": "rename", "oldUri": uri, "newUri": uri + "x"}]}
            edits: dict[str, list[Any]] = {}
            for where, line, start, end, _ in uses(word_at(uri, params["position"])):
                edits.setdefault(where, []).append(
                    {"range": span(line, start, end), "newText": params["newName"]}
                )
            return {"changes": edits}
        case "textDocument/documentSymbol":
            rows = enumerate(TEXTS[uri].splitlines())
            found = [(n, m) for n, line in rows if (m := re.match(r"def (\w+)", line))]
            return [
                {"name": m[1], "kind": 12, "range": span(n, 0, 3), "selectionRange": span(n, 4, 5)} for n, m in found
            ]  # fmt: skip
        case "workspace/symbol":
            found = [
                (p, m)
                for p in sorted(ROOT.rglob("*.toy"))
                for m in re.finditer(r"^def (\w+)", p.read_text(), re.M)
            ]
            return [
                {"name": m[1], "kind": 12, "location": {"uri": p.as_uri(), "range": span(0, 0, 1)}} for p, m in found
            ]  # fmt: skip
    return None


def main() -> None:
    while (message := read()) is not None:
        method, params = message.get("method", ""), message.get("params") or {}
        if log := OPTIONS.get("log"):
            with open(log, "a") as file:
                print(method, file=file)
        document = params.get("textDocument", {})
        match method:
            case "textDocument/didOpen":
                TEXTS[document["uri"]] = document["text"]
                changed(document["uri"], document["version"])
            case "textDocument/didChange":
                TEXTS[document["uri"]] = params["contentChanges"][0]["text"]
                changed(document["uri"], document["version"])
            case "textDocument/didClose":
                TEXTS.pop(document["uri"], None)
            case _ if "id" in message:
                if "mute" in OPTIONS and any("BAD" in text for text in TEXTS.values()):
                    continue
                send({"id": message["id"], "result": answer(method, params)})


if __name__ == "__main__":
    main()
