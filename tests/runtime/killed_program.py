"""A program that waits for a person, in a process of its own: `killed_program.py FOLDER`. It is killed while it waits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pegboard import Agent, builtin
from pegboard.core.policy.approval import SuspendAll
from pegboard.models import ScriptedModel

SESSION = "programs"

CODE = """
import asyncio
notes = []
for name in ("a.txt", "b.txt"):
    notes.append((await read_file(name))["text"].strip())
print("read", len(notes))
try:
    first, second = await asyncio.gather(
        write_file("out.txt", " and ".join(notes)), write_file("more.txt", "more")
    )
    print(first)
except PermissionError as error:
    print("refused:", error)
len(notes)
"""


def agent(folder: Path, turns: list[Any]) -> Agent:
    """An agent that is asked before each write, over the store in a folder."""
    work = folder / "work"
    return Agent(
        tools=builtin("read_file", "write_file", "ask_user", "run_code"), model=ScriptedModel(turns), mode="ask",
        workspace=work, store=folder / "store.sqlite", approver=SuspendAll(),
    )  # fmt: skip


def call(code: str) -> dict[str, Any]:
    return {"calls": [{"id": "c1", "name": "run_code", "arguments": {"code": code}}]}


async def main(folder: Path) -> None:
    answer = await agent(folder, [call(CODE)]).run("go", session=SESSION)
    print(answer.run_id, answer.status, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
