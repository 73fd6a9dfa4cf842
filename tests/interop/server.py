"""A loopback HTTP server that writes down what it was asked and answers as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Seen:
    """One request."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Loopback:
    """The server while it runs."""

    url: str
    host: str
    seen: list[Seen] = field(default_factory=list)
    answer: Callable[[Seen], Answer] = lambda _: (200, {"Content-Type": "application/json"}, b'{"ok": true}')


@contextmanager
def loopback() -> Iterator[Loopback]:
    """A server on a free port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            seen = Seen(
                self.command, parts.path, parse_qsl(parts.query, keep_blank_values=True),
                {k.lower(): v for k, v in self.headers.items()}, self.rfile.read(length),
            )  # fmt: skip
            state.seen.append(seen)
            status, headers, body = state.answer(seen)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _any

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host = f"127.0.0.1:{server.server_port}"
    state = Loopback(url=f"http://{host}", host=host)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
