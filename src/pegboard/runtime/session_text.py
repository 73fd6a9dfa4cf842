"""A session's events as the messages that people and models read: without secrets, large results by reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pegboard.core.events import CallFinished, ContextCompacted, Event, ModelReplied, RunStarted, UserSaid
from pegboard.core.secrets.clip import clip
from pegboard.ports.sessions import SessionEntry, SessionHistory
from pegboard.ports.store import Store
from pegboard.runtime.fold import fold, without_rewound
from pegboard.runtime.shorten import shorten_text
from pegboard.store.log import decode_events

_LONGEST = 2000
"""Characters of one message in a history."""
_SEARCHED = ("message.user", "model.replied", "call.finished")
_MOST_SESSIONS, _MOST_RECORDS, _PAGE = 200, 20_000, 500


def entries(session: str, events: Iterable[Event]) -> list[SessionEntry]:
    """Every message of a session, oldest first, whole."""
    out: list[SessionEntry] = []
    run = ""
    for event in events:
        match event:
            case RunStarted():
                run = event.run
            case UserSaid(message) if event.by != "runtime":
                text = message.text
                out.append(SessionEntry(session=session, run=run, role="user", by=event.by, text=text))
            case ModelReplied(message) if message.text.strip():
                out.append(SessionEntry(session=session, run=run, role="assistant", text=message.text))
            case CallFinished(result):
                out.append(
                    SessionEntry(
                        session=session, run=run, role="tool", by=result.tool, text=result.text,
                        spill=result.notes.spill or "",
                    )
                )  # fmt: skip
            case _:
                pass
    return out


def history_of(
    session: str, events: Sequence[Event], *, limit: int, redact: Callable[[str], str]
) -> SessionHistory:
    """The last messages of a session."""
    every = entries(session, without_rewound(events))
    last = every[-limit:] if limit > 0 else []
    return SessionHistory(
        entries=tuple(_shown(entry, redact) for entry in last),
        total=len(every),
        labels=tuple(sorted(fold(events).labels)),
        dropped=tuple(line for e in events if isinstance(e, ContextCompacted) for line in e.dropped),
    )


async def search(
    store: Store, sessions: Iterable[str], text: str, *, limit: int, redact: Callable[[str], str]
) -> list[SessionEntry]:
    """The messages in which all words of a text stand, in the order of the sessions.

    It looks at 200 sessions and 20,000 records at most, so that a search ends soon however much there is.
    """
    words = text.casefold().split()
    found: list[SessionEntry] = []
    looked = 0
    for session in list(sessions)[:_MOST_SESSIONS]:
        after = 0
        while words and looked < _MOST_RECORDS:
            page = await store.read(session, after=after, types=_SEARCHED, limit=_PAGE)
            for record in page:
                for entry in entries(session, decode_events([record])):
                    if all(word in entry.text.casefold() for word in words):
                        found.append(_excerpt(entry, record.run, words[0], redact))
                        if len(found) == limit:
                            return found
            looked += len(page)
            if len(page) < _PAGE:
                break
            after = page[-1].seq
    return found


def _shown(entry: SessionEntry, redact: Callable[[str], str]) -> SessionEntry:
    text = shorten_text(redact(entry.text), _LONGEST)
    return _with(entry, entry.run, text)


def _excerpt(entry: SessionEntry, run: str, word: str, redact: Callable[[str], str]) -> SessionEntry:
    text = redact(entry.text)
    at = max(text.casefold().find(word), 0)
    start = max(at - 100, 0)
    cut = " ".join(clip(text, start, start + 300).split())
    return _with(entry, run, f"…{cut}" if start else cut)


def _with(entry: SessionEntry, run: str, text: str) -> SessionEntry:
    return SessionEntry(
        session=entry.session, role=entry.role, text=text, run=run, by=entry.by, spill=entry.spill
    )
