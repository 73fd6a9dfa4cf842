"""A server of ours for the tests: python served.py stdio|http."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

from pegboard import PURE, Effect, Executor, Inject, Toolkit, tool
from pegboard.mcp.client_approver import ClientApprover
from pegboard.mcp.prompts import Prompt, TextPrompts
from pegboard.mcp.request_context import CallingClient
from pegboard.mcp.server import ToolServer


@tool(effects=PURE)
async def echo(text: str) -> str:
    """Echo the text."""
    return text


@tool(effects=PURE)
async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool(effects=[Effect("send", "mail:boss")])
async def send_mail(text: str) -> str:
    """Send mail."""
    return f"sent {text}"


@tool(effects=PURE)
async def wait(seconds: float, client: Inject[CallingClient]) -> str:
    """Wait, reporting progress."""
    client.progress(1, 2, "half")
    await asyncio.sleep(seconds)
    return "waited"


@tool(effects=PURE)
async def child() -> str:
    """Start a process and print noise."""
    print("noise on standard output")
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return str(started.pid)


def build(*, trusted: bool = False, **options: Any) -> ToolServer:
    """The service."""
    kit = Toolkit([echo, add, send_mail, wait, child])
    door = Executor(kit, approver=ClientApprover(trusted=trusted), provide=[CallingClient()])
    prompts = TextPrompts([Prompt("greet", "Greets.", "Hello {name}!", ("name",))])
    return ToolServer(door.pipeline, door.context, prompts=prompts, name="served", version="1", **options)


def main() -> None:
    from pegboard.mcp.serve_stdio import serve_stdio
    from pegboard.process.stdio import claim_stdout

    asyncio.run(serve_stdio(build(trusted="trusted" in sys.argv), sink=claim_stdout()))


if __name__ == "__main__":
    main()
