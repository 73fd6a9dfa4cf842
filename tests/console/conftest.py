"""The console in a real Chromium, of a gateway that is a process of its own over a workspace of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from pegboard.browser.chromium import find_chromium
from pegboard.gateway.console import BUNDLE

TOKEN = "the-token-of-the-owner"
WAIT_MS = 30_000
"""Milliseconds that a page may take on a machine that does much else."""


def scripted(folder: Path, *turns: dict[str, Any], name: str = "turns") -> str:
    """A model that answers with these turns."""
    file = folder.parent / f"{name}.jsonl"
    file.write_text("\n".join(json.dumps(turn) for turn in turns))
    return f"scripted:{file}"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@dataclass
class Console:
    """A gateway, and pages of its console.

    Attributes:
        url: of the gateway.
        faults: what the pages wrote to the browser's console as errors.
    """

    url: str
    folder: Path
    context: Callable[..., BrowserContext]
    faults: list[str] = field(default_factory=list)

    def open(self, path: str = "/", **options: Any) -> Page:
        """A page with the token."""
        context = self.context(**options)
        context.add_init_script(f"if (self === top) sessionStorage.setItem('pegboard.token', '{TOKEN}')")
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda m: self.faults.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.goto(f"{self.url}{path}")
        return page


Open = Callable[..., AbstractContextManager[Console]]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser. While it is open a loop runs in this thread, so that no async test may stand beside it."""
    assert (BUNDLE / "index.html").exists(), "the console is not built: run make console"
    program = find_chromium("", dict(os.environ))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def serving(folder: Path, *words: str, **variables: str) -> Generator[tuple[str, list[str]]]:
    """`pegboard serve` over a folder: its address, and the lines that it prints."""
    command = [sys.executable, "-m", "pegboard.cli.main", "serve", "--port", "0", *words]
    with subprocess.Popen(
        command, cwd=folder, text=True, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env={**os.environ, "PEGBOARD_TOKEN": TOKEN, **variables},
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            lines = [process.stderr.readline()]
            match = re.search(r"http://127\.0\.0\.1:\d+", lines[0])
            assert match, lines[0]
            # Read on, so that what it prints never fills the pipe.
            threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True).start()
            yield match[0], lines
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


@pytest.fixture
def console(folder: Path, chromium: Browser) -> Open:
    """Serves the folder with a model; gives the console, which must have shown no error in the end."""

    @contextmanager
    def opened(model: str = "local", *words: str) -> Generator[Console]:
        contexts: list[BrowserContext] = []

        def context(**options: Any) -> BrowserContext:
            contexts.append(chromium.new_context(**options))
            return contexts[-1]

        with serving(folder, "--model", model, *words) as (url, _):
            made = Console(url, folder, context)
            try:
                yield made
            finally:
                for one in contexts:
                    one.close()
        assert made.faults == []

    return opened
