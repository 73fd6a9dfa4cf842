"""What a look around from inside finds. As a script: `looking.py FOLDER`; prints what the looker printed."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from pathlib import Path

from pegboard.ports.shell import ExecRequest
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Confinement
from pegboard.shell.sandbox.selection import select_backend

REPOSITORY = {"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\trepositoryformatversion = 0\n"}


async def look(folder: Path, looker: Path) -> str:
    """Everything that it was given, one a line, then `looked`."""
    workspace, outside = (folder / "ws").resolve(), (folder / "outside").resolve()
    for made in (
        outside,
        *(workspace / name for name in (".git/hooks", ".git/objects", ".git/refs", ".vscode")),
    ):
        made.mkdir(parents=True, exist_ok=True)
    for name, content in REPOSITORY.items():
        (workspace / ".git" / name).write_text(content)
    (outside / "secret").write_text("TOPSECRET")
    shutil.copy(looker, workspace / "look_inside.py")
    host = {**os.environ, "PROVIDER_API_KEY": "TOPSECRET-key"}
    confinement = Confinement(
        workspace=workspace, state=folder / "state", search_path=host.get("PATH", "/usr/bin:/bin")
    )
    choice = await select_backend(confinement, backend="bubblewrap")
    shell = CommandShell(workspace, backend=choice.backend, environment=host)
    name = f"pegboard-{os.getpid()}"
    marks = [Path("/dev/shm", name), Path("/tmp", name)]
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    tcp = socket.create_server(("127.0.0.1", 0))
    unix.bind(str(outside / "socket"))
    abstract.bind("\0" + name)
    try:
        for mark in marks:
            mark.write_text("x")
        with tcp, unix, abstract:
            unix.listen()
            abstract.listen()
            command = f"python3 look_inside.py {outside} {os.getpid()} {name} {tcp.getsockname()[1]}"
            done = await shell.run(ExecRequest(command=command, timeout_s=60))
    finally:
        for mark in marks:
            mark.unlink(missing_ok=True)
    return done.stdout + done.stderr


if __name__ == "__main__":
    print(asyncio.run(look(Path(sys.argv[1]), Path(__file__).with_name("look_inside.py"))))
