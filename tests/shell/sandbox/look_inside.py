"""Runs inside a sandbox and asks for what it must not get; prints the name of each thing that it was given.

`look_inside.py OUTSIDE PID NAME PORT`: a folder outside, a process outside, an abstract socket's name, a TCP port.
It opens and asks only, and writes nothing where it succeeds. System calls by their x86-64 numbers.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import os
import socket
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)


def opens(path: str, flags: int = os.O_RDONLY) -> bool:
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
    except OSError:
        return False
    return True


def any_opens(pattern: str, flags: int = os.O_RDONLY) -> bool:
    return any(opens(path, flags) for path in glob.glob(pattern, recursive=True)[:500])


def call(number: int, *arguments: object) -> bool:
    return LIBC.syscall(number, *arguments) >= 0


def tries(action: object) -> bool:
    try:
        action()  # type: ignore[operator]
    except (OSError, ValueError):
        return False
    return True


def holds(pattern: str, text: bytes) -> bool:
    found = False
    for path in glob.glob(pattern):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            found = found or text in file.read()
    return found


def connects(family: int, place: object) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(2)
        return tries(lambda: one.connect(place))


def looked(outside: str, pid: str, name: str, port: int) -> dict[str, bool]:
    write = os.O_WRONLY
    buffer = ctypes.create_string_buffer(256)
    names = {
        "root of another process": any_opens(f"/proc/[0-9]*/root{outside}/secret"),
        "folder of another process": any_opens("/proc/[0-9]*/cwd/../outside/secret"),
        "environment of the parent": opens(f"/proc/{pid}/environ"),
        "secret in an environment": holds("/proc/[0-9]*/environ", b"TOPSECRET"),
        "secret on a command line": holds("/proc/[0-9]*/cmdline", b"TOPSECRET"),
        "core_pattern": opens("/proc/sys/kernel/core_pattern", write),
        "modprobe path": opens("/proc/sys/kernel/modprobe", write),
        "binfmt_misc": any_opens("/proc/sys/fs/binfmt_misc/*", write),
        "kernel settings": any_opens("/proc/sys/*/*", write),
        "sysrq": opens("/proc/sysrq-trigger", write),
        "interrupts": any_opens("/proc/irq/*/smp_affinity", write),
        "release_agent": any_opens("/sys/fs/cgroup/**/release_agent", write),
        "cgroup.procs": any_opens("/sys/fs/cgroup/**/cgroup.procs", write),
        "sysfs": os.path.isdir("/sys/kernel"),
        "namespaces of init": call(308, 0, 0),
        "keyring": call(250, 0, -3, 0),
        "add_key": call(248, b"user", b"x", b"y", 1, -3),
        "io_uring": call(425, 8, buffer),
        "userfaultfd": call(323, 0),
        "bpf": call(321, 0, buffer, 64),
        "perf": call(298, buffer, 0, -1, -1, 0),
        "fanotify": call(300, 4, 0),
        "user namespace": call(272, 0x10000000),
        "mount namespace": call(272, 0x20000),
        "network namespace": call(272, 0x40000000),
        "clone3": call(435, struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88),
        "file handle": call(304, -100, buffer, 0),
        "descriptor of another": call(438, 0, 0, 0),
        "mount": call(165, b"none", b"/mnt", b"tmpfs", 0, 0),
        "new mount": call(430, b"tmpfs", 0),
        "ptrace": call(101, 16, os.getppid(), 0, 0),
        "memory of another": call(310, os.getppid(), 0, 0, 0, 0, 0),
        "kernel log": call(103, 10, 0, 0),
        "x32": call(0x40000000 + 39),
        "host name": LIBC.sethostname(b"x", 1) == 0,
        "real-time scheduling": LIBC.sched_setscheduler(0, 1, struct.pack("i", 1)) == 0,
        "priority": LIBC.setpriority(0, 0, -5) == 0,
        "abstract socket": connects(socket.AF_UNIX, "\0" + name),
        "socket of a path": connects(socket.AF_UNIX, outside + "/socket"),
        "the host's loopback": connects(socket.AF_INET, ("127.0.0.1", port)),
        "another host": connects(socket.AF_INET, ("192.0.2.1", 53)),
        "shared memory of the host": os.path.exists(f"/dev/shm/{name}"),
        "scratch of the host": os.path.exists(f"/tmp/{name}"),
        "hard link from outside": tries(lambda: os.link("/usr/bin/env", "linked")),
        "device": tries(lambda: os.mknod("disk", 0o060600, os.makedev(254, 0))),
    }
    for device in ("kmsg", "mem", "fuse", "kvm", "net/tun", "loop-control", "vhost-vsock"):
        names[f"/dev/{device}"] = opens(f"/dev/{device}", os.O_RDWR)
    for what, triple in {
        "packet": (17, 3, 3), "raw": (2, 3, 1), "raw IP": (2, 3, 255), "vsock": (40, 1, 0), "crypto": (38, 5, 0),
        "bluetooth": (31, 3, 1), "can": (29, 3, 1), "sctp": (2, 1, 132), "tipc": (30, 1, 0), "rds": (21, 5, 0),
        "xdp": (44, 3, 0), "smc": (43, 1, 0), "qipcrtr": (42, 2, 0), "ax25": (3, 5, 0),
    }.items():  # fmt: skip
        names[f"{what} socket"] = tries(lambda t=triple: socket.socket(*t).close())
    _, terminal = os.openpty()
    names["typing into a terminal"] = tries(lambda: fcntl.ioctl(terminal, 0x5412, b"x"))
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names["datagram"] = tries(lambda: datagram.sendto(b"x", ("192.0.2.1", 53)))
    names["names of hosts"] = tries(lambda: socket.getaddrinfo("example.com", 80))
    for path in (".git/hooks/x", ".vscode/x", ".git/modules/x", "nested/.git/../../.git/hooks/y"):
        names[f"write {path}"] = opens(path, write | os.O_CREAT)
    for old in (".git", ".git/hooks", ".vscode"):
        names[f"rename {old}"] = tries(lambda o=old: os.rename(o, o + "2"))
    names["move the repository away"] = tries(lambda: os.rename(".git", "/tmp/g"))
    here = os.getcwd()
    names["rename the workspace"] = tries(lambda: os.rename(here, here + "2"))
    return names


if __name__ == "__main__":
    print("\n".join(k for k, v in looked(*sys.argv[1:4], int(sys.argv[4])).items() if v))  # type: ignore[call-arg]
    print("looked")
