"""A website on loopback, and a browser that may reach it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pegboard.browser.browser import ChromiumBrowser
from pegboard.browser.chromium import BrowserOptions
from pegboard.net.destinations import Destination
from pegboard.net.egress import Streams
from pegboard.ports.browser import BrowserReply

PAGES = Path(__file__).parent / "pages"


class Site:
    """Serves the files of `pages` as `/NAME`, and a few addresses that do something.

    Attributes:
        seen: method, Host and path of every request.
        posted: the fields of every form and the bodies of every upload.
        extra: more pages, by path.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.posted: list[dict[str, list[str]]] = []
        self.uploads: list[bytes] = []
        self.extra: dict[str, str] = {}
        self.spoken: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.seen.append(f"GET {self.headers['Host']} {self.path}")
                site._get(self)

            def do_POST(self) -> None:
                site.seen.append(f"POST {self.headers['Host']} {self.path}")
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if "multipart" in self.headers.get("Content-Type", ""):
                    site.uploads.append(body)
                else:
                    site.posted.append(parse_qs(body.decode(), keep_blank_values=True))
                site._send(self, "<title>Thanks</title><p>Thank you.</p>")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """An address of the site, also under another name."""
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _get(self, request: Any) -> None:
        parts = urlsplit(request.path)
        path, query = parts.path, parse_qs(parts.query)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            self._websocket(request)
        elif path == "/redirect":
            request.send_response(302)
            request.send_header("Location", query["to"][0])
            request.send_header("Content-Length", "0")
            request.end_headers()
        elif path == "/report.csv":
            self._send(
                request, "a,b\n1,2\n", type="text/csv", disposition='attachment; filename="../report.csv"'
            )
        elif path == "/whoami":
            name = re.search(r"user=(\w+)", request.headers.get("Cookie", ""))
            self._send(request, f"<title>Who</title><p>You are {name[1] if name else 'nobody'}.</p>")
        elif path == "/items":
            start = int(query["from"][0])
            self._send(request, "\n".join(f"Item {n}" for n in range(start, start + 20)), type="text/plain")
        elif path in self.extra:
            self._send(request, self.extra[path])
        elif (file := PAGES / path.lstrip("/")).is_file():
            type = "text/javascript" if file.suffix == ".js" else "text/html; charset=utf-8"
            self._send(request, file.read_text(encoding="utf-8"), type=type)
        else:
            self._send(request, "<title>Missing</title><p>Not here.</p>", status=404)

    def _send(
        self,
        request: Any,
        text: str,
        *,
        type: str = "text/html; charset=utf-8",
        status: int = 200,
        disposition: str = "",
    ) -> None:
        body = text.encode()
        request.send_response(status)
        request.send_header("Content-Type", type)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Connection", "close")
        if disposition:
            request.send_header("Content-Disposition", disposition)
        request.end_headers()
        request.wfile.write(body)

    def _websocket(self, request: Any) -> None:
        """RFC 6455: greet with one text frame and close."""
        key = request.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        request.send_response(101)
        request.send_header("Upgrade", "websocket")
        request.send_header("Connection", "Upgrade")
        request.send_header(
            "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        )
        request.end_headers()
        request.wfile.write(b"\x81\x05hello\x88\x00")
        request.close_connection = True
        self.spoken.append("hello")


class RecordingDial:
    """Where the proxy would have connected to. Only loopback is connected to in truth, whatever the guard lets through."""

    def __init__(self) -> None:
        self.dialled: list[tuple[str, int]] = []

    async def __call__(self, address: str, port: int, **tls: Any) -> Streams:
        self.dialled.append((address, port))
        if address != "127.0.0.1":
            raise OSError("the recording dial connects to loopback only")
        return await asyncio.open_connection(address, port, **tls)


class Names:
    """A resolver: addresses by name, one answer after the other, the last one for ever; asks nobody."""

    def __init__(self, names: Mapping[str, Sequence[str]]) -> None:
        self._names = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if not answers:
            raise OSError(f"no such name: {host}")
        return [answers[0] if len(answers) == 1 else answers.pop(0)]


class Visit:
    """One session of a browser that several tests share."""

    def __init__(self, browser: ChromiumBrowser, session: str, current: list[str]) -> None:
        self.browser = browser
        self._session = session
        self._current = current

    async def do(self, action: Any, **more: Any) -> BrowserReply:
        self._current[0] = self._session
        return await self.browser.perform(action, **more)

    async def type_there(self, text: str) -> None:
        """A person at a window of the browser: types into its first field, and the page says so in its console."""

        async def type_text() -> None:
            (session,) = self.browser._sessions.values()
            window = session._window or await session._tabs.context()
            await window.pages[0].evaluate(
                "() => { document.oninput = e => console.log('typed ' + e.target.value) }"
            )
            await window.pages[0].locator("input").first.press_sequentially(text)

        await self.browser._thread.run(type_text())

    async def place(self) -> Any:
        self._current[0] = self._session
        return await self.browser.place()


@contextmanager
def browsing(folder: Path, **options: Any) -> Iterator[tuple[ChromiumBrowser, list[str], list[Destination]]]:
    """A browser with nothing started yet, the name of the session that acts next, and what it tried to reach."""
    current = ["main"]
    tried: list[Destination] = []
    made = ChromiumBrowser(
        BrowserOptions(
            folder=folder, on_destination=tried.append, **{"environment": dict(os.environ), **options}
        ),
        session=lambda: current[0],
    )
    try:
        yield made, current, tried
    finally:
        # In a thread: a loop may run here.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(made.close())).result()


def ref(text: str, name: str) -> str:
    """The ref of the element that a snapshot shows under a name."""
    found = re.search(rf'"{re.escape(name)}"[^\n]*\[ref=(\w+)\]', text)
    assert found is not None, f"{name} is not in:\n{text}"
    return found[1]
