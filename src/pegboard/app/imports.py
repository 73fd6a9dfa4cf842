"""Import: a session from JSON lines, as `pegboard runs export` writes them; past what is damaged (case agents-16).

Anybody may have written the file. So nothing in it is believed: its content counts as private and untrusted
whatever it says of itself, its runs have ended, and addresses in it are nobody's wish.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pegboard.core.call.call import new_id
from pegboard.core.codec import event_from_dict
from pegboard.core.errors import ConfigError
from pegboard.core.events import TRANSIENT, CallFinished, Event, Notice, RunFinished, RunResumed, RunStarted
from pegboard.core.policy.taint import PRIVATE, UNTRUSTED
from pegboard.core.result import SOURCE
from pegboard.core.secrets.clip import clip
from pegboard.runtime.transcripts import IMPORTED
from pegboard.store.log import UNREADABLE

if TYPE_CHECKING:
    from pegboard.app.home import App


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """What became of a file.

    Attributes:
        session: the new session that holds its events.
        runs: ids of its runs.
        events: how many events were good.
        bad: number and fault of each line that could not be read.
        copy: where the file was kept as it was found, None where nothing was bad.
    """

    session: str
    runs: tuple[str, ...]
    events: int
    bad: tuple[tuple[int, str], ...] = ()
    copy: Path | None = None


def import_file(app: App, path: Path) -> ImportResult:
    """Take the events of a file of JSON lines into a session of its own.

    A line that cannot be read (half written, damaged, of an unknown type) is reported and stands as a notice
    where it stood; the file is then kept whole in the state folder.

    Raises:
        ConfigError: the file cannot be read, holds no event at all, or holds a run that is here already.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    events, bad = _read(raw)
    good = [e for e in events if e.type not in TRANSIENT]
    if len(good) == len(bad):
        raise ConfigError(
            f"{path} holds no event that can be read ({len(bad)} damaged {'line' if len(bad) == 1 else 'lines'})"
        )
    session = new_id("import")
    whole = _closed(_distrusted(_with_start(good, session), path.name))
    runs = tuple(dict.fromkeys(e.run for e in whole if isinstance(e, RunStarted)))
    for row in app.store.runs(limit=-1):
        if row.id in runs:
            raise ConfigError(f"run {row.id} already exists in session {row.stream!r}")
    copy = _keep(app.paths.state / "damaged", path, raw) if bad else None
    log = app.log(session)
    try:
        for event in whole:
            log.record(event)
    finally:
        log.close()
    return ImportResult(session=session, runs=runs, events=len(good) - len(bad), bad=bad, copy=copy)


def _read(raw: bytes) -> tuple[list[Event], tuple[tuple[int, str], ...]]:
    """The events, a notice in the place of each bad line; and number and fault of those."""
    events: list[Event] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            events.append(event_from_dict(json.loads(line)))
        except UNREADABLE as error:
            why = clip(f"{type(error).__name__}: {error}", 0, 200)
            bad.append((number, why))
            text = f"line {number} of the imported file is damaged and was left out ({why})"
            events.append(Notice(text=text, detail={"damaged": number}))
    return events, tuple(bad)


def _with_start(events: Sequence[Event], session: str) -> list[Event]:
    """The events as those of a session; one that lost its beginning gets one, or it would be in no list."""
    out: list[Event] = [replace(e, session=session) if isinstance(e, RunStarted) else e for e in events]
    first = next((e for e in out if isinstance(e, RunStarted | RunResumed | RunFinished)), None)
    if not isinstance(first, RunStarted):
        run = new_id("run") if first is None else first.run
        out.insert(
            0, RunStarted(run=run, session=session, agent="main", model="", task="(its beginning is lost)")
        )
    elif not isinstance(out[0], RunStarted):
        # What stands before the first start belongs to a run whose start is damaged; it is kept with the first.
        out.remove(first)
        out.insert(0, first)
    return out


def _distrusted(events: Sequence[Event], name: str) -> list[Event]:
    """The events with the labels of what comes from nobody knows where; a file cannot say that it is harmless."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, RunStarted | RunResumed):
            event = replace(event, detail={**event.detail, IMPORTED: name})
        elif isinstance(event, CallFinished):
            notes = event.result.notes
            labels = tuple(sorted({*notes.labels, PRIVATE, UNTRUSTED}))
            extra = {SOURCE: f"imported {name}", **notes.extra}
            event = CallFinished(replace(event.result, notes=replace(notes, labels=labels, extra=extra)))
        out.append(event)
    return out


def _closed(events: list[Event]) -> list[Event]:
    """The events with an end for each run: what a file asks for or was in the middle of is not taken up here."""
    out: list[Event] = []
    going: str | None = None
    for event in events:
        if isinstance(event, RunStarted):
            out += _end(going)
            going = event.run
        elif isinstance(event, RunResumed):
            going = event.run
        elif isinstance(event, RunFinished):
            going = event.run if event.status == "suspended" else None
        out.append(event)
    return out + _end(going)


def _end(run: str | None) -> list[Event]:
    if run is None:
        return []
    return [RunFinished(run=run, status="failed", answer="", error="it was imported before it finished")]


def _keep(folder: Path, path: Path, raw: bytes) -> Path:
    """A copy of a file as it was found, named by its content."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = folder / f"{hashlib.sha256(raw).hexdigest()[:12]}-{path.name}"
    kept.touch(mode=0o600)
    kept.write_bytes(raw)
    return kept
