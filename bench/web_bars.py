"""web_fetch's extraction beside trafilatura's own, a large page, the guard, and twenty pages at once; median of five.

    python bench/web_bars.py [FOLDER]

FOLDER holds *.html pages to be judged; without one, pages of installed packages and of Debian's documentation are.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import trafilatura

from pegboard.documents.child import DocumentReader
from pegboard.net.client import HttpClient
from pegboard.net.urls import judge_url
from pegboard.web.extract import extract
from pegboard.web.fetch import WebReader

PARAGRAPH = "<p>Paragraph {n}: otters live by rivers, <a href='/fish'>eat fish</a>, and sleep on their backs in the kelp.</p>"
ARTICLE = f"<html><body><nav>Home Shop</nav><article><h1>Otters</h1>{''.join(PARAGRAPH.format(n=n) for n in range(900))}</article></body></html>"
LARGE = """
import resource, time
from pegboard.web.extract import extract
page = "<html><body>" + "<div><p>Some words here <a href='/x'>link</a> again.</p></div>" * 85_000 + "</body></html>"
start = time.perf_counter()
extract(page, "https://x.example/")
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def median_s(work: Callable[[], object]) -> float:
    """Seconds of one call, the median of five."""
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


async def at_once() -> float:
    """Seconds of twenty pages of 0.2 s each together, beside the slowest."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nx")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = HttpClient(allow_cidrs=("127.0.0.0/8",), resolve=lambda host: ["127.0.0.1"])
        web = WebReader(client, DocumentReader(), cache_s=0)
        times: list[float] = []

        async def one(n: int) -> None:
            start = time.perf_counter()
            await web.fetch(f"http://host{n}.example:{port}/")
            times.append(time.perf_counter() - start)

        start = time.perf_counter()
        await asyncio.gather(*(one(n) for n in range(20)))
        return (time.perf_counter() - start) / max(times)


def pages(folder: Path | None) -> list[Path]:
    """Pages of different makes: at most two of one folder."""
    places = [folder] if folder else [Path(sysconfig.get_paths()["purelib"]), Path("/usr/share/doc")]
    found: dict[Path, list[Path]] = {}
    for place in places:
        for page in sorted(place.rglob("*.html")):
            if page.is_file() and 2_000 < page.stat().st_size < 1_000_000:
                found.setdefault(page.parent, []).append(page)
    return [page for near in found.values() for page in near[:2]][:30]


def f1(text: str, other: str) -> float:
    """How much two texts agree, by their words."""
    ours, theirs = set(text.split()), set(other.split())
    return 2 * len(ours & theirs) / (len(ours) + len(theirs)) if ours or theirs else 1.0


def main() -> None:
    """Print one line of JSON."""
    own = median_s(lambda: extract(ARTICLE, "https://x.example/"))
    other = median_s(
        lambda: trafilatura.extract(ARTICLE, output_format="markdown", include_links=True, include_tables=True, include_formatting=True)
    )  # fmt: skip
    runs = [
        subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True).stdout
        for _ in range(5)
    ]
    large = sorted(tuple(map(float, run.split())) for run in runs)[2]
    guard = median_s(
        lambda: [judge_url("https://example.com/a?b=c", lambda host: ["93.184.216.34"]) for _ in range(1000)]
    )
    agree: list[float] = []
    empty: list[str] = []
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for page in pages(folder):
        html = page.read_text(encoding="utf-8", errors="replace")
        text = extract(html, "https://x.example/").markdown
        if not text:
            empty.append(page.name)
        wanted = trafilatura.extract(html, output_format="markdown", include_links=True, include_tables=True)
        if wanted:
            agree.append(f1(text, wanted))
    print(json.dumps({
        "article_ratio": round(own / other, 2), "article_bar": 1.3, "article_kb": len(ARTICLE) // 1000,
        "large_s": round(large[0], 2), "large_s_bar": 3.0, "large_mib": round(large[1]), "large_mib_bar": 250,
        "guard_ms": round(guard, 4), "guard_ms_bar": 1.0,
        "twenty_ratio": round(statistics.median(asyncio.run(at_once()) for _ in range(5)), 2), "twenty_bar": 1.5,
        "pages": len(agree), "agree_with_trafilatura": round(statistics.mean(agree), 3) if agree else None,
        "pages_without_text": empty,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
