"""Our server under the Inspector's command line, and our client on the public filesystem and everything servers.

All three come from npm at the versions below and run on loopback. Each line of the report is one thing tried; the
exit status is 1 where one failed. Part of: make conformance.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))
sys.path.insert(0, str(HERE))

from conformance import free_port, wait_for  # noqa: E402
from conformance import node as find_node  # noqa: E402

PACKAGES = (
    "@modelcontextprotocol/inspector@0.15.0",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-everything@2026.8.31",
)
LIMIT_S = 60
REPORT: list[tuple[str, str]] = []


def install(folder: Path) -> Path:
    """The folder of the packages, fetched where they are not there yet."""
    modules = folder / "node_modules/@modelcontextprotocol"
    wanted = [modules / p.rpartition("@")[0].rpartition("/")[2] for p in PACKAGES]
    if not all(w.is_dir() for w in wanted):
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("conformance: npm is needed to fetch the peers")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", *PACKAGES]
        subprocess.run(command, check=True, timeout=600)
    return modules


def note(what: str, fault: str) -> None:
    """Keep and show how something went; an empty fault is well."""
    REPORT.append((what, fault))
    print(f"{'✗' if fault else '✓'} {what}{': ' + fault if fault else ''}", flush=True)


def tried(what: str, expected: bool, seen: object) -> None:
    """One line of the report."""
    note(what, "" if expected else f"got {str(seen)[:300]}")


# -- our server under the Inspector ------------------------------------------------------------


def inspected(node: str, modules: Path, target: list[str], words: list[str]) -> Any:
    """What the Inspector's command line prints, as JSON."""
    command = [node, str(modules / "inspector/cli/build/cli.js"), "--cli", *target, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"failed": done.returncode, "said": (done.stdout + done.stderr)[-300:]}


def inspect(node: str, modules: Path, target: list[str]) -> None:
    """Everything that the Inspector's command line can do, tried on our server."""

    def ask(*words: str) -> Any:
        return inspected(node, modules, target, list(words))

    tools = ask("--method", "tools/list")
    names = {t["name"] for t in tools.get("tools", [])}
    tried("inspector, stdio: tools/list", {"read_file", "grep"} <= names, tools)
    read = ask("--method", "tools/call", "--tool-name", "read_file", "--tool-arg", "path=a.txt")
    tried("inspector, stdio: tools/call", "hello" in str(read.get("content")), read)
    wrong = ask("--method", "tools/call", "--tool-name", "read_file", "--tool-arg", "path=../../etc/passwd")
    tried("inspector, stdio: a path outside is refused", wrong.get("isError") is True, wrong)
    listed = ask("--method", "resources/list")
    tried("inspector, stdio: resources/list", "workspace:///a.txt" in str(listed), listed)
    text = ask("--method", "resources/read", "--uri", "workspace:///a.txt")
    tried("inspector, stdio: resources/read", "hello" in str(text.get("contents")), text)
    prompts = ask("--method", "prompts/list")
    tried("inspector, stdio: prompts/list", "manual" in str(prompts), prompts)
    got = ask("--method", "prompts/get", "--prompt-name", "manual")
    tried("inspector, stdio: prompts/get", "Read it" in str(got), got)


def inspector(node: str, modules: Path, place: Path) -> None:
    """Our server, as `pegboard mcp serve` starts it, over both transports."""
    workspace, skills = place / "ws", place / "skills"
    (skills / "manual").mkdir(parents=True)
    (skills / "manual/SKILL.md").write_text("---\nname: manual\ndescription: Of this.\n---\nRead it.\n")
    workspace.mkdir()
    (workspace / "a.txt").write_text("hello\n")
    serve = [sys.executable, "-m", "pegboard.cli.main", "mcp", "serve", "--workspace", str(workspace),
             "--skills", str(skills)]  # fmt: skip
    os.environ.update(HOME=str(place))
    inspect(node, modules, serve)
    # This release of the Inspector sends no headers of ours, so it cannot bring the token that `serve --http` asks
    # for; the server of the conformance suite has none.
    port = free_port()
    server = subprocess.Popen([sys.executable, str(HERE / "conformance_server.py"), str(port)])
    try:
        wait_for(port, server)
        inspect_http(node, modules, f"http://127.0.0.1:{port}/mcp")
    finally:
        server.terminate()
        server.wait(10)


def inspect_http(node: str, modules: Path, url: str) -> None:
    """The same over HTTP, on the conformance suite's tools."""

    def ask(*words: str) -> Any:
        return inspected(node, modules, [url], ["--transport", "http", *words])

    tools = ask("--method", "tools/list")
    tried("inspector, http: tools/list", "test_simple_text" in str(tools), tools)
    said = ask("--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada")
    tried("inspector, http: tools/call", "Hello, Ada!" in str(said), said)
    text = ask("--method", "resources/read", "--uri", "test://static-text")
    tried("inspector, http: resources/read", "static text resource" in str(text), text)
    got = ask("--method", "prompts/get", "--prompt-name", "test_simple_prompt")
    tried("inspector, http: prompts/get", "simple prompt" in str(got), got)


# -- our client on public servers --------------------------------------------------------------

Call = Callable[..., Awaitable[Any]]


async def filesystem(node: str, modules: Path, place: Path) -> None:
    """The reference filesystem server: reads, writes, refuses what lies outside."""
    from pegboard import AllowOnce, Executor
    from pegboard.mcp.client import MCPServer

    root = place / "root"
    root.mkdir()
    (root / "a.txt").write_text("hello\n")
    program = str(modules / "server-filesystem/dist/index.js")
    server = MCPServer("fs", command=node, args=[program, str(root)], environment=os.environ)
    async with Executor([server], approver=AllowOnce()) as door:
        read = await door.call("mcp_fs_read_text_file", {"path": str(root / "a.txt")})
        tried("filesystem: read_text_file", "hello" in str(read), read)
        write = await door.call("mcp_fs_write_file", {"path": str(root / "b.txt"), "content": "grüße"})
        tried("filesystem: write_file", write.ok and (root / "b.txt").read_text() == "grüße", write)
        listing = await door.call("mcp_fs_list_directory", {"path": str(root)})
        tried("filesystem: list_directory", "b.txt" in str(listing), listing)
        outside = await door.call("mcp_fs_read_text_file", {"path": "/etc/passwd"})
        tried("filesystem: outside is an error of the server's", outside.error is not None, outside)
        wrong = await door.call("mcp_fs_read_text_file", {"path": 7})
        tried("filesystem: a wrong type is refused here", "path" in str(wrong) and not wrong.ok, wrong)
        tried("filesystem: nothing is suspicious", not server.warnings, server.warnings)


async def everything(server: Any, how: str) -> None:
    """The server that shows every feature."""
    from pegboard import AllowOnce, Executor

    async with Executor([server], approver=AllowOnce()) as door:
        await door.refresh_tools()
        names = {n.removeprefix("mcp_all_") for n in door.toolkit.names}

        async def call(*named: str, **arguments: Any) -> Any:
            # Its tools were renamed between releases; the first name that is there counts.
            found = next((n for n in named if n in names), named[0])
            return await door.call(f"mcp_all_{found}", arguments)

        echo = await call("echo", message="grüße 🧵")
        tried(f"everything, {how}: echo", "grüße 🧵" in str(echo), echo)
        total = await call("get-sum", "add", a=2, b=3)
        tried(f"everything, {how}: numbers", "5" in str(total), total)
        image = await call("get-tiny-image", "getTinyImage")
        kinds = {type(block).__name__ for block in image.content}
        tried(f"everything, {how}: an image", "Image" in kinds, image)
        data = await call("get-structured-content", "structuredContent", location="New York")
        tried(f"everything, {how}: structured content", data.ok and isinstance(data.data, dict), data)
        link = await call("get-resource-links", "getResourceLinks", count=2)
        tried(f"everything, {how}: resource links", link.ok, link)
        slow = await call("trigger-long-running-operation", "longRunningOperation", duration=1, steps=3)
        tried(f"everything, {how}: progress", slow.ok, slow)
        prompts = [n for n in names if n.endswith("get_prompt")]
        prompt = await call(prompts[0] if prompts else "get_prompt", name=server.catalogue.prompts[0]["name"])
        tried(f"everything, {how}: a prompt", prompt.ok, prompt)
        uri = server.catalogue.resources[0].get("uri")
        text = await call("read_resource", uri=uri)
        tried(f"everything, {how}: a resource", text.ok, text)


async def clients(node: str, modules: Path, place: Path) -> None:
    """Our client on both servers, over every transport that they have."""
    from pegboard.mcp.client import MCPServer
    from pegboard.mcp.config import ServerConfig

    await filesystem(node, modules, place)
    program = str(modules / "server-everything/dist/index.js")
    await everything(MCPServer("all", command=node, args=[program, "stdio"], environment=os.environ), "stdio")
    for word, transport, path in (("streamableHttp", "streamable_http", "mcp"), ("sse", "http_sse", "sse")):
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            node, program, word, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "PORT": str(port)},
        )  # fmt: skip
        try:
            async with asyncio.timeout(20):
                while True:
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", port)
                        writer.close()
                        break
                    except OSError:
                        await asyncio.sleep(0.1)
            url = f"http://127.0.0.1:{port}/{path}"
            config: Any = ServerConfig(name="all", url=url, transport=transport)
            await everything(MCPServer(config=config), word)
        finally:
            process.kill()
            await process.wait()


def main() -> int:
    """Try everything; 1 where something failed."""

    parser = argparse.ArgumentParser(description=__doc__)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--folder", type=Path, default=cache / "pegboard-conformance/peers")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
    node, modules = find_node(), install(args.folder)
    with tempfile.TemporaryDirectory(prefix="pegboard-peers-") as place:
        inspector(node, modules, Path(place))

        async def bounded() -> None:
            async with asyncio.timeout(240):
                await clients(node, modules, Path(place))

        asyncio.run(bounded())
    failed = [what for what, fault in REPORT if fault]
    print(f"peers: {len(REPORT) - len(failed)} of {len(REPORT)} went well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
