"""The network of a confined command that may reach some hosts.

Its network namespace has nothing but loopback. Before the command starts, a few lines of Python
inside make a socket that listens on 127.0.0.1:3128 and hand it out through a socket pair; the
egress proxy outside accepts on it directly. A socket belongs to the namespace that it was made
in, whoever holds it: no relay runs inside, nothing is copied twice, and the command needs no
`socket(AF_UNIX)`.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox.prefixes import SYSTEM

PORT: Final = 3128
CA_BUNDLE: Final = "/etc/pegboard/ca-bundle.pem"
CA_VARIABLES: Final = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
    "NPM_CONFIG_CAFILE",
)  # fmt: skip

_SCRIPT: Final = f"""\
import os, socket, sys
out = socket.socket(fileno=int(sys.argv[1]))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", {PORT}))
listener.listen(128)
socket.send_fds(out, [b"1"], [listener.fileno()])
os.close(out.detach())
os.close(listener.detach())
os.execv(sys.argv[2], sys.argv[2:])
"""


def command(fd: int) -> list[str]:
    """What to put before a command so that it starts once its listener has been handed out."""
    return [_python(), "-I", "-S", "-c", _SCRIPT, str(fd)]


def needs() -> list[Path]:
    """Folders that `command` needs and that are not part of the system."""
    prefix = Path(_python()).parent.parent
    return [] if str(prefix).startswith(SYSTEM) else [prefix]


def receive(ours: socket.socket) -> socket.socket:
    """The listener that the sandbox made; blocks until it comes.

    Raises:
        OSError: the sandbox ended before it made one.
    """
    data, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not data or not fds:
        raise OSError("the sandbox ended before its network was ready")
    os.set_inheritable(fds[0], False)
    return socket.socket(fileno=fds[0])


def proxy_environment() -> dict[str, str]:
    """Variables by which programs find the proxy."""
    proxy = f"http://127.0.0.1:{PORT}"
    out: dict[str, str] = {}
    for name, value in (
        ("HTTP_PROXY", proxy),
        ("HTTPS_PROXY", proxy),
        ("ALL_PROXY", f"socks5h://127.0.0.1:{PORT}"),
        ("NO_PROXY", "localhost,127.0.0.1,::1"),
    ):
        out[name] = out[name.lower()] = value
    return out


def certificate_environment() -> dict[str, str]:
    """Variables by which programs find the certificates in `CA_BUNDLE`."""
    return dict.fromkeys(CA_VARIABLES, CA_BUNDLE)


def _python() -> str:
    # The system's own, where there is one: it needs no further bind.
    if os.path.exists("/usr/bin/python3"):
        return os.path.realpath("/usr/bin/python3")
    return os.path.realpath(sys.executable)
