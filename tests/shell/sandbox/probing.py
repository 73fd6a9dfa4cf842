"""Running the attack probe inside the sandbox. As a script: `probing.py FOLDER PROBE`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from pegboard.ports.shell import ExecRequest
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Confinement
from pegboard.shell.sandbox.selection import select_backend


async def probe(folder: Path, script: Path) -> dict[str, Any]:
    """What the probe found possible, and what it left behind."""
    workspace, outside = folder / "ws", folder / "outside"
    workspace.mkdir(exist_ok=True)
    outside.mkdir(exist_ok=True)
    (folder / "secret").write_text("secret")
    shutil.copy(script, workspace / "probe.py")
    tcp = socket.create_server(("127.0.0.1", 0))
    path = socket.socket(socket.AF_UNIX)
    path.bind(str(outside / "s"))
    path.listen()
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0pegboard-{os.getpid()}")
    abstract.listen()
    host = {**os.environ, "FAKE_API_KEY": "x", "HOSTMARK": "HOSTMARK"}
    confinement = Confinement(
        workspace=workspace.resolve(), state=folder / "state", search_path=host.get("PATH", "/usr/bin:/bin")
    )
    choice = await select_backend(confinement, backend="bubblewrap")
    shell = CommandShell(confinement.workspace, backend=choice.backend, environment=host)
    env = {
        "PROBE_WS": str(workspace), "PROBE_OUT": str(outside), "PROBE_SECRET": str(folder / "secret"),
        "PROBE_TMPMARK": str(folder / "marker"), "PROBE_PORT": str(tcp.getsockname()[1]),
        "PROBE_UNIX": str(outside / "s"), "PROBE_ABS": f"pegboard-{os.getpid()}", "PROBE_PID": str(os.getpid()),
        "PROBE_DAEMON": "1",
    }  # fmt: skip
    (folder / "marker").write_text("x")
    with tcp, path, abstract:
        outcome = await shell.run(ExecRequest(command="python3 probe.py", timeout_s=90, env=env))
    found = json.loads(outcome.stdout)
    await asyncio.sleep(2.2)
    found["daemon_survived"] = (workspace / "daemon_survived").exists()
    found["enforced"] = dict(choice.enforced())
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(probe(Path(sys.argv[1]), Path(sys.argv[2])))))
