"""Export: a recorded run as a test case that replays it, redacted (ledger G-03)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pegboard.core.codec import event_from_dict, event_to_dict
from pegboard.core.events import CallFinished, CallStarted, Event, ModelReplied
from pegboard.core.secrets.redact import MARK, Redactor
from pegboard.runtime.replay import replay, split

WORKSPACE = "/workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """A test module.

    Attributes:
        source: its text.
        includes: what stands in it, one line each, for whoever hands it on.
    """

    source: str
    includes: tuple[str, ...]


async def export_pytest(
    events: Sequence[Event], run: str, *, redactor: Redactor | None = None
) -> ExportResult:
    """The run as a pytest module.

    Args:
        events: of the run's session.
        run: which run.
        redactor: takes secrets out; None = the known kinds.

    Raises:
        Divergence: the run does not replay (after redaction), so the test would fail.
    """
    _, mine = split(events, run)
    workspace = str(event_to_dict(mine[0]).get("detail", {}).get("workspace") or "")
    clean = _Clean(redactor or Redactor(), workspace)
    rows = [cast("dict[str, Any]", clean.value(event_to_dict(e))) for e in mine]
    redacted = [event_from_dict(row) for row in rows]
    await replay(redacted, run)
    includes = tuple(_includes(redacted, clean))
    lines = "\n".join(f"    {json.dumps(row, ensure_ascii=False)!r}," for row in rows)
    listed = "\n".join(f"- {line}" for line in includes)
    source = (
        f'"""Replays {run} offline. Made by `pegboard runs export {run} --pytest`.\n\n'
        f"Look through it before you hand it on; it holds:\n{_quoted(listed)}\n"
        '"""\n\n'
        "import asyncio\nimport json\n\n"
        "from pegboard.core.codec import event_from_dict\n"
        "from pegboard.runtime.replay import replay\n\n"
        f"RUN = {run!r}\n"
        f"EVENTS = [\n{lines}\n]\n\n\n"
        f"def test_{run.replace('-', '_')}_goes_as_it_went() -> None:\n"
        "    asyncio.run(replay([event_from_dict(json.loads(e)) for e in EVENTS], RUN))\n"
    )
    return ExportResult(source=source, includes=includes)


class _Clean:
    """Takes secrets and the workspace's place out of every text."""

    def __init__(self, redactor: Redactor, workspace: str) -> None:
        self._redact = redactor.redact
        self._workspace = workspace if len(workspace) > 1 else ""
        self.redacted = 0
        self.media = 0

    def value(self, value: Any) -> Any:
        """The value with clean texts."""
        if isinstance(value, str):
            text, changed = self._redact(value)
            # What the record has taken out already is missing here too.
            self.redacted += changed or MARK.search(value) is not None
            return text.replace(self._workspace, WORKSPACE) if self._workspace else text
        if isinstance(value, Mapping):
            held = cast("Mapping[str, Any]", value)
            if held.get("type") in ("image", "audio", "file") and held.get("data"):
                # A picture may show anything, and no redactor reads it.
                self.media += 1
                return {**held, "data": ""}
            return {self.value(k): self.value(v) for k, v in held.items()}
        if isinstance(value, list):
            return [self.value(v) for v in cast("list[Any]", value)]
        return value


def _includes(events: Sequence[Event], clean: _Clean) -> list[str]:
    turns = sum(isinstance(e, ModelReplied) for e in events)
    calls = Counter(e.result.tool for e in events if isinstance(e, CallFinished))
    targets = sorted({str(f) for e in events if isinstance(e, CallStarted) for f in e.effects})
    changed = sorted({c.path for e in events if isinstance(e, CallStarted) for c in e.changes})
    lines = [f"the task and {turns} model turns, whole"]
    lines += [
        f"arguments and result of {count} {'call' if count == 1 else 'calls'} of {name}"
        for name, count in sorted(calls.items())
    ]
    lines += [f"effect: {target}" for target in targets]
    lines += [f"the diff of {path}" for path in changed]
    lines.append(f"{clean.redacted} texts with secrets taken out")
    if clean.media:
        lines.append(f"{clean.media} pictures, sounds or files left empty")
    return lines


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")
