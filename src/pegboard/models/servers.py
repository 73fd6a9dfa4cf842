"""servers: model servers that run on this machine, found by asking the usual ports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

USUAL_PORTS: Final[tuple[tuple[str, int], ...]] = (
    ("Ollama", 11434),
    ("LM Studio", 1234),
    ("llama.cpp", 8080),
    ("vLLM", 8000),
)
_ANSWER_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """A server on loopback that answered `GET /v1/models`.

    Attributes:
        kind: what usually listens at this port.
        port: the port.
        owner: uid of the process that listens, None where it cannot be known.
        models: the names that it offers.
    """

    kind: str
    port: int
    owner: int | None
    models: tuple[str, ...]

    @property
    def base_url(self) -> str:
        """Where its API begins."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def identity(self) -> str:
        """What an acceptance is remembered by: server, port and owner."""
        return f"{self.kind} port={self.port} owner={self.owner}"


async def find_servers(
    ports: Sequence[tuple[str, int]] = USUAL_PORTS, *, timeout_s: float = 0.5
) -> list[LocalServer]:
    """The servers that answer, in the order of `ports`; no key is sent.

    Args:
        ports: kind and port of each candidate.
        timeout_s: seconds for each, all at once.
    """
    found = await asyncio.gather(*(_find(kind, port, timeout_s) for kind, port in ports))
    return [server for server in found if server is not None]


def servers_now(ports: Sequence[tuple[str, int]] = USUAL_PORTS) -> Sequence[LocalServer]:
    """`find_servers` for whoever does not await, inside a running event loop too; half a second at most."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, find_servers(ports)).result()


async def _find(kind: str, port: int, timeout_s: float) -> LocalServer | None:
    try:
        async with asyncio.timeout(timeout_s):
            body = await _models_of(port)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        return None
    listed = body.get("data")
    if not isinstance(listed, list):
        return None
    entries = [cast("dict[str, Any]", e) for e in cast("list[object]", listed) if isinstance(e, dict)]
    names = tuple(str(entry["id"]) for entry in entries if entry.get("id"))
    return LocalServer(kind=kind, port=port, owner=owner_of(port), models=names)


async def _models_of(port: int) -> dict[str, Any]:
    # By hand: no HTTP library is loaded only to look around; the answer ends with the connection.
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        body = await _all(reader)
    finally:
        writer.close()
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise ValueError("no model server")
    if b"transfer-encoding: chunked" in head.lower():
        body = _unchunked(body)
    value: object = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("no model server")
    return cast("dict[str, Any]", value)


async def _all(reader: asyncio.StreamReader) -> bytes:
    out = b""
    while len(out) < _ANSWER_BYTES and (piece := await reader.read(65536)):
        out += piece
    return out


def _unchunked(body: bytes) -> bytes:
    out = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if length == 0:
            break
        out, body = out + body[:length], body[length + 2 :]
    return out


def owner_of(
    port: int, tables: Sequence[Path] = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
) -> int | None:
    """The uid of who listens on a loopback or wildcard port (Linux), None where it cannot be known."""
    for table in tables:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            # local_address is HEXADDRESS:HEXPORT; state 0A is LISTEN (proc(5)).
            if len(fields) > 7 and fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                return int(fields[7])
    return None
