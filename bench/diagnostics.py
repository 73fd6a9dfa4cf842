"""What a write costs with diagnostics off, with Python compiled, and with a language server, within one run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from pegboard.app.app import App

ROUNDS = 60
LINES = 200
CASES = {
    "off": ("a.py", "[diagnostics]\nenabled = false\n"),
    "text": ("a.txt", ""),
    "python": ("a.py", ""),
    "ruff": ("a.py", '[diagnostics.files]\n"*.py" = "ruff"\n'),
}


async def measure(folder: Path) -> dict[str, float]:
    """The figures: milliseconds of the fastest write when off, and the others in times of it."""
    best = dict.fromkeys(CASES, float("inf"))
    async with AsyncExitStack() as stack:
        executors = {}
        for name, (_, settings) in CASES.items():
            workspace, file = folder / name, folder / f"{name}.toml"
            workspace.mkdir()
            file.write_text(f"path_prepend = [{json.dumps(str(Path(sys.executable).parent))}]\n{settings}")
            app = stack.enter_context(App.open(workspace=workspace, config=file))
            executors[name] = await stack.enter_async_context(app.executor())
        for n in range(ROUNDS):
            content = "".join(f"name_{n}_{line} = {line}\n" for line in range(LINES))
            for name, (path, _) in CASES.items():
                begun = time.perf_counter()
                result = await executors[name].call("write_file", {"path": path, "content": content})
                # The fastest: the others measure what else the machine does.
                best[name] = min(best[name], time.perf_counter() - begun)
                assert result.ok, result.text
    off = best["off"]
    return {"off_ms": off * 1000, **{f"x_{name}": best[name] / off for name in CASES if name != "off"}}


def main() -> None:
    """Print the figures as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("STATE", "CONFIG", "CACHE", "DATA"):
            os.environ[f"XDG_{kind}_HOME"] = f"{folder}/{kind.lower()}"
        figures = asyncio.run(measure(Path(folder)))
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
