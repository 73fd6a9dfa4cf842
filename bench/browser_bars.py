"""A snapshot of a page beside Playwright's own of the same page, in one browser.

Prints one line of JSON: milliseconds of both as the median of a few dozen, in turns, and their ratio.

    python bench/browser_bars.py
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pegboard.browser.browser import ChromiumBrowser
from pegboard.browser.chromium import BrowserOptions
from pegboard.ports.browser import Navigate, TakeSnapshot

MOST = 1.3
ROUNDS = 30
ROW = "<tr><td><a href='/item/{n}'>Item {n}</a></td><td>{n}.99</td><td><button>Buy {n}</button></td></tr>"
PAGE = f"<title>Shop</title><h1>Shop</h1><table>{''.join(ROW.format(n=n) for n in range(300))}</table>"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer everything with the page."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + PAGE.encode())
    await writer.drain()
    writer.close()


async def measure() -> dict[str, float]:
    """Both in turns, so that a busy machine slows both."""
    ours: list[float] = []
    theirs: list[float] = []
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with tempfile.TemporaryDirectory() as folder:
            browser = ChromiumBrowser(
                BrowserOptions(folder=Path(folder), environment=os.environ, allow=(place,))
            )
            await browser.perform(Navigate(url=f"http://{place}/"), timeout_s=60)
            (session,) = browser._sessions.values()
            page = session._tabs.find().page
            for _ in range(ROUNDS):
                start = time.perf_counter()
                await browser._thread.run(page.aria_snapshot(mode="ai"))
                theirs.append(time.perf_counter() - start)
                start = time.perf_counter()
                await browser.perform(TakeSnapshot())
                ours.append(time.perf_counter() - start)
            await browser.close()
    mine, other = statistics.median(ours), statistics.median(theirs)
    return {
        "snapshot_ms": round(mine * 1000, 2),
        "playwright_ms": round(other * 1000, 2),
        "ratio": round(mine / other, 2),
    }


if __name__ == "__main__":
    found = asyncio.run(measure())
    print(json.dumps(found))
    sys.exit(0 if found["ratio"] <= MOST else 1)
