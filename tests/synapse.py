"""A Synapse homeserver for tests: in an environment of its own, on loopback, in a temporary folder.

Synapse has the licence AGPL-3.0, so it is not a dependency of the package. The first test that needs it installs it into
the cache folder of the user.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from tests.environments import environment
from tests.waiting import listens, soon

VERSION = "1.163.2"
_SECRET = "not-a-real-secret"


@dataclass(kw_only=True)
class Synapse:
    """A homeserver that runs.

    Attributes:
        url: of its client API.
        name: of the server in ids.
    """

    url: str
    name: str = "localhost"
    http: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(trust_env=False, timeout=30))

    async def register(self, user: str) -> Person:
        """A new account, logged in."""
        where = f"{self.url}/_synapse/admin/v1/register"
        nonce = (await self.http.get(where)).json()["nonce"]
        said = "\0".join((nonce, user, "a password", "notadmin"))
        made = await self.http.post(
            where,
            json={
                "nonce": nonce, "username": user, "displayname": user.title(), "password": "a password", "admin": False,
                "mac": hmac.new(_SECRET.encode(), said.encode(), hashlib.sha1).hexdigest(),
            },
        )  # fmt: skip
        made.raise_for_status()
        return Person(server=self, id=made.json()["user_id"], token=made.json()["access_token"])


@dataclass(kw_only=True)
class Person:
    """An account, and what it does as a client.

    Attributes:
        id: such as `@ada:localhost`.
        token: its access token.
    """

    server: Synapse
    id: str
    token: str
    _ids: Any = field(default_factory=count)

    async def call(self, method: str, path: str, body: Any = None, **params: str) -> Any:
        """A request of the client-server API."""
        reply = await self.server.http.request(
            method, f"{self.server.url}/_matrix/client/v3/{path}", json=body, params=params,
            headers={"authorization": f"Bearer {self.token}"},
        )  # fmt: skip
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def open_room(self, *invited: str, encrypted: bool = False) -> str:
        """A new room; its id."""
        state = [{"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}]
        asked = {
            "preset": "trusted_private_chat", "is_direct": True, "invite": invited,
            "initial_state": state if encrypted else [],
        }  # fmt: skip
        return str((await self.call("POST", "createRoom", asked))["room_id"])

    async def send(self, room: str, content: dict[str, Any], type: str = "m.room.message") -> str:
        """An event; its id."""
        path = f"rooms/{quote(room)}/send/{type}/t{next(self._ids)}"
        return str((await self.call("PUT", path, content))["event_id"])

    async def say(self, room: str, text: str) -> str:
        """A text; the id of its event."""
        return await self.send(room, {"msgtype": "m.text", "body": text})

    async def upload(self, name: str, kind: str, data: bytes) -> str:
        """A file; its `mxc:` URI."""
        reply = await self.server.http.post(
            f"{self.server.url}/_matrix/media/v3/upload?filename={quote(name)}", content=data,
            headers={"authorization": f"Bearer {self.token}", "content-type": kind},
        )  # fmt: skip
        return str(reply.json()["content_uri"])

    async def events(self, room: str, sender: str, type: str = "m.room.message") -> list[dict[str, Any]]:
        """What somebody has sent to a room, oldest first; what was deleted is left out."""
        only = json.dumps({"types": [type]})
        found = await self.call("GET", f"rooms/{quote(room)}/messages", dir="b", limit="100", filter=only)
        return [e for e in found["chunk"][::-1] if e["sender"] == sender and e["content"]]

    async def shown(self, room: str, sender: str) -> list[dict[str, Any]]:
        """The messages of somebody, each in its last form."""
        kept: dict[str, dict[str, Any]] = {}
        for event in await self.events(room, sender):
            relation = event["content"].get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                if relation["event_id"] in kept:
                    kept[relation["event_id"]] = event["content"]["m.new_content"]
            else:
                kept[event["event_id"]] = event["content"]
        return [{**content, "event_id": id} for id, content in kept.items()]


@asynccontextmanager
async def run_synapse() -> AsyncGenerator[Synapse]:
    """A homeserver until the block ends; skips where it cannot be installed."""
    python = environment("synapse", f"matrix-synapse=={VERSION}")
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="pegboard-synapse-"))
    (folder / "homeserver.yaml").write_text(json.dumps(_config(folder, port)))
    command = [str(python), "-m", "synapse.app.homeserver", "--config-path", str(folder / "homeserver.yaml")]
    process: Any = None
    try:
        with (folder / "log").open("wb") as log:
            options: dict[str, Any] = {"cwd": folder, "stdout": log, "stderr": log}
            subprocess.run([*command, "--generate-keys"], check=True, timeout=60, **options)
            # It ends with the tests, also when they are killed.
            process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], **options)
        server = Synapse(url=f"http://127.0.0.1:{port}")
        ended = process.poll
        await soon(lambda: listens(port) or ended() is not None, "Synapse listens", within_s=120)
        assert ended() is None, (folder / "log").read_text()[-2000:]
        async with server.http:
            yield server
    finally:
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _config(folder: Path, port: int) -> dict[str, Any]:
    """A homeserver without federation, with SQLite, and without limits that a test would wait for."""
    often = {"per_second": 1000, "burst_count": 1000}
    return {
        "server_name": "localhost", "pid_file": str(folder / "pid"), "report_stats": False, "trusted_key_servers": [],
        "listeners": [
            {"port": port, "type": "http", "bind_addresses": ["127.0.0.1"], "resources": [{"names": ["client"]}]}
        ],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "media_store_path": str(folder / "media"), "signing_key_path": str(folder / "signing.key"),
        "registration_shared_secret": _SECRET, "rc_message": often, "rc_invites": {"per_room": often, "per_user": often},
        "rc_joins": {"local": often}, "encryption_enabled_by_default_for_room_type": "off",
        # Else the first sync of a second client gets what the one before got.
        "caches": {"sync_response_cache_duration": "0s"},
    }  # fmt: skip
