"""message: what goes out, to whom, and what is asked about it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pegboard import Executor, builtin
from pegboard.app.app import App
from pegboard.core.context import current_context
from pegboard.core.events import CallFinished, CallStarted, PermissionRequested, RunFinished
from pegboard.core.policy.approval import AllowOnce, Refused, SuspendAll
from pegboard.ports.messages import Attachment, Button, Delivery, Destination, InboundMessage, OutboundMessage
from pegboard.services.runtime import Interaction
from pegboard.services.worker import Worker
from pegboard.store.inbox import Inbox
from tests.ledger import owes

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


@dataclass
class Post:
    """A Messages port that keeps what it is given."""

    status: str = "sent"
    error: str = ""
    sent: list[OutboundMessage] = field(default_factory=list[OutboundMessage])

    async def send(self, message: OutboundMessage) -> Delivery:
        self.sent.append(message)
        return Delivery(id=message.id, status=self.status, to=message.to, error=self.error)

    def default(self) -> Destination | None:
        try:
            origin = current_context().origin
        except LookupError:
            return None
        return (
            Destination(channel=origin["channel"], chat_id=origin["chat_id"]) if "channel" in origin else None
        )

    def channels(self) -> Sequence[str]:
        return ("telegram", "whatsapp")


def executor(folder: Path, post: Post, **options: Any) -> Executor:
    options = {"policy": ["allow send:*"], **options}
    return Executor(builtin("message", "create_artifact"), workspace=folder, provide=[post], **options)


@owes("X-32", "N-84", "N-88")
@pytest.mark.parametrize(
    "arguments",
    [
        {"content": "Hi", "channel": "telegram", "chat_id": "42"},
        {"message": "Hi", "channel": "telegram", "target": "42"},
        {"text": "Hi", "channel": "telegram", "to": "42"},
        {"content": "Hi", "channel": "telegram", "chatId": "42"},
    ],
)
async def test_the_names_of_all_documents_mean_the_same(arguments: dict[str, Any], tmp_path: Path) -> None:
    post = Post()
    async with executor(tmp_path, post) as door:
        result = await door.call("message", arguments)

    assert str(result) == "Message sent to telegram:42"
    (sent,) = post.sent
    assert (sent.to, sent.content) == (Destination(channel="telegram", chat_id="42"), "Hi")
    assert result.data["id"] == sent.id


@owes("M-31", "M-32", "M-33", "X-32")
async def test_a_message_has_media_a_caption_buttons_and_a_reply(tmp_path: Path) -> None:
    post = Post()
    (tmp_path / "chart.png").write_bytes(PNG)
    async with executor(tmp_path, post) as door:
        picture = {
            "channel": "whatsapp", "target": "+49170", "media": "chart.png", "caption": "Today", "replyTo": "m7",
            "silent": True, "accountId": "work", "buttons": [[{"text": "Yes", "callback_data": "y"}], ["No"]],
        }  # fmt: skip
        preview = await door.preview("message", picture)
        result = await door.call("message", picture)
        await door.call("message", {"channel": "telegram", "to": "1", "buffer": b64encode(PNG).decode()})

    assert [(e.kind, e.target) for e in preview.effects] == [
        ("send", "whatsapp:+49170"),
        ("read", "chart.png"),
    ]
    assert str(result) == "Message sent to whatsapp:+49170 with 1 attachment"
    sent, buffered = post.sent
    assert sent.to == Destination(channel="whatsapp", chat_id="+49170", account_id="work")
    assert sent.media == (Attachment(name="chart.png", media_type="image/png", data=PNG, path="chart.png"),)
    assert (sent.caption, sent.reply_to, sent.silent) == ("Today", "m7", True)
    assert sent.buttons == (Button(text="Yes", value="y"), Button(text="No"))
    assert buffered.media == (Attachment(name="file.png", media_type="image/png", data=PNG),)


@owes("K-57")
@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"action": "edit", "message_id": "m1", "content": "New"}, {"target_id": "m1", "content": "New"}),
        ({"action": "delete", "messageId": "m1"}, {"target_id": "m1"}),
        ({"action": "react", "message_id": "m1", "emoji": "👍"}, {"target_id": "m1", "content": "👍"}),
        ({"action": "poll", "question": "Tea?", "options": ["yes", "no"]}, {"content": "Tea?", "options": ("yes", "no")}),
    ],
)  # fmt: skip
async def test_messages_are_edited_deleted_reacted_to_and_polls_are_sent(
    arguments: dict[str, Any], wanted: dict[str, Any], tmp_path: Path
) -> None:
    post = Post()
    async with executor(tmp_path, post) as door:
        result = await door.call("message", {"channel": "telegram", "chat_id": "42", **arguments})

    assert result.ok, result.text
    (sent,) = post.sent
    assert sent.action == arguments["action"]
    assert {name: getattr(sent, name) for name in wanted} == wanted


@owes("msg-10")
async def test_files_outside_the_workspace_are_left_out_with_a_reason_and_the_text_is_sent(
    tmp_path: Path,
) -> None:
    folder, post = tmp_path / "w", Post()
    (folder / "out").mkdir(parents=True)
    (folder / "out/pic.png").write_bytes(PNG)
    (folder / "图 片 (1).png").write_bytes(PNG)
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(tmp_path / "secret")
    outside = ["../secret", str(tmp_path / "secret"), "link", "missing.png", (tmp_path / "secret").as_uri()]
    async with executor(folder, post) as door:
        media = ["out/pic.png", *outside, "图 片 (1).png"]
        result = await door.call(
            "message", {"content": "Here", "channel": "telegram", "to": "1", "media": media}
        )
        nothing = await door.call("message", {"channel": "telegram", "to": "1", "media": outside})

    (sent,) = post.sent
    assert sent.content == "Here"
    assert [f.path for f in sent.media] == ["out/pic.png", "图 片 (1).png"]
    assert [reason.partition(" was not sent: ")[0] for reason in result.data["not_sent"]] == outside
    assert nothing.error is not None and nothing.error.code == "invalid_arguments"


async def test_an_artifact_is_sent_by_its_id(tmp_path: Path) -> None:
    post = Post()
    async with executor(tmp_path, post) as door:
        await door.call("create_artifact", {"id": "report", "title": "Report", "content": "# All well"})
        result = await door.call("message", {"channel": "telegram", "to": "1", "media": ["artifact:report"]})

    assert result.ok, result.text
    (file,) = post.sent[0].media
    assert (file.name, file.data) == ("report", b"# All well")


@owes("msg-13", "X-33")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"content": "", "channel": "telegram", "chat_id": "1"}, "empty"),
        ({"content": "  \n", "channel": "telegram", "chat_id": "1"}, "empty"),
        ({"content": "x", "channel": "nope"}, "telegram, whatsapp"),
        ({"content": "x"}, "telegram, whatsapp"),
        ({"buffer": "%%%", "channel": "telegram", "chat_id": "1"}, "not base64"),
    ],
)
async def test_a_message_that_cannot_be_sent_is_refused_before_anybody_is_asked(
    arguments: dict[str, Any], says: str, tmp_path: Path
) -> None:
    post = Post()
    async with executor(tmp_path, post, policy=["allow send:*"]) as door:
        result = await door.call("message", arguments)

    assert result.error is not None
    assert says in str(result.error)
    assert post.sent == []


@owes("X-33")
async def test_what_was_not_delivered_is_no_success(tmp_path: Path) -> None:
    arguments = {"content": "x", "channel": "telegram", "chat_id": "1"}
    async with executor(tmp_path, Post(status="dead", error="part 2 of 3: rejected")) as door:
        dead = await door.call("message", arguments)
    async with executor(tmp_path, Post(status="waiting", error="the line is down")) as door:
        waiting = await door.call("message", arguments)

    assert dead.error is not None and "part 2 of 3: rejected" in dead.error.message
    assert waiting.ok and "queued (the line is down)" in waiting.text and waiting.data["status"] == "waiting"


@owes("N-89", "C-34", "C-35", "N-84")
async def test_profiles_say_it_in_the_words_of_their_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    post = Post()
    said: list[str] = []
    for profile, arguments in (
        ("nanobot", {"content": "Hi", "channel": "telegram", "chat_id": "1"}),
        ("nanobot", {"content": "Hi", "channel": "telegram", "chat_id": "1", "media": ["a.txt", "b.txt"]}),
        ("nanobot-net", {"content": "Hi", "channel": "telegram", "chatId": "1"}),
    ):
        kit = builtin("message").profile(profile)
        async with Executor(kit, workspace=tmp_path, provide=[post], policy=["allow send:*"]) as door:
            said.append(str(await door.call("message", arguments)))

    assert said == [
        "Message sent to telegram:1", "Message sent to telegram:1 with 2 attachments", "Message sent successfully"
    ]  # fmt: skip


# -- runs that a chat started -----------------------------------------------------------------


def script(folder: Path, *turns: dict[str, Any]) -> str:
    (folder.parent / "turns.jsonl").write_text("\n".join(json.dumps(t) for t in turns))
    return script_of(folder)


def script_of(folder: Path) -> str:
    return f"scripted:{folder.parent / 'turns.jsonl'}"


def sends(**arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": "message", "arguments": arguments}]}


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def opened(folder: Path) -> App:
    config = folder.parent / "channels.toml"
    lines = [
        'tools = ["message"]',
        *(f'[channels.{n}]\nkind = "file"\npath = "{n}.jsonl"' for n in ("chat", "other")),
    ]
    config.write_text("\n".join(lines))
    return App.open(workspace=folder, config=config)


def arrived(folder: Path, channel: str) -> list[str]:
    file = folder.parent / f"{channel}.jsonl"
    return [json.loads(line)["content"] for line in file.read_text().splitlines()] if file.exists() else []


ASKED = InboundMessage(
    session="s", content="Report", id="m1", channel="chat", chat_id="42",
    reply=Destination(channel="chat", chat_id="42"),
)  # fmt: skip


@owes("X-35", "N-86")
async def test_the_chat_that_a_run_answers_is_the_default_and_needs_no_question(folder: Path) -> None:
    with opened(folder) as app:
        await Inbox(app.store).add(ASKED)
        turns = [sends(content="On it."), sends(content="To them", channel="other"), {"text": "Done."}]
        worker = app.worker(Interaction(approver=SuspendAll()), model=script(folder, *turns))
        await worker.work(until_idle=True)

        assert (arrived(folder, "chat"), arrived(folder, "other")) == (["On it."], [])
        (pending,) = await app.approvals.pending()
        await app.approvals.answer(pending.key, Refused("no", by="ada"))
        script(folder, *turns[:2], sends(content="Still on it."), {"text": "Done."})

        await app.worker(Interaction(approver=SuspendAll()), model=script_of(folder)).work(until_idle=True)

        # The run that was resumed answers the same chat.
        assert arrived(folder, "chat") == ["On it.", "Still on it.", "Done."]
        assert arrived(folder, "other") == []
        assert (await app.runs.replay((await app.runs.list())[0])).whole


async def test_the_chat_is_not_asked_about_even_after_private_and_untrusted_content(folder: Path) -> None:
    with opened(folder) as app:
        labels = ("private", "untrusted")
        await Inbox(app.store).add(
            InboundMessage(
                session="s", content="Report", id="m1", channel="chat", chat_id="42", labels=labels, reply=ASKED.reply
            )
        )  # fmt: skip
        worker = Worker(
            app, app.history, app.sessions, app.runs, interaction=Interaction(approver=SuspendAll()),
            model=script(folder, sends(content="Here."), {"text": "Done."}),
        )  # fmt: skip
        await worker.serve("s")

        events = await app.history.events("s")
        assert [e for e in events if isinstance(e, PermissionRequested)] == []
        assert arrived(folder, "chat") == ["Here."]


async def test_a_message_of_a_run_without_a_chat_asks_and_is_recorded(folder: Path) -> None:
    with opened(folder) as app:
        model = script(folder, sends(content="Hi", channel="other"), {"text": "Done."})
        async with app.sessions.open("s", Interaction(approver=AllowOnce()), model=model) as talk:
            events = [e async for e in talk.send("Say hi")]

        assert any(isinstance(e, PermissionRequested) for e in events)
        (started,) = [e for e in events if isinstance(e, CallStarted)]
        assert [(e.kind, e.target) for e in started.effects] == [("send", "other")]
        (ended,) = [e for e in events if isinstance(e, CallFinished)]
        assert ended.result.ok
        assert arrived(folder, "other") == ["Hi"]
        assert isinstance(events[-1], RunFinished)
