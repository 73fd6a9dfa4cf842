"""Tools that run in worker processes, for tests: a worker imports them by name."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pegboard import PURE, tool
from pegboard.core.content import Image
from pegboard.core.errors import NotFound
from pegboard.core.result import ToolResult


@dataclass
class Entry:
    day: date
    count: int = 1


@tool(effects=PURE, isolated=True, timeout_s=0.3)
def spin() -> int:
    """Never end, and never let go."""
    while True:
        pass


@tool(effects=PURE, isolated=True, timeout_s=0.3)
def sleep_in_c() -> int:
    """Hold the interpreter's lock."""
    ctypes.PyDLL(None).sleep(600)
    return 0


@tool(effects=PURE, isolated=True, memory_mb=64)
def allocate(mb: int) -> int:
    """Take memory."""
    return len(bytearray(mb * 2**20))


@tool(effects=PURE, isolated=True)
def pid() -> int:
    """The worker's process id."""
    return os.getpid()


@tool(effects=PURE, isolated=True)
async def next_entry(entry: Entry, by: int = 1) -> Entry:
    """An entry that follows another."""
    assert isinstance(entry, Entry)
    assert isinstance(entry.day, date)
    print("a line on standard output", sys.stdin.read())
    return Entry(entry.day.replace(day=entry.day.day + by), entry.count + 1)


@tool(effects=PURE, isolated=True)
def fail(how: str) -> int:
    """Fail in one way or another."""
    match how:
        case "bug":
            return {"a": 1}[how]  # type: ignore[return-value]
        case "told":
            raise NotFound("no such entry: 7", hint="List the entries.", details={"entry": 7})
        case "exit":
            sys.exit(3)
        case _:
            os._exit(3)


@tool(effects=PURE, isolated=True)
def picture() -> ToolResult:
    """A picture and data."""
    return ToolResult(content=(Image(data=b"\x89PNG", mime_type="image/png"),), data={"width": 1})


@tool(effects=PURE, isolated=True)
def raw() -> bytes:
    """Bytes that are no text."""
    return b"\x00\xff"


@tool(effects=PURE, isolated=True)
def huge() -> str:
    """More than a worker may return."""
    return "x" * (65 * 2**20)


@tool(effects=PURE, isolated=True)
def start_and_wait(file: str) -> int:
    """Start a process, note both, and wait."""
    child = subprocess.Popen(["sleep", "600"])
    Path(f"{file}.new").write_text(f"{os.getpid()} {child.pid}")
    os.rename(f"{file}.new", file)
    time.sleep(600)
    return 0


@tool(effects=PURE, isolated=True)
def leave_a_thread() -> int:
    """Return with a thread still at work."""
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return os.getpid()
