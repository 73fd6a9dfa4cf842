"""The worker process of an isolated tool: loads one function, then calls it for each frame that comes."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from pegboard.core.call.shape import as_tool_error
from pegboard.core.codec import result_to_dict
from pegboard.core.errors import TooLarge, ToolError
from pegboard.core.isolation import IsolatedFunction
from pegboard.core.result import to_jsonable, to_result
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Tool
from pegboard.process.isolated import read_frame, write_frame


def main() -> None:
    """Serve the frames of standard input until it ends, and then end at once, whatever is running."""
    frames, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    # The pipes are ours: what the function reads and prints must not meet them.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    received: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def receive() -> None:
        while (frame := read_frame(frames)) is not None:
            received.put(frame)
        # The program that started us has ended: nobody waits for what is running.
        os._exit(0)

    def taken_up() -> bytes:
        frame = received.get()
        write_frame(answers, b"")
        return frame

    threading.Thread(target=receive, daemon=True).start()
    job = json.loads(taken_up())
    try:
        function, signature = load(job)
        _limit_memory(job["memory_mb"])
    except BaseException as error:  # noqa: BLE001  Foreign code: what it raises is reported to the process that started us.
        write_frame(answers, json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)
    write_frame(answers, b"{}")
    threads = threading.active_count()
    while True:
        answer = call(function, signature, json.loads(taken_up())["arguments"], job)
        answer.setdefault("healthy", threading.active_count() <= threads)
        sys.stdout.flush()
        try:
            write_frame(answers, json.dumps(answer).encode())
        except TooLarge as error:
            write_frame(answers, json.dumps({"error": error.to_dict(), "healthy": True}).encode())


def load(job: Mapping[str, Any]) -> tuple[Callable[..., Any], Signature]:
    """The function and its signature.

    Raises:
        ImportError: the module or the name is not there, or its file has changed since it was loaded.
    """
    found: Any = _module(job["module"], job["file"], job["sha256"])
    for name in job["qualname"].split("."):
        found = getattr(found, name, None)
    if isinstance(found, Tool) and isinstance(found.function, IsolatedFunction):
        return found.function.function, found.signature
    if inspect.isfunction(found):
        return found, Signature.of(found)
    raise ImportError(f"{job['module']} has no function {job['qualname']}")


def _module(name: str, file: str, sha256: str) -> ModuleType:
    if file:
        with open(file, "rb") as opened:
            source = opened.read()
        if hashlib.sha256(source).hexdigest() != sha256:
            raise ImportError(f"{file} has changed since this program loaded it; start the program again")
        spec = None
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or os.path.realpath(spec.origin) != os.path.realpath(file):
            # A file that was named by its path is found under no name.
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
            return module
    return importlib.import_module(name)


def call(
    function: Callable[..., Any], signature: Signature, arguments: Mapping[str, Any], job: Mapping[str, Any]
) -> dict[str, Any]:
    """One call: `result`, or what it raised as `error` or `raised`."""
    try:
        value = function(**signature.decode(arguments).arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        return {"result": result_to_dict(to_result(value)), "bytes": isinstance(value, bytes | bytearray)}
    except MemoryError:
        error = TooLarge(
            f"{job['tool']} needed more than {job['memory_mb']} MB of memory and was ended",
            hint="Ask for less at a time.",
        )
        return {"error": error.to_dict(), "healthy": False}
    except BaseException as error:  # noqa: BLE001  A boundary: it is raised again in the program that called.
        if isinstance(error, ToolError | TimeoutError | PermissionError | SystemExit):
            return {"error": to_jsonable(as_tool_error(error).to_dict())}
        text = "".join(traceback.format_exception(error))
        return {"raised": {"type": type(error).__name__, "message": str(error), "traceback": text}}


async def _awaited(value: Any) -> Any:
    return await value


def _limit_memory(memory_mb: int) -> None:
    """Address space beyond what is mapped now; where the system does not say how much that is, of the whole."""
    now = 0
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    limit = now + memory_mb * 2**20
    with suppress(ValueError, OSError):  # macOS has no such limit.
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
