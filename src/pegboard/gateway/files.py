"""Files, artifacts and undo over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from pegboard.app.app import App
from pegboard.files.undo import UndoReport
from pegboard.gateway.bodies import UndoBody, number, read_body
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.views import MAX_ROWS, session_of, shown
from pegboard.ports.artifacts import Version
from pegboard.services.undo import UndoEntry


class FileEndpoints:
    """The endpoints under `/api/files`, `/api/artifacts` and `/api/undo`.

    Args:
        app: whose services they call.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E, whole, text = Endpoint, "integer", "string"
        return [
            E(method="GET", path="/api/files", handler=self.show_path,
              query={"path": text, "offset": whole, "limit": whole}),
            E(method="GET", path="/api/artifacts", handler=self.list_artifacts, query={"session": text}),
            E(method="GET", path="/api/artifacts/{id}", handler=self.show_artifact,
              query={"session": text, "version": whole, "diff": whole}),
            E(method="GET", path="/api/undo", handler=self.list_undo),
            E(method="POST", path="/api/undo", handler=self.undo, body=UndoBody),
        ]  # fmt: skip

    async def show_path(self, request: Request) -> Any:
        """A folder of the workspace with its entries, or a file with its text, as the tools may read them."""
        offset = number(request, "offset", 1, most=10**9, least=1)
        limit = number(request, "limit", MAX_ROWS, most=10_000, least=1)
        path = request.query_params.get("path", "") or "."
        return shown(self._app, await self._app.files.show(path, offset=offset, limit=limit))

    async def list_artifacts(self, request: Request) -> Any:
        """The artifacts of a session, without their content."""
        found = await self._app.artifacts.list(session_of(request))
        return {"artifacts": [shown(self._app, artifact_to_dict(v)) for v in found]}

    async def show_artifact(self, request: Request) -> Any:
        """One artifact: its newest version, or the one that the query names; `diff` compares it with another."""
        session, id = session_of(request), request.path_params["id"]
        version = number(request, "version", 0, most=10**6) or None
        found = await self._app.artifacts.read(session, id, version)
        told = {**artifact_to_dict(found), "content": found.content}
        if other := number(request, "diff", 0, most=10**6):
            told["diff"] = await self._app.artifacts.diff(session, id, other, found.version)
        return shown(self._app, told)

    async def list_undo(self, request: Request) -> Any:
        """The changes that the journal has of the workspace, newest first."""
        entries = await self._app.undo.entries()
        return {"entries": [shown(self._app, entry_to_dict(e)) for e in entries[:MAX_ROWS]]}

    async def undo(self, request: Request) -> Any:
        """Take back what a call or run changed, keeping later edits."""
        body = await read_body(request, UndoBody, optional=True)
        done = await self._app.undo.undo(body.target, preview=body.preview, redo=body.redo)
        return shown(self._app, undo_to_dict(done))


def artifact_to_dict(version: Version) -> dict[str, Any]:
    """A version without its content."""
    return {
        "id": version.id, "version": version.version, "title": version.title, "content_type": version.content_type,
        "update_type": version.update_type, "created_at": version.created_at, "bytes": len(version.raw),
    }  # fmt: skip


def undo_to_dict(report: UndoReport) -> dict[str, Any]:
    """What an undo did or would do."""
    return {
        "applied": report.applied, "entry": report.entry,
        "changes": [c.to_dict() for c in report.changes.changes], "kept": list(report.kept),
        "conflicts": [{"path": c.path, "reason": c.reason} for c in report.conflicts],
        "missed": list(report.missed),
    }  # fmt: skip


def entry_to_dict(one: UndoEntry) -> dict[str, Any]:
    """One change of the journal."""
    entry = one.entry
    return {
        "entry": entry.id, "type": entry.type, "time": entry.time, "tool": entry.origin.tool,
        "call": entry.origin.call_id, "run": entry.origin.run, "holds": one.holds,
        "files": [{"path": f.path, "kind": f.kind} for f in entry.files],
    }  # fmt: skip
