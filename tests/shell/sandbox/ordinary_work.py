"""Ordinary work inside the sandbox (decisions 25). Run as a script: `ordinary_work.py FOLDER`.

Prints one JSON object: command name to `[exit code, stdout, stderr, notes]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from pegboard.ports.shell import ExecRequest
from pegboard.shell.background import BackgroundCommands
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Confinement
from pegboard.shell.sandbox.selection import select_backend

_NPM = '{"name":"x","version":"1.0.0","scripts":{"test":"node test.js"}}'
_SERVER = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("localhost", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://localhost:{server.server_port}/").status)
"""
_POOL = """
import asyncio, multiprocessing, subprocess
async def main():
    p = await asyncio.create_subprocess_exec("echo", "sub", stdout=subprocess.PIPE)
    print((await p.communicate())[0].decode().strip())
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(abs, [-1, -2]))
    with multiprocessing.Manager() as manager:
        print(list(manager.list([3])))
    asyncio.run(main())
"""
_UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertTrue(1)\n"

COMMANDS = {
    "identity": "id -un; echo ~; git config --get user.name",
    "git": (
        "set -e; git init -q r; cd r; echo a > a; git add a; git commit -qm one; git branch side; git checkout -q side;"
        " echo b >> a; git stash -q; git stash pop -q; git commit -qam two; git worktree add -q ../r2 -b third;"
        " cd ../r2; echo c > c; git add c; git commit -qm three; git log --oneline | wc -l"
    ),
    "git in a repository of the workspace": (
        "set -e; git config color.ui false; git clone -q --bare . up.git; git remote add origin ./up.git;"
        " echo a > a; git add a; git commit -qm one; git push -q -u origin HEAD:main; git checkout -qb side --track origin/main; echo b >> a; git stash -q;"
        " git stash pop -q; git commit -qam two; git worktree add -q wt -b third; cd wt; echo c > c; git add c;"
        " git commit -qm three; git -C .. tag v1; git log --oneline | wc -l"
    ),
    "a server that stays": "python3 -m http.server -b 127.0.0.1 3000 >/dev/null 2>&1 & echo up",
    "its client": (
        "for i in $(seq 100); do python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:3000/\").status)'"
        " 2>/dev/null && break; sleep .05; done"
    ),
    "venv": "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'",
    "tests": "python3 -m unittest -q test_x.py 2>&1 | tail -1",
    "npm": "cd js && npm test --silent",
    "server": "python3 server.py 2>/dev/null",
    "processes": "python3 pool.py",
    "home": "cat ~/kept 2>/dev/null; echo kept > ~/kept",
    "home again": "cat ~/kept",
    "compile": "printf 'int main(){return 0;}' > m.c; if command -v cc >/dev/null; then cc m.c -o m && ./m; fi; echo $?",
}


def furnish(workspace: Path) -> None:
    """Put the files in place that the commands need."""
    (workspace / "js").mkdir(parents=True)
    (workspace / "js" / "package.json").write_text(_NPM)
    (workspace / "js" / "test.js").write_text("console.log(1 + 1)\n")
    (workspace / "server.py").write_text(_SERVER)
    (workspace / "pool.py").write_text(_POOL)
    (workspace / "test_x.py").write_text(_UNITTEST)


async def work(folder: Path, backend: str) -> dict[str, Any]:
    """Run all commands in one workspace; see the module."""
    path = os.environ.get("PATH", "/usr/bin:/bin")
    confinement = Confinement(
        workspace=(folder / "ws").resolve(),
        state=folder / "state",
        search_path=path,
        identity=("Ada", "ada@example.com"),
    )
    choice = await select_backend(confinement, backend=backend)
    shell = CommandShell(confinement.workspace, backend=choice.backend, environment={"PATH": path})
    jobs = BackgroundCommands(shell)
    out: dict[str, Any] = {"enforced": dict(choice.enforced())}
    for name, command in COMMANDS.items():
        outcome = await shell.run(ExecRequest(command=command, timeout_s=60))
        out[name] = [outcome.exit_code, outcome.stdout, outcome.stderr, list(outcome.notes)]
    await jobs.close()
    return out


if __name__ == "__main__":
    print(json.dumps(asyncio.run(work(Path(sys.argv[1]), "bubblewrap"))))
