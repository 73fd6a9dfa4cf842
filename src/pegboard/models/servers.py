"""servers: model servers that run on this machine, found by asking the usual ports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import ToolError

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
    from pegboard.net.client import HttpClient

    client = HttpClient(allow=(f"127.0.0.1:{port}",), timeout_s=timeout_s, max_bytes=_ANSWER_BYTES)
    try:
        reply = await client.request("GET", f"http://127.0.0.1:{port}/v1/models", follow=False)
        body: Any = json.loads(reply.body) if reply.status == 200 else None
    except (ToolError, ValueError):
        return None
    listed: Any = cast("dict[str, Any]", body).get("data") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        return None
    entries = [cast("dict[str, Any]", e) for e in cast("list[object]", listed) if isinstance(e, dict)]
    names = tuple(str(entry["id"]) for entry in entries if entry.get("id"))
    return LocalServer(kind=kind, port=port, owner=owner_of(port), models=names)


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
