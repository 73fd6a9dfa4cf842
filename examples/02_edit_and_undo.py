"""An edit is previewed, made, and taken back; nothing leaves the workspace."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from pegboard import Executor, builtin


async def main() -> None:
    """Show the diff first, then change the file, then undo it."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes.txt"
        notes.write_text("The release is on Friday.\n")
        wanted = {"path": "notes.txt", "old_string": "Friday", "new_string": "Monday"}
        async with Executor(builtin("edit_file", "read_file"), workspace=folder) as executor:
            preview = await executor.preview("edit_file", wanted)
            print(preview.decision, [str(e) for e in preview.effects])
            print(preview.changes[0].diff)
            print(await executor.call("edit_file", wanted))
            print(await executor.call("read_file", {"path": "../outside.txt"}))
            await executor.undo()
            assert notes.read_text() == "The release is on Friday.\n"


asyncio.run(main())
