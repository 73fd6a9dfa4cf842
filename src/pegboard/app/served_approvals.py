"""ServedApprovals: calls of MCP clients that wait for the owner, as rows beside those of suspended runs (decisions 9, 14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pegboard.app.approvals import Approvals
from pegboard.core.call.call import new_id
from pegboard.core.events import PermissionRequested, RunFinished, RunStarted
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused
from pegboard.store.blocking import BlockingStore
from pegboard.store.logs import SessionLog

AGENT: Final = "mcp"
"""Names these runs; nothing of them can be taken up but by the client's own next call."""

MAX_WAITING: Final = 100


class ServedApprovals:
    """Each waiting call is a run of its own in a stream of its own; the client repeats the call once it is answered.

    An answer holds for exactly the call that was shown: its key is the digest that an approval binds
    (decisions 5), and it is used up by the call.

    Args:
        store: where they lie.
        log: opens the writer of a stream; `run` names one that is taken up again.
    """

    def __init__(self, store: BlockingStore, log: Callable[..., SessionLog]) -> None:
        self._book = Approvals(store)
        self._store = store
        self._log = log

    async def taken(self, request: ApprovalRequest) -> Approved | Refused | None:
        """The owner's answer to this very call, used up by that; None while there is none."""
        key, stream = _key(request), _stream(request)
        for row in self._store.runs(stream=stream, limit=1, status="suspended"):
            answer = self._book.answers(row.id).get(key)
            if isinstance(answer, Approved | Refused):
                self._book.forget({key: answer})
                word = "approved" if isinstance(answer, Approved) else "refused"
                await self._write(stream, row.id, RunFinished(run=row.id, status="done", answer=word))
                return answer
        return None

    async def kept(self, request: ApprovalRequest, client: str) -> str:
        """Keep the call waiting; the key under which `pegboard approvals` shows it, empty where too many wait."""
        key, stream = _key(request), _stream(request)
        if self._store.runs(stream=stream, limit=1, status="suspended"):
            return key
        waiting = [r for r in self._store.runs(limit=-1, status="suspended") if r.agent == AGENT]
        if len(waiting) >= MAX_WAITING:
            return ""
        run = new_id("run")
        task = f"the MCP client {client or 'without a name'} calls {request.tool}; it repeats the call once it is answered"
        pending = {"pending": key, "kind": "approval", "call_id": request.call.id, "tool": request.tool}
        await self._write(
            stream,
            run,
            RunStarted(run=run, session=stream, agent=AGENT, model="", task=task),
            PermissionRequested(
                approval=key, call_id=request.call.id or "", tool=request.tool, effects=request.effects,
                changes=request.changes, reason=request.reason, digest=request.digest, novel=request.novel,
            ),
            RunFinished(run=run, status="suspended", answer="", pending=(pending,)),
        )  # fmt: skip
        return key

    async def _write(
        self, stream: str, run: str, *events: RunStarted | PermissionRequested | RunFinished
    ) -> None:
        log = self._log(stream, run=run)
        try:
            for event in events:
                log.record(event)
            await log.flush()
        finally:
            log.close()


def _key(request: ApprovalRequest) -> str:
    return f"ap-mcp-{request.digest[:24]}"


def _stream(request: ApprovalRequest) -> str:
    return f"mcp:waiting:{request.digest[:32]}"
