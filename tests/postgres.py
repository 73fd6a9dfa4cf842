"""A PostgreSQL server for tests: Debian's, on loopback, in a temporary folder, as an ordinary user."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

PASSWORD = "not-a-real-password"


@dataclass(slots=True, kw_only=True)
class PostgresServer:
    """A server that is ended by its process id.

    Attributes:
        programs: the folder of initdb and postgres.
        folder: holds its data and its log.
        port: on 127.0.0.1.
        process: the server, once it was started.
    """

    programs: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    _schemas: Iterator[int] = field(default_factory=count)

    def url(self, *, password: str = PASSWORD, schema: str = "") -> str:
        """The URL of a schema that nobody has used, or of the named one."""
        name = schema or f"t{next(self._schemas)}"
        return f"postgresql://tester:{password}@127.0.0.1:{self.port}/postgres?schema={name}"

    def start(self) -> None:
        """Start it and wait until it answers. It ends with the thread that calls this: call it from the main one."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *_as_ordinary_user(), str(self.programs / "postgres"), "-D", str(self.folder / "data"),
                    "-h", "127.0.0.1", "-p", str(self.port), "-k", "",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        end = time.monotonic() + 30
        ready = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, timeout=10).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def end(self, sign: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT lets no client finish, SIGKILL is a crash."""
        assert self.process is not None
        self.process.send_signal(sign)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)


def find_programs() -> Path | None:
    """The folder of the server's programs, None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else None if on_path is None else Path(on_path).resolve().parent


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running server; skips where none is installed."""
    if find_programs() is None:
        pytest.skip("PostgreSQL is not installed; apt-get install postgresql-15")
    with run_server() as server:
        yield server


@contextmanager
def run_server() -> Generator[PostgresServer]:
    """A running server; its default order of texts is a language's, so that a key's order must be asked for."""
    programs = find_programs()
    assert programs is not None, "PostgreSQL is not installed"
    folder = Path(tempfile.mkdtemp(prefix="pegboard-postgres-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            user = _user()
            for path in (folder, folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        subprocess.run(
            [
                *_as_ordinary_user(), str(programs / "initdb"), "-D", str(folder / "data"), "-U", "tester",
                "--pwfile", str(folder / "password"), "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8",
                "--locale-provider=icu", "--icu-locale=en", "--no-sync",
            ],
            check=True, capture_output=True, timeout=120, cwd=folder,
        )  # fmt: skip
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = PostgresServer(programs=programs, folder=folder, port=port)
        server.start()
        try:
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_ordinary_user() -> list[str]:
    """The server refuses root. It ends with the tests, also when they are killed."""
    setpriv = ["setpriv", "--pdeathsig", "INT"]
    if os.getuid() != 0:
        return setpriv
    user = _user()
    return [*setpriv, "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]


def _user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
