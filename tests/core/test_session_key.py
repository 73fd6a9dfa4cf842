"""The grammar of session keys, and what is short for one."""

from __future__ import annotations

import pytest

from pegboard.core.errors import InvalidArguments, NotFound
from pegboard.core.session_key import SessionKey, check_session_key
from pegboard.ports.sessions import SessionRow
from pegboard.store.session_rows import find_session
from tests.ledger import owes


@owes("M-14", "X-53")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("telegram:user:123456", SessionKey(channel="telegram", kind="user", id="123456")),
        ("agent:main:telegram:group:-100", SessionKey(agent="main", channel="telegram", kind="group", id="-100")),
        ("slack:channel:C1:thread:17.5", SessionKey(channel="slack", kind="channel", id="C1", thread="17.5")),
        ("matrix:room:!a:example.org", SessionKey(channel="matrix", kind="room", id="!a:example.org")),
        ("telegram:123456", SessionKey(channel="telegram", id="123456")),
        ("agent:coder:subagent:task:sub-1", SessionKey(agent="coder", channel="subagent", kind="task", id="sub-1")),
        ("agent:coder:main", SessionKey(agent="coder", id="main")),
        ("release", SessionKey(id="release")),
    ],
)  # fmt: skip
def test_a_key_has_parts_and_is_written_from_them(text: str, parts: SessionKey) -> None:
    assert SessionKey.parse(text) == parts
    assert str(parts) == text


@owes("X-53")
@pytest.mark.parametrize("text", ["", "  ", "a\x1fb", "a\nb", "a\u202eb", "x" * 257, "a\ud800"])
def test_a_key_from_outside_has_nothing_that_cannot_be_printed(text: str) -> None:
    with pytest.raises(InvalidArguments):
        check_session_key(text)


ROWS = [
    SessionRow(key="telegram:user:1", label="Ada"),
    SessionRow(key="telegram:group:2"),
    SessionRow(key="telegram:user:2"),
    SessionRow(key="agent:coder:slack:channel:C1:thread:9"),
    SessionRow(key="slack:user:grace"),
    SessionRow(key="ada"),
]


@owes("X-53", "M-16")
@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        ("telegram:user:1", "telegram:user:1"),
        ("telegram:1", "telegram:user:1"),
        ("agent:main:telegram:user:1", "telegram:user:1"),
        ("slack:channel:C1", "agent:coder:slack:channel:C1:thread:9"),
        ("@Ada", "telegram:user:1"),
        ("@grace", "slack:user:grace"),
        ("ada", "ada"),
    ],
)
def test_short_forms_labels_and_handles_are_resolved(wanted: str, key: str) -> None:
    assert find_session(ROWS, wanted).key == key


def test_what_could_mean_several_sessions_names_them_and_what_means_none_is_not_found() -> None:
    with pytest.raises(InvalidArguments, match=r"means 2 sessions: telegram:group:2, telegram:user:2"):
        find_session(ROWS, "telegram:2")
    with pytest.raises(NotFound):
        find_session(ROWS, "agent:coder:telegram:user:1")
    with pytest.raises(NotFound):
        find_session(ROWS, "telegram:9")
