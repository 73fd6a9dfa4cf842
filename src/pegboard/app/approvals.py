"""Approvals: what suspended runs wait for, and the answers that people give later (decisions 14; K-25, G-17)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pegboard.core.effects import Change, Effect
from pegboard.core.errors import ConfigError
from pegboard.core.events import PermissionRequested, RunFinished
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.approval import Approved, Refused
from pegboard.store.blocking import BlockingStore
from pegboard.store.logs import history
from pegboard.store.runs import RunRow

_TABLE: Final = "answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """One call that waits for somebody.

    Attributes:
        key: what an answer is given to.
        kind: approval, question, subagent or message.
        run, session, task: where it waits.
        call_id, tool: the call.
        effects, changes, reason, novel: what an approval is asked for, and what of it is done for the first time.
        question: what a person is asked, empty for approvals.
        since: seconds since the epoch.
        answer: what was answered already, empty while nothing was.
    """

    key: str
    kind: str
    run: str
    session: str
    task: str
    call_id: str
    tool: str
    effects: tuple[Effect, ...] = ()
    changes: tuple[Change, ...] = ()
    reason: str = ""
    novel: tuple[str, ...] = ()
    question: str = ""
    since: float = 0.0
    answer: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "approval": self.key, "kind": self.kind, "run": self.run, "session": self.session,
            "task": self.task, "call_id": self.call_id, "tool": self.tool,
            "effects": [e.to_dict() for e in self.effects], "changes": [c.to_dict() for c in self.changes],
            "reason": self.reason, "novel": list(self.novel), "question": self.question, "since": self.since, "answer": self.answer,
        }  # fmt: skip


class Approvals:
    """The waiting calls of a store. The stream is their one record; only answers are rows of their own."""

    def __init__(self, store: BlockingStore, *, clock: Clock | None = None) -> None:
        self._store = store
        self._now = (clock or SystemClock()).now

    def pending(self, run: str | None = None) -> list[PendingCall]:
        """What waits now, of one run or of all, newest first."""
        out: list[PendingCall] = []
        for row in self._store.runs(limit=-1, status="suspended"):
            if run in (None, row.id) and self._is_last(row):
                out += self._of(row)
        return out

    def answer(self, key: str, answer: Approved | Refused | str) -> PendingCall:
        """Keep an answer; the run goes on with it when it is taken up.

        Args:
            key: a waiting call's key, or the unique start of one.
            answer: Approved or Refused for an approval, text for a question; a Refused fits both.

        Raises:
            ConfigError: nothing waits under that key any more, or the answer does not fit it.
        """
        found = [p for p in self.pending() if p.key.startswith(key)]
        exact = [p for p in found if p.key == key] or found
        if len(exact) != 1:
            what = "nothing is waiting" if not found else f"{len(found)} calls wait"
            raise ConfigError(
                f"{what} under {key!r}: it was answered or has expired; see: pegboard approvals"
            )
        call = exact[0]
        if (call.kind == "approval") == isinstance(answer, str):
            verb = "approve or deny it" if call.kind == "approval" else "answer it with a text"
            raise ConfigError(f"{call.key} is a waiting {call.kind}; {verb}")
        body = json.dumps({**_to_dict(answer), "at": self._now()}, ensure_ascii=False)
        self._store.put(_TABLE, call.key, body.encode())
        return call

    def answers(self, run: str) -> Mapping[str, Any]:
        """The answers to what a run waits for, by key."""
        out: dict[str, Any] = {}
        for call in self.pending(run):
            body = self._store.get(_TABLE, call.key)
            if body is not None:
                out[call.key] = _from_dict(json.loads(body))
        return out

    def forget(self, keys: Mapping[str, Any]) -> None:
        """Drop answers that have been used."""
        for key in keys:
            self._store.delete(_TABLE, key)

    def _is_last(self, row: RunRow) -> bool:
        """Whether the session has not gone on without it (case perm-13)."""
        return self._store.runs(stream=row.stream, limit=1)[0].id == row.id

    def _of(self, row: RunRow) -> list[PendingCall]:
        requests: dict[str, PermissionRequested] = {}
        waiting: tuple[Mapping[str, Any], ...] = ()
        for event in history(
            self._store, row.stream, run=row.id, types=("permission.request", "run.finished")
        ):
            if isinstance(event, PermissionRequested):
                requests[event.approval] = event
            elif isinstance(event, RunFinished):
                waiting = event.pending
        out: list[PendingCall] = []
        for one in waiting:
            key = str(one.get("pending"))
            asked = requests.get(key)
            given = self._store.get(_TABLE, key)
            out.append(
                PendingCall(
                    key=key, kind=str(one.get("kind")), run=row.id, session=row.stream, task=row.task,
                    call_id=str(one.get("call_id")), tool=str(one.get("tool")),
                    effects=() if asked is None else asked.effects,
                    changes=() if asked is None else asked.changes,
                    reason="" if asked is None else asked.reason,
                    novel=() if asked is None else asked.novel,
                    question=str(one.get("question", "")), since=row.ended,
                    answer="" if given is None else _told(json.loads(given)),
                )
            )  # fmt: skip
        return out


def _to_dict(answer: Approved | Refused | str) -> dict[str, Any]:
    match answer:
        case Approved():
            return {
                "answer": "approved", "scope": answer.scope, "expires_s": answer.expires_s,
                "uses": answer.uses, "by": answer.by,
            }  # fmt: skip
        case Refused(reason, by):
            return {"answer": "refused", "reason": reason, "by": by}
        case text:
            return {"answer": "text", "text": text}


def _from_dict(value: Mapping[str, Any]) -> Approved | Refused | str:
    match value["answer"]:
        case "approved":
            return Approved(
                scope=value["scope"], expires_s=value["expires_s"], uses=value["uses"], by=value["by"]
            )
        case "refused":
            return Refused(value["reason"], value["by"])
        case _:
            return cast(str, value["text"])


def _told(value: Mapping[str, Any]) -> str:
    return str(value.get("text") or value["answer"])
