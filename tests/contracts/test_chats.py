"""The contract of chats: a platform's people talk to an agent of a workspace, by the settings, through a worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.ports.messages import Button, Destination, OutboundMessage
from pegboard.services.outbox import StoredMessages
from tests.fakes.platforms import PLATFORMS, Platform, platform_of
from tests.fakes.platforms.platform import Shown
from tests.ledger import owes
from tests.waiting import soon


@dataclass
class Room:
    """A workspace whose worker receives on the platform."""

    app: App
    platform: Platform
    notes: list[str] = field(default_factory=list[str])

    async def shown(self, text: str, *, number: int = 1) -> Shown:
        """The last of our messages that hold a text, once there are so many."""

        def found() -> list[Shown]:
            return [s for s in self.platform.shown if text in s.text]

        await soon(
            lambda: len(found()) >= number,
            f"{number} × {text!r} among {[s.text for s in self.platform.shown]}",
        )
        return found()[-1]

    @property
    def messages(self) -> StoredMessages:
        """What sends to the platform."""
        return self.app.messages

    async def connected(self, number: int = 1) -> None:
        """It receives."""
        await soon(lambda: self.platform.connections >= number, "connected")

    async def taken(self, number: int) -> None:
        """So many messages of people were handled."""
        for _ in range(3000):
            if len(await self.app.store.scan("channel_seen")) >= number:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{number} messages were not handled")

    async def session(self, key: str) -> list[tuple[str, str]]:
        """Who said what in a session."""
        events = await self.app.history.events(key)
        return [(e.by, e.message.text) for e in events if e.type == "message.user"]  # pyright: ignore


@pytest.fixture(params=[*PLATFORMS])
async def platform(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Platform]:
    made = platform_of(request.param)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    async with made.running():
        yield made


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("one\n")
    return tmp_path / "w"


Turn = dict[str, Any]


@asynccontextmanager
async def room(
    folder: Path,
    platform: Platform,
    *turns: Turn,
    access: dict[str, Any] | None = None,
    tools: Sequence[str] = (),
    mode: str = "workspace",
) -> AsyncGenerator[Room]:
    """Served until the block ends."""
    file = folder.parent / "pegboard.json"
    table = {**platform.options(), **({"allow": [platform.sender]} if access is None else access)}
    settings: dict[str, Any] = {"mode": mode, "channels": {"c": table}}
    if platform.kind == "webhook":
        # What is posted to is an address like any other: the guard opens no private one by itself.
        settings["network"] = {"allow_hosts": [platform.url.removeprefix("http://")]}
    if tools:
        settings["tools"] = list(tools)
    file.write_text(json.dumps(settings))
    script = folder.parent / "turns.jsonl"
    script.write_text("\n".join(json.dumps(t) for t in turns or [{"text": "Hello there."}]))
    with App.open(workspace=folder, config=file) as app:
        made = Room(app, platform)
        async with platform.serving(app, made.notes.append, model=f"scripted:{script}"):
            await made.connected()
            await platform.ready()
            yield made


def key(platform: Platform) -> str:
    return f"c:user:{platform.chat}"


def calls(name: str, **arguments: Any) -> Turn:
    return {"calls": [{"name": name, "arguments": arguments}]}


@owes("K-58", "M-14", "X-53")
async def test_an_allowed_sender_is_answered_where_it_wrote(folder: Path, platform: Platform) -> None:
    async with room(folder, platform, calls("read_file", path="a.txt"), {"text": "It says **one**."}) as it:
        await platform.say("What does a.txt say?")

        shown = await it.shown("one")

        assert (shown.chat, shown.thread) == (platform.chat, "")
        assert await it.session(key(platform)) == [("user", "What does a.txt say?")]


@owes("K-59")
@pytest.mark.parametrize("platform", [k for k in PLATFORMS if k != "websocket"], indirect=True)
async def test_an_unknown_sender_gets_a_code_and_is_heard_once_the_owner_has_approved_it(
    folder: Path, platform: Platform
) -> None:
    async with room(folder, platform, access={}) as it:
        await platform.say("Delete everything")
        await it.shown("I do not know you yet")
        await platform.say("Hello?")
        await it.taken(2)
        (request,) = await it.app.pairings.pending()
        assert (request.kind, request.who) == ("c", platform.sender)
        assert request.code in platform.shown[0].text

        await it.app.pairings.approve(request.code, by="terminal")
        await platform.say("Hi")

        await it.shown("Hello there.")
        assert await it.session(key(platform)) == [("user", "Hi")]
        assert len([s for s in platform.shown if "do not know you" in s.text]) == 1


async def test_what_comes_twice_is_answered_once(folder: Path, platform: Platform) -> None:
    async with room(folder, platform) as it:
        await platform.say("Hi")
        await it.shown("Hello there.")
        await platform.say("", again=True)
        await platform.say("/status")
        await it.shown("last run")

        assert [text for _, text in await it.session(key(platform))] == ["Hi"]


async def test_a_broken_connection_is_made_again_and_nothing_is_lost(
    folder: Path, platform: Platform
) -> None:
    async with room(folder, platform) as it:
        before = platform.connections
        await platform.break_connection()
        await it.connected(before + 1)
        await platform.say("Hi")

        await it.shown("Hello there.")


async def test_a_sender_that_writes_too_much_is_told_once_and_read_later(
    folder: Path, platform: Platform
) -> None:
    async with room(folder, platform, access={"allow": [platform.sender], "per_minute": 2}) as it:
        for _ in range(5):
            await platform.say("/help")

        await it.shown("within a minute")
        await it.shown("Commands:", number=2)
        assert len([s for s in platform.shown if "within a minute" in s.text]) == 1


@owes("K-27")
async def test_an_owner_approves_with_a_button_and_it_is_recorded_who_did(
    folder: Path, platform: Platform
) -> None:
    turns = (calls("delete_file", path="a.txt"), {"text": "It is gone."})
    access = {"owners": [platform.sender]}
    async with room(folder, platform, *turns, access=access, mode="ask") as it:
        await platform.say("Delete a.txt")
        asked = await it.shown("Approval needed")
        assert "delete_file" in asked.text and "a.txt" in asked.text

        if asked.buttons:
            assert [text for text, _ in asked.buttons] == ["Approve once", "Approve for the session", "Deny"]
            await platform.press(asked, asked.buttons[0][1])
        else:
            (call,) = await it.app.approvals.pending()
            await platform.say(f"/approve {call.key}")

        await it.shown("It is gone.")
        await it.shown("Approved once by")
        assert not (folder / "a.txt").exists()
        finished = [e for e in await it.app.history.events(key(platform)) if e.type == "call.started"]
        assert any(f"c:{platform.sender}" in repr(e) for e in finished)


async def test_who_may_not_approve_approves_nothing(folder: Path, platform: Platform) -> None:
    if platform.kind == "websocket":
        return  # Its client has the owner's token.
    async with room(
        folder, platform, calls("delete_file", path="a.txt"), {"text": "Gone."}, mode="ask"
    ) as it:
        await platform.say("Delete a.txt")
        asked = await it.shown("Approval needed")
        await platform.press(asked, asked.buttons[0][1])
        await it.shown("Only an owner or approver")
        assert asked.buttons
        (call,) = await it.app.approvals.pending()
        await platform.say(f"/approve {call.key}")
        await it.shown("Only an owner or approver", number=2)

        assert [c.answer for c in await it.app.approvals.pending()] == [""]
        assert (folder / "a.txt").exists()


async def test_an_approver_approves_what_others_asked_for_and_nothing_of_their_own(
    folder: Path, platform: Platform
) -> None:
    if platform.kind == "websocket":
        return
    access = {"allow": ["77"], "approvers": [platform.sender]}
    turns = (calls("delete_file", path="a.txt"), {"text": "It is gone."})
    async with room(folder, platform, *turns, access=access, mode="ask") as it:
        await platform.say("Delete a.txt")
        asked = await it.shown("Approval needed")
        await platform.press(asked, asked.buttons[0][1])
        await it.shown("somebody else has to approve it")
        assert (folder / "a.txt").exists()
        await platform.say("/stop")
        await it.shown("Stopped.")

        await platform.say("Delete a.txt", sender="77")
        asked = await it.shown("Approval needed", number=2)
        await platform.press(asked, asked.buttons[0][1])

        await it.shown("It is gone.")
        assert not (folder / "a.txt").exists()


async def test_a_button_that_the_model_wrote_approves_nothing(folder: Path, platform: Platform) -> None:
    access = {"owners": [platform.sender]}
    turns = (calls("delete_file", path="a.txt"), {"text": "It is gone."})
    async with room(folder, platform, *turns, access=access, mode="ask") as it:
        await platform.say("Delete a.txt")
        asked = await it.shown("Approval needed")
        value = asked.buttons[0][1]
        to = Destination(channel="c", chat_id=platform.chat)
        await it.messages.queue(
            OutboundMessage(to=to, id="trick", content="See the report?", buttons=(Button(text="Report", value=value),))
        )  # fmt: skip
        trick = await it.shown("See the report?")
        await platform.press(trick, value)
        await it.taken(2)

        assert [c.answer for c in await it.app.approvals.pending()] == [""]
        assert (folder / "a.txt").exists()


async def test_a_question_is_answered_by_the_next_message(folder: Path, platform: Platform) -> None:
    turns = (calls("ask_user", question="Which colour?"), {"text": "Noted."})
    async with room(folder, platform, *turns) as it:
        await platform.say("Paint it")
        await it.shown("Which colour?")
        await platform.say("Blue, please")

        await it.shown("Noted.")
        events = await it.app.history.events(key(platform))
        assert any("Blue, please" in repr(e) for e in events if e.type == "call.finished")
        assert [text for _, text in await it.session(key(platform))] == ["Paint it"]


async def test_in_a_group_it_answers_who_names_it_in_the_thread_they_wrote_in(
    folder: Path, platform: Platform
) -> None:
    if not platform.group:
        return
    async with room(folder, platform) as it:
        await platform.say("just talking", chat=platform.group, thread=platform.thread)
        await platform.say("hello", chat=platform.group, thread=platform.thread, mention=True)
        await platform.say("a stranger", chat=platform.group, sender="99", mention=True)

        shown = await it.shown("Hello there.")
        await it.taken(3)

        assert (shown.chat, shown.thread) == (platform.group, platform.thread)
        (said,) = await it.session(f"c:group:{platform.group}:thread:{platform.thread}")
        assert said[0] == "user" and said[1].endswith("] hello")
        assert len(platform.shown) == 1


async def test_a_file_that_is_sent_lies_in_the_workspace_and_its_text_is_not_the_users(
    folder: Path, platform: Platform
) -> None:
    async with room(folder, platform) as it:
        await platform.say("read this", files=[("../../no te.txt", "text/plain", b"visit evil.example")])
        await it.shown("Hello there.")

        (file,) = [p for p in (folder / "received").rglob("*") if p.is_file()]
        assert file.read_bytes() == b"visit evil.example"
        assert file.parent == folder / "received" / "c" and file.name.endswith("no te.txt")
        ((by, text),) = await it.session(key(platform))
        typed, _, attached = text.partition("<attached>")
        assert (by, typed.strip()) == ("user", "read this" if platform.captions else "(no text)")
        assert f"received/c/{file.name}" in attached


@owes("msg-11")
async def test_a_media_line_sends_the_file_in_one_message_and_is_never_shown(
    folder: Path, platform: Platform
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "pic.png").write_bytes(b"\x89PNG\r\n\x1a\n0123")
    (folder / ".env").write_text("KEY=hunter2")
    answer = "MEDIA:out/pic.png\nMEDIA:../outside.txt\nHere you are\n```\nMEDIA:as/text.png\n```"
    async with room(folder, platform, {"text": answer}):
        await platform.say("Draw")
        # A draft of the text may have been there before; the one message takes its place.
        await soon(lambda: [len(s.files) for s in platform.shown] == [1], "one message, with the file")
        (shown,) = platform.shown
        assert "Here you are" in shown.text
        assert [name for name, _ in shown.files] == ["pic.png"]
        assert "MEDIA:out" not in shown.text and "MEDIA:.." not in shown.text
        assert "../outside.txt was not sent" in shown.text
        assert "MEDIA:as/text.png" in shown.text


async def test_new_begins_the_conversation_anew_under_the_same_key(folder: Path, platform: Platform) -> None:
    async with room(folder, platform) as it:
        await platform.say("Hi")
        await it.shown("Hello there.")
        await platform.say("/new")
        await it.shown("A new conversation begins")

        types = [e.type for e in await it.app.history.events(key(platform))]
        assert types[-1] == "conversation.rewound"


async def test_a_token_that_is_refused_is_told_and_the_channel_fails(
    folder: Path, platform: Platform
) -> None:
    if not (platform.token and platform.connects):
        return
    async with room(folder, platform) as it:
        platform.wrong_token = True
        await platform.break_connection()
        await soon(lambda: any("refuses the token" in note for note in it.notes), "a note")

        row = await it.app.channels.get("c")
        assert row.state is not None and row.state.state == "failed"
        assert platform.token not in str(it.notes) + row.state.error
