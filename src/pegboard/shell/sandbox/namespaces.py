"""Namespaces that all commands of one session share.

One small process holds them; `nsenter` joins each command to them before bubblewrap makes the
command's own inside. They give two things that bubblewrap alone cannot:

- One loopback network for the session: a server that one command leaves running is reached by
  the next, while the host's loopback stays out of reach.
- A mount of a symbolic link. `.git/config` inside is a link into a private folder: git writes a
  config by renaming a lock file over it, which fails on a mount (EBUSY), but git follows a link
  and renames in the folder that it leads to.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox.prefixes import SYSTEM

PRIVATE_GIT: Final = "/run/pegboard-git"
"""Where a command finds the folder with its private copy of `.git/config`."""

_ANSWER_S: Final = 10.0

# unshare(2), mount(2) and netdevice(7) constants are written out: the interpreter may be 3.8.
_SCRIPT: Final = f"""\
import ctypes, fcntl, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
def mount(source, target, kind, flags):
    check(libc.mount(source, target, kind, ctypes.c_ulong(flags), None))
control = socket.socket(fileno=int(sys.argv[1]))
uid, gid = os.geteuid(), os.getegid()
try:
    check(libc.unshare(0x10000000 | 0x20000 | 0x40000000))
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as up:
        fcntl.ioctl(up, 0x8914, struct.pack("16sH14x", b"lo", 0x49))
    # What is mounted outside later is to be seen, what is mounted here is not.
    mount(None, b"/", None, 1 << 19 | 0x4000)
    mount(b"tmpfs", b"/sys", b"tmpfs", 6)
    os.symlink("{PRIVATE_GIT}/config", "/sys/config")
    link = os.open("/sys/config", os.O_PATH | os.O_NOFOLLOW)
except OSError as problem:
    control.send(b"!" + str(problem).encode())
    raise SystemExit(1)
control.send(b".")
while True:
    target = control.recv(65536)
    if not target:
        break
    try:
        if not os.path.islink(target):
            mount(b"/proc/self/fd/%d" % link, target, None, 0x1000)
            # bubblewrap would set these through the path, which leads through the link.
            top = os.open(target, os.O_PATH | os.O_NOFOLLOW)
            mount(None, b"/proc/self/fd/%d" % top, None, 0x1000 | 0x20 | 6)
            os.close(top)
        control.send(b".")
    except OSError as problem:
        control.send(b"!" + str(problem).encode())
"""


class SharedNamespaces:
    """The namespaces of one session; they end when this object is closed, collected or killed.

    Args:
        run_as: uid and gid that the commands run as, None = ours.

    Raises:
        OSError: this machine cannot make them; the text says what failed.
    """

    def __init__(self, run_as: tuple[int, int] | None = None) -> None:
        nsenter = shutil.which("nsenter")
        if nsenter is None:
            raise FileNotFoundError("nsenter is not installed (Debian package util-linux)")
        self._nsenter = nsenter
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [_python(run_as), "-I", "-S", "-c", _SCRIPT, str(theirs.fileno())]
        if run_as is not None:
            argv = [
                "setpriv",
                "--reuid",
                str(run_as[0]),
                "--regid",
                str(run_as[1]),
                "--clear-groups",
                "--",
                *argv,
            ]
        with theirs:
            try:
                process = subprocess.Popen(
                    argv,
                    env={"PATH": os.defpath},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        ours.settimeout(_ANSWER_S)
        self._control = ours
        self._process = process
        self.pid = process.pid
        self._end = weakref.finalize(self, _end, process, ours)
        try:
            self._answer()
        except OSError:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it has neither been closed nor killed."""
        return self._end.alive and self._process.poll() is None

    def join(self, *, network: bool) -> list[str]:
        """What to put before bwrap; `network`: into the shared network too."""
        out = [
            self._nsenter,
            "--preserve-credentials",
            f"--user=/proc/{self.pid}/ns/user",
            f"--mount=/proc/{self.pid}/ns/mnt",
        ]
        if network:
            out.append(f"--net=/proc/{self.pid}/ns/net")
        return [*out, "--"]

    def cover(self, config: Path) -> None:
        """Mount the link over a repository's config, unless it is there.

        Outside, a rename over the file takes the mount away, so this is asked before each command.

        Raises:
            OSError: it cannot be mounted.
        """
        self._control.send(os.fsencode(config))
        self._answer()

    def close(self) -> None:
        """End the holding process; the namespaces live as long as commands run in them."""
        self._end()

    def _answer(self) -> None:
        said = self._control.recv(4096)
        if said != b".":
            raise OSError(said[1:].decode("utf-8", "replace") or "the process that owns the namespaces ended")


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    process.kill()  # It has nothing to finish, and an interpreter that ends by itself takes longer.
    process.wait()


def _python(run_as: tuple[int, int] | None) -> str:
    """An interpreter that whoever runs the commands may execute."""
    here = os.path.realpath(sys.executable)
    if here.startswith(SYSTEM) or (run_as is None and os.access(here, os.X_OK)):
        return here
    return "/usr/bin/python3"
