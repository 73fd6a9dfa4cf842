"""Answers: what people answered to suspended calls, until the run that waits has used it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.approval import Approved, Refused
from pegboard.ports.store import Store
from pegboard.store.table import Table

Answer: TypeAlias = "Approved | Refused | str"
"""Approved or Refused for an approval, text for a question."""


class Answers:
    """The answers of a store, by the key in `pending`.

    Args:
        store: where they are.
        clock: gives each its time.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._now = (clock or SystemClock()).now
        self._table: Table[Answer] = Table(store, "answers", self._to_json, _from_json)

    async def give(self, key: str, answer: Answer) -> None:
        """Keep an answer; one that was given before is replaced."""
        await self._table.put(key, answer)

    async def of(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The answers to some of these keys that there are."""
        found = {key: await self._table.get(key) for key in keys}
        return {key: answer for key, answer in found.items() if answer is not None}

    async def used(self, keys: Iterable[str]) -> None:
        """Drop answers that have been used."""
        for key in keys:
            await self._table.delete(key)

    def _to_json(self, answer: Answer) -> dict[str, Any]:
        at = self._now()
        match answer:
            case Approved():
                return {
                    "answer": "approved", "scope": answer.scope, "expires_s": answer.expires_s,
                    "uses": answer.uses, "by": answer.by, "at": at,
                }  # fmt: skip
            case Refused(reason, by):
                return {"answer": "refused", "reason": reason, "by": by, "at": at}
            case text:
                return {"answer": "text", "text": text, "at": at}


def _from_json(value: Mapping[str, Any]) -> Answer:
    match value["answer"]:
        case "approved":
            return Approved(
                scope=value["scope"], expires_s=value["expires_s"], uses=value["uses"], by=value["by"]
            )
        case "refused":
            return Refused(value["reason"], value["by"])
        case _:
            return cast(str, value["text"])
