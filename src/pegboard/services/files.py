"""Files: what lies in the workspace, for people who look at it; read as the tools read it."""

from __future__ import annotations

from typing import Any

from pegboard.core.result import ToolResult
from pegboard.services.runtime import Runtime


class WorkspaceFiles:
    """The files of the workspace, to look at. The workspace's border, the policy and the redaction of secrets hold as
    for a tool's call; nothing is recorded.

    Args:
        runtime: the workspace and its policy.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def show(self, path: str = ".", *, offset: int = 1, limit: int = 1000) -> dict[str, Any]:
        """A folder with its entries (`kind` is dir), or a file with lines of its text (`kind` is file).

        Args:
            path: relative to the workspace.
            offset: a file's first line, counted from 1.
            limit: the most lines, or entries.

        Raises:
            ToolError: it is not there, outside the workspace, denied, or cannot be read.
        """
        listed = await self._call("list_dir", path=path, max_entries=limit)
        if listed.error is None:
            return {"kind": "dir", **listed.data}
        if listed.error.code != "unsupported":
            raise listed.error
        read = await self._call(
            "read_file", path=path, offset=offset, limit=limit, numbered=False, force=True
        )
        if read.error is not None:
            raise read.error
        # A picture or an unknown format has no text; a document's is its Markdown.
        data: dict[str, Any] = read.data or {}
        text = data["text"] if "text" in data else "" if data.get("binary") else read.text
        return {**data, "kind": "file", "path": path, "text": text}

    async def _call(self, tool: str, **arguments: Any) -> ToolResult:
        async with self._runtime.executor(recorded=False, only=tool) as executor:
            return await executor.call(tool, arguments)
