"""Attempts to leave a sandbox, the same for every backend. As a script: `escapes.py FOLDER BACKEND`.

Prints one JSON object: name of the attempt to `[exit code, stdout, stderr]`, and what it left behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from pegboard.ports.shell import ExecRequest
from pegboard.process.limits import MIB, CgroupPool, ResourceLimits
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Confinement
from pegboard.shell.sandbox.selection import make

LIMITS = ResourceLimits(memory_bytes=256 * MIB, processes=64, file_bytes=8 * MIB, cpu_s=2, open_files=256)

_PTRACE = """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if child == 0:
    time.sleep(3)
    os._exit(0)
attached = libc.ptrace(16, child, None, None) == 0
process_vm = libc.process_vm_readv(child, None, 0, None, 0, 0) == 0
os.kill(child, 9)
print("attached" if attached else "refused", "read" if process_vm else "refused")
"""
_CONNECT = """
import socket, sys
for family, place in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, "{path}"), (socket.AF_UNIX, "\\0{name}"),
                      (socket.AF_INET, ("192.0.2.1", 80)), (socket.AF_INET6, ("2001:db8::1", 80))):
    try:
        with socket.socket(family) as s:
            s.settimeout(2)
            s.connect(place)
            print("REACHED", place)
    except OSError as error:
        print("no", type(error).__name__)
"""
_RAW = """
import socket
for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
    try:
        socket.socket(family, kind, 255 if family == socket.AF_INET else 3).close()
        print("REACHED", family)
    except OSError as error:
        print("no")
"""
_MEMORY = "b = []\nfor i in range(64): b.append(bytearray(16 << 20))\nprint('took', len(b) * 16)"
_FORKS = """
import os, time
made = 0
for _ in range(300):
    try:
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)
        made += 1
    except OSError:
        break
print(made)
"""


def attempts(outside: Path, port: int, name: str) -> dict[str, str]:
    """Name to command. Whatever gets out writes below `outside` or prints what it must not see."""
    return {
        "files": f"cat {outside}/secret; echo x > {outside}/written; rm -rf {outside}; ln -s {outside}/secret l; cat l; "
        f"cat /etc/shadow; echo x > /usr/bin/x; echo x > /etc/passwd; ls /root/.ssh 2>&1",
        "parents": f"cd ..; cat ../outside/secret; cat /proc/self/root/{outside}/secret; cat /proc/1/root/{outside}/secret;"
        " cat /proc/1/cwd/../outside/secret",
        "processes": f"cat /proc/{os.getpid()}/cmdline; cat /proc/*/environ | tr '\\0' '\\n'; kill -9 {os.getpid()};"
        " kill -9 -1",
        "proc": "echo b > /proc/sysrq-trigger; echo '|/x' > /proc/sys/kernel/core_pattern; head -c1 /proc/kcore;"
        " echo 1 > /proc/sys/vm/drop_caches; cat /proc/sys/kernel/core_pattern",
        "network": f"python3 -c '{_CONNECT.format(port=port, path=outside / 'socket', name=name)}'",
        "raw sockets": f"python3 -c '{_RAW}'",
        "ptrace": f"python3 -c '{_PTRACE}'",
        "setuid": "cp /usr/bin/id own; chmod 4755 own 2>&1; chmod 2755 own 2>&1; stat -c %a own;"
        " grep -E '^(CapEff|NoNewPrivs)' /proc/self/status",
        "devices": "mknod disk b 254 0; mknod mem c 1 1; ls /dev | tr '\\n' ' '; mount -t tmpfs x /mnt 2>&1;"
        " mount --bind / . 2>&1; chroot / true 2>&1; true",
        "forks": f"python3 -c '{_FORKS}'",
        "fork bomb": "f() { f | f & }; f; sleep 3; echo survived",
        "memory": f'python3 -c "{_MEMORY}"',
        "processor": "python3 -c 'while True: pass'",
        "disk": "head -c 64M /dev/zero > big; stat -c %s big; head -c 64M /dev/zero > /tmp/big; stat -c %s /tmp/big; rm -f big",
        "leftovers": "(setsid sh -c 'sleep 6; echo x > survived' >/dev/null 2>&1 </dev/null &) ; setsid nohup sleep 194 "
        ">/dev/null 2>&1 & disown; exit 0",
        "environment": "env; cat /proc/self/environ | tr '\\0' '\\n'",
        "descriptors": "ls /proc/self/fd | wc -l; for fd in 3 4 5 6 7 8 9 10 11 12; do cat <&$fd; done 2>/dev/null; true",
        "works": "echo in > f; cat f; python3 -c 'print(6 * 7)'",
    }


async def attack(folder: Path, backend: str, image: str | None = None) -> dict[str, Any]:
    """Try everything in one workspace; see the module."""
    workspace, outside = (folder / "ws").resolve(), (folder / "outside").resolve()
    workspace.mkdir(exist_ok=True)
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text("TOPSECRET")
    os.chmod(outside / "secret", 0o644)
    name = f"pegboard-{os.getpid()}"
    host = {**os.environ, "PROVIDER_API_KEY": "TOPSECRET-key"}
    path = host.get("PATH", "/usr/bin:/bin")
    confinement = Confinement(workspace=workspace, state=folder / "state", search_path=path, limits=LIMITS)
    made = make(
        backend, confinement, image=image, runtime="runc" if backend == "podman" else None, client_env=host,
        groups=CgroupPool.detect(LIMITS),
    )  # fmt: skip
    problem = await made.probe()
    if problem:
        return {"problem": problem}
    shell = CommandShell(workspace, backend=made, environment=host)
    out: dict[str, Any] = {"enforced": dict(made.enforced())}
    tcp = socket.create_server(("127.0.0.1", 0))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix.bind(str(outside / "socket"))
    abstract.bind("\0" + name)
    with tcp, unix, abstract:
        unix.listen()
        abstract.listen()
        for what, command in attempts(outside, tcp.getsockname()[1], name).items():
            timeout_s = 4.0 if what == "fork bomb" else 60.0
            done = await shell.run(ExecRequest(command=command, timeout_s=timeout_s))
            out[what] = [done.exit_code, done.stdout, done.stderr]
    await asyncio.sleep(6.5)
    out["left"] = sorted(entry.name for entry in outside.iterdir())
    out["survived"] = (workspace / "survived").exists()
    out["running"] = [
        line
        for entry in os.listdir("/proc")
        if entry.isdigit() and "sleep\0194" in (line := _command_line(entry))
    ]
    return out


def _command_line(process: str) -> str:
    try:
        return Path("/proc", process, "cmdline").read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    print(json.dumps(asyncio.run(attack(Path(sys.argv[1]), sys.argv[2]))))
