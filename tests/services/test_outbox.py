"""A message arrives once and in its chat's order, whatever happens to the process, or a person is told that it did not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.context import Context, attach, detach
from pegboard.core.errors import InvalidArguments, NotFound, ToolError, Unavailable
from pegboard.core.events import CallFinished, RunFinished
from pegboard.core.secrets.redact import Redactor
from pegboard.ports.channel import Capabilities, NotDelivered
from pegboard.ports.messages import Attachment, Button, Destination, InboundMessage, OutboundMessage
from pegboard.services.outbox import RETRY_S, StoredMessages
from pegboard.services.worker import Worker
from pegboard.store.inbox import Inbox
from pegboard.store.memory import MemoryStore
from pegboard.store.outbox import KEEP_SENT_S, Outbox
from tests.ledger import owes
from tests.waiting import until

SECRET = "hunter2-hunter2-hunter2"


@dataclass
class Chat:
    """A channel of 100 characters that keeps what it is given; `fails` are raised before that, in order, and None passes."""

    name: str = "chat"
    idempotent: bool = True
    media: bool = True
    arrives: bool = False
    fails: list[ToolError | None] = field(default_factory=list[ToolError | None])
    got: list[tuple[str, OutboundMessage]] = field(default_factory=list[tuple[str, OutboundMessage]])

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(max_chars=100, media=self.media, edit=True, idempotent=self.idempotent)

    def check(self, message: OutboundMessage) -> None:
        pass

    async def send(self, message: OutboundMessage, key: str) -> str:
        error = self.fails.pop(0) if self.fails else None
        if error is None or self.arrives:
            self.got.append((key, message))
        if error is not None:
            raise error
        return f"n{len(self.got)}"

    @property
    def texts(self) -> list[str]:
        return [message.content for _, message in self.got]


@dataclass
class FixedClock:
    at: float = 1_800_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@dataclass
class Desk:
    """An outbox in memory with one channel, on a clock of its own."""

    chat: Chat = field(default_factory=Chat)
    clock: FixedClock = field(default_factory=FixedClock)
    store: MemoryStore = field(default_factory=MemoryStore)
    notes: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.messages = self.opened()

    def opened(self) -> StoredMessages:
        async def store() -> MemoryStore:
            return self.store

        redact = Redactor({"PASSWORD": SECRET}).redact
        return StoredMessages(
            store, channels={"chat": self.chat}, redact=redact, notify=self.notes.append, clock=self.clock
        )  # fmt: skip

    async def tick(self, after_s: float = 0.0) -> None:
        self.clock.at += after_s
        await self.messages.deliver_due()

    async def statuses(self) -> dict[str, str]:
        return {i.id: i.status for i in await self.messages.list()}


def to(chat: str = "1") -> Destination:
    return Destination(channel="chat", chat_id=chat)


def text(id: str, content: str = "", *, chat: str = "1", **more: Any) -> OutboundMessage:
    return OutboundMessage(to=to(chat), id=id, content=content or id, **more)


async def test_a_message_is_sent_once_under_its_id() -> None:
    desk = Desk()

    first = await desk.messages.send(text("m1", "Hello"))
    again = await desk.messages.send(text("m1", "Hello"))

    assert (first.status, first.sent) == ("sent", ("n1",))
    assert again == first
    assert desk.chat.texts == ["Hello"]


async def test_a_message_that_was_not_taken_is_tried_eight_times_within_an_hour_and_given_up() -> None:
    desk = Desk(chat=Chat(fails=[NotDelivered("the line is down")] * 99))

    sent = await desk.messages.send(text("m1"))
    assert (sent.status, sent.error) == ("waiting", "the line is down")
    for _ in range(3600):
        await desk.tick(1.0)

    (item,) = await desk.messages.list()
    assert (item.status, item.error) == ("dead", "the line is down (attempt 8)")
    assert len(RETRY_S) == 7 and len(desk.chat.fails) == 99 - 8
    assert len(desk.notes) == 1 and "pegboard outbox" in desk.notes[0]


async def test_a_failure_that_no_retry_mends_is_told_at_once() -> None:
    desk = Desk(chat=Chat(fails=[NotDelivered("no such chat", retryable=False)]))

    sent = await desk.messages.send(text("m1"))

    assert (sent.status, sent.error) == ("dead", "no such chat")


@owes("msg-08")
@pytest.mark.parametrize(("idempotent", "status", "copies"), [(True, "sent", 2), (False, "dead", 1)])
async def test_what_may_have_arrived_is_sent_again_only_under_a_key_that_the_channel_knows(
    idempotent: bool, status: str, copies: int
) -> None:
    lost = Unavailable("the connection broke off")
    desk = Desk(chat=Chat(idempotent=idempotent, arrives=True, fails=[lost]))

    await desk.messages.send(text("m1"))
    await desk.tick(10.0)

    (item,) = await desk.messages.list()
    assert item.status == status
    assert [key for key, _ in desk.chat.got] == ["m1"] * copies
    assert idempotent or item.error.startswith("it is unknown whether it arrived")


@owes("msg-08")
async def test_a_model_that_repeats_a_message_which_is_on_its_way_does_not_double_it() -> None:
    desk = Desk(chat=Chat(idempotent=False, arrives=True, fails=[Unavailable("the connection broke off")]))
    before = attach(Context(run="r1", session="s"))
    try:
        first = await desk.messages.send(text("c1", "Hello"))
        second = await desk.messages.send(text("c2", "Hello"))
        other = await desk.messages.send(text("c3", "Hello", chat="2"))
    finally:
        detach(before)

    assert (first.id, first.status) == (second.id, second.status) == ("c1", "dead")
    assert other.status == "sent"


async def test_messages_of_a_chat_keep_their_order_and_others_do_not_wait_for_them() -> None:
    desk = Desk(chat=Chat(fails=[NotDelivered("busy"), None, NotDelivered("busy")]))

    await desk.messages.send(text("a1", chat="A"))
    await desk.messages.send(text("b1", chat="B"))
    await desk.messages.send(text("a2", chat="A"))
    assert desk.chat.texts == ["b1"]
    await desk.tick(6.0)
    assert desk.chat.texts == ["b1"]
    await desk.tick(15.0)

    assert desk.chat.texts == ["b1", "a1", "a2"]
    assert set((await desk.statuses()).values()) == {"sent"}


async def test_a_wait_that_the_other_side_asks_for_is_kept() -> None:
    desk = Desk(chat=Chat(fails=[NotDelivered("slow down", details={"retry_after_s": 90})]))

    await desk.messages.send(text("m1"))
    await desk.tick(89.0)
    assert desk.chat.texts == []
    await desk.tick(2.0)

    assert desk.chat.texts == ["m1"]


@owes("msg-12")
async def test_a_part_that_fails_is_named_and_later_parts_do_not_overtake_it() -> None:
    desk = Desk(chat=Chat(fails=[None, NotDelivered("rejected", retryable=False)]))
    long = "\n".join(f"line {n} " + "x" * 70 for n in range(3))

    sent = await desk.messages.send(text("m1", long))
    assert (sent.status, sent.parts, sent.sent) == ("dead", 3, ("n1",))
    assert sent.error == "part 2 of 3: rejected"
    assert [t[:6] for t in desk.chat.texts] == ["line 0"]
    again = await desk.messages.retry("m1")

    assert again.status == "sent"
    assert [t[:6] for t in desk.chat.texts] == ["line 0", "line 1", "line 2"]
    assert [key for key, _ in desk.chat.got] == ["m1:1", "m1:2", "m1:3"]


async def test_media_go_with_the_first_part_and_secrets_with_none() -> None:
    desk = Desk()
    file = Attachment(name="a.png", media_type="image/png", data=b"PNG")

    await desk.messages.send(
        text("m1", f"The password is {SECRET}. " + "word " * 20, media=(file,), caption=SECRET)
    )

    (first, second) = [message for _, message in desk.chat.got]
    assert [f.data for f in first.media] == [b"PNG"] and second.media == ()
    assert SECRET not in first.content + first.caption + second.content
    assert SECRET not in str([row.value for row in await desk.store.scan("outbox")])


@owes("msg-13")
@pytest.mark.parametrize(
    ("message", "error", "says"),
    [
        (
            OutboundMessage(to=Destination(channel="nope"), id="x", content="x"),
            NotFound,
            "The channels are: chat",
        ),
        (text("x", "  \n"), InvalidArguments, "empty"),
        (text("x", action="poll", options=("a", "b")), InvalidArguments, "no poll"),
        (text("x", buttons=(Button(text="Yes"),)), InvalidArguments, "no buttons"),
        (text("x", action="edit"), InvalidArguments, "needs the id"),
    ],
)
async def test_what_a_channel_cannot_do_is_refused_and_nothing_is_kept(
    message: OutboundMessage, error: type[ToolError], says: str
) -> None:
    desk = Desk()

    with pytest.raises(error, match=says):
        await desk.messages.send(message)

    assert await desk.messages.list() == []


async def test_a_sent_message_is_forgotten_in_time_with_its_files() -> None:
    desk = Desk()
    await desk.messages.send(text("m1", media=(Attachment(name="a", media_type="text/plain", data=b"x"),)))

    await desk.tick(KEEP_SENT_S - 10)
    assert await desk.statuses() == {"m1": "sent"}
    await desk.tick(700.0)

    assert await desk.statuses() == {}
    for table in ("outbox_files", "outbox_ended", "outbox_due", "outbox_chats", "outbox_runs", "leases"):
        assert await desk.store.scan(table) == []


async def test_one_of_two_processes_delivers() -> None:
    desk = Desk()
    for n in range(20):
        await Outbox(desk.store, clock=desk.clock).add(text(f"m{n}", chat=str(n % 3)), ("x",))
    others = [desk.messages, desk.opened(), desk.opened()]

    for _ in range(3):
        await asyncio.gather(*(m.deliver_due() for m in others))

    assert sorted(key for key, _ in desk.chat.got) == sorted(f"m{n}" for n in range(20))


# -- answers of runs --------------------------------------------------------------------------


def finished(answer: str, *, run: str = "r1", status: str = "done", error: str = "") -> RunFinished:
    return RunFinished(run=run, status=status, answer=answer, error=error)


ASKED = InboundMessage(session="s", content="Hi", id="7", channel="chat", chat_id="1", reply=to())


@owes("msg-07")
@pytest.mark.parametrize(
    ("answer", "texts"),
    [("Report ready: 42\n", ["Report ready: 42"]), ("Also check X", ["Report ready: 42", "Also check X"])],
)
async def test_an_answer_is_sent_unless_its_run_has_said_the_same_there(
    answer: str, texts: Sequence[str]
) -> None:
    desk = Desk()
    before = attach(Context(run="r1", session="s"))
    try:
        await desk.messages.send(text("c1", "Report ready: 42"))
    finally:
        detach(before)

    for _ in range(2):  # A worker that was killed hands it on again.
        await desk.messages.reply(ASKED, finished(answer))
    await desk.tick()

    assert desk.chat.texts == texts


async def test_a_run_that_failed_says_so_and_an_empty_answer_says_nothing() -> None:
    desk = Desk()

    await desk.messages.reply(ASKED, finished("", status="failed", error="the model is gone"))
    await desk.messages.reply(ASKED, finished(" ", run="r2"))
    await desk.tick()

    assert desk.chat.texts == ["The run failed: the model is gone"]


# -- processes --------------------------------------------------------------------------------


class Hook:
    """A server on loopback that records each message; a request at which it stops is answered when it is let go."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.stop_at = 0
        self.reached, self.go_on = Event(), Event()

    @contextmanager
    def listening(self) -> Generator[str]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.got.append((self.headers["idempotency-key"], json.loads(body)))
                if len(hook.got) == hook.stop_at:
                    hook.reached.set()
                    hook.go_on.wait(60)
                try:
                    self.send_response(204)
                    self.end_headers()
                except OSError:
                    pass  # The client was killed.

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook"
        finally:
            self.go_on.set()
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def settings(folder: Path, url: str) -> Path:
    file = folder.parent / "channels.toml"
    host = url.split("/")[2]
    file.write_text(
        f'[network]\nallow_hosts = ["{host}"]\n[channels.hook]\nkind = "webhook"\nurl = "{url}"\n'
    )
    return file


def hook_message(id: str, chat: str) -> OutboundMessage:
    return OutboundMessage(to=Destination(channel="hook", chat_id=chat), id=id, content=id)


async def test_a_process_that_is_killed_while_it_delivers_loses_and_doubles_nothing(folder: Path) -> None:
    hook = Hook()
    hook.stop_at = 5
    with hook.listening() as url:
        config = settings(folder, url)
        with App.open(workspace=folder, config=config) as app:
            outbox = Outbox(app.store)
            for n in range(12):
                message = hook_message(f"m{n:02}", str(n % 2))
                await outbox.add(message, (message.content,))
            command = [sys.executable, "-m", "pegboard", "worker", "--until-idle", "--config", str(config)]
            first = subprocess.Popen(command, cwd=folder, env=os.environ, stderr=subprocess.DEVNULL)
            try:
                await asyncio.to_thread(hook.reached.wait, 60)
            finally:
                first.send_signal(signal.SIGKILL)
                first.wait()
            hook.go_on.set()

            second = subprocess.run(
                command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=120
            )

            assert second.returncode == 0, second.stderr
            assert {i.status for i in await outbox.list()} == {"sent"}
    # A receiver that knows keys sees each message once, those of a chat in order.
    seen = dict.fromkeys(key.strip('"') for key, _ in hook.got)
    assert sorted(seen) == [f"m{n:02}" for n in range(12)]
    for chat in ("0", "1"):
        ids = [body["id"] for _, body in hook.got if body["chat_id"] == chat]
        assert list(dict.fromkeys(ids)) == sorted(set(ids))
    repeated = len(hook.got) - len(seen)
    assert repeated <= 2  # What was under way in the two chats.


async def test_a_call_of_message_that_a_kill_cut_off_is_the_same_message_when_it_is_repeated(
    folder: Path,
) -> None:
    hook = Hook()
    hook.stop_at = 1
    turns = folder.parent / "turns.jsonl"
    call = {"name": "message", "arguments": {"content": "Half of it is done.", "channel": "hook"}}
    turns.write_text("\n".join(json.dumps(turn) for turn in ({"calls": [call]}, {"text": "Done."})))
    with hook.listening() as url:
        config = settings(folder, url)
        config.write_text(f'tools = ["message"]\n{config.read_text()}')
        with App.open(workspace=folder, config=config) as app:
            await Inbox(app.store).add(InboundMessage(session="s", content="Do it", id="m1"))
            command = [
                sys.executable, "-m", "pegboard", "worker", "--until-idle", "--yes", "--config", str(config),
                "--model", f"scripted:{turns}",
            ]  # fmt: skip
            first = subprocess.Popen(command, cwd=folder, env=os.environ, stderr=subprocess.DEVNULL)
            try:
                assert await asyncio.to_thread(hook.reached.wait, 60)
            finally:
                first.send_signal(signal.SIGKILL)
                first.wait()
            hook.go_on.set()

            second = subprocess.run(
                command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=120
            )

            assert second.returncode == 0, second.stderr
            (item,) = await Outbox(app.store).list()
            results = [e.result for e in await app.history.events("s") if isinstance(e, CallFinished)]
    assert item.status == "sent"
    assert [body["content"] for _, body in hook.got] == ["Half of it is done."] * 2
    assert len({key for key, _ in hook.got}) == 1
    assert [result.text for result in results] == ["Message sent to hook"]


async def test_what_a_killed_process_was_sending_waits_for_a_person_where_keys_are_unknown(
    folder: Path,
) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from pegboard.ports.channel import Capabilities
from pegboard.ports.messages import Destination, OutboundMessage
from pegboard.services.outbox import StoredMessages
from pegboard.store import open_store

class Slow:
    name, capabilities = "chat", Capabilities()
    def check(self, message): pass
    async def send(self, message, key):
        Path("began").touch()
        await asyncio.sleep(60)

async def main():
    store = await open_store(Path("o.sqlite"))
    async def opened(): return store
    messages = StoredMessages(opened, channels={"chat": Slow()}, redact=lambda t: (t, False))
    await messages.send(OutboundMessage(to=Destination(channel="chat", chat_id="1"), id="m1", content="Hello"))

asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=os.environ)
    try:
        await asyncio.to_thread(until, (folder / "began").exists, "the delivery to begin", within_s=60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    from pegboard.store import open_store

    store = await open_store(folder / "o.sqlite")
    chat = Chat(idempotent=False)

    async def opened() -> Any:
        return store

    messages = StoredMessages(opened, channels={"chat": chat}, redact=lambda t: (t, False))
    await messages.deliver_due()
    (item,) = await messages.list()
    assert (item.status, chat.got) == ("dead", [])
    assert item.error == "it is unknown whether it arrived: the process that sent it ended"
    await messages.retry("m1")

    assert chat.texts == ["Hello"]
    await store.close()


async def test_a_worker_sends_the_answer_where_the_message_came_from(folder: Path) -> None:
    hook = Hook()
    turns = folder.parent / "turns.jsonl"
    turns.write_text(json.dumps({"text": "It is ready."}))
    with hook.listening() as url, App.open(workspace=folder, config=settings(folder, url)) as app:
        reply = Destination(channel="hook", chat_id="42")
        asked = InboundMessage(
            session="s", content="Ready?", id="m1", channel="hook", chat_id="42", reply=reply
        )
        await Inbox(app.store).add(asked)

        await app.worker(model=f"scripted:{turns}").work(until_idle=True)
        await app.worker(model=f"scripted:{turns}").work(until_idle=True)

    assert [(b["chat_id"], b["content"]) for _, b in hook.got] == [("42", "It is ready.")]


async def answered(folder: Path, answer: str, *, chat: str = "", more: str = "") -> list[dict[str, Any]]:
    """What a webhook gets for the answer of a worker's run."""
    hook = Hook()
    turns = folder.parent / "turns.jsonl"
    turns.write_text(json.dumps({"text": answer}))
    with hook.listening() as url:
        config = settings(folder, url)
        config.write_text(f"{more}\n{config.read_text()}")
        with App.open(workspace=folder, config=config) as app:
            reply = Destination(channel="hook", chat_id="42")
            if chat:
                reply = Destination(channel="webhook", chat_id=url)
            message = InboundMessage(
                session="s",
                content="Draw it",
                id="m1",
                channel=reply.channel,
                chat_id=reply.chat_id,
                reply=reply,
            )
            await Inbox(app.store).add(message)
            for _ in range(2):
                await app.worker(model=f"scripted:{turns}").work(until_idle=True)
    return [body for _, body in hook.got]


@owes("msg-11")
@pytest.mark.parametrize("chat", ["", "any URL"])
async def test_a_media_line_of_an_answer_is_a_file_that_goes_with_it(folder: Path, chat: str) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "pic.png").write_bytes(b"\x89PNG")

    (body,) = await answered(folder, "MEDIA:out/pic.png\nHere you are", chat=chat)

    assert body["content"] == "Here you are"
    assert [(f["name"], base64.b64decode(f["data"])) for f in body["media"]] == [("pic.png", b"\x89PNG")]


@owes("msg-11")
async def test_a_media_line_sends_nothing_that_the_session_may_not_send(folder: Path) -> None:
    (folder / "secret.txt").write_text("x")
    (folder.parent / "outside.txt").write_text("x")
    lines = ["Three files:", "MEDIA: secret.txt", "MEDIA: ../outside.txt", "MEDIA: `gone.txt`"]

    (body,) = await answered(folder, "\n".join(lines), more='rules = ["deny read:secret.txt"]')

    assert "media" not in body
    said = body["content"].split("\n")
    assert said[0] == "Three files:"
    assert [line.partition(":")[0] for line in said[1:]] == [
        f"({path} was not sent" for path in ("secret.txt", "../outside.txt", "gone.txt")
    ]
    assert "outside the workspace" in said[2]


async def test_where_a_channel_takes_no_files_they_are_named() -> None:
    desk = Desk()
    desk.chat.media = False

    await desk.messages.reply(ASKED, finished("Here\nMEDIA:out/pic.png\n```\nMEDIA:code\n```"))
    await desk.tick()

    assert desk.chat.texts == ["Here\n```\nMEDIA:code\n```\n(files: out/pic.png)"]


async def test_an_answer_for_a_session_waits_for_its_next_run_with_all_labels(folder: Path) -> None:
    turns = folder.parent / "turns.jsonl"
    turns.write_text(json.dumps({"text": "Checked."}))
    with App.open(workspace=folder) as app:
        read = InboundMessage(
            session="schedule:j1", content="A page", id="m0", by="webhook", labels=("untrusted",), at=1.0
        )
        await Inbox(app.store).add(read)
        await app.worker(model=f"scripted:{turns}").work(until_idle=True)
        job = InboundMessage(
            session="schedule:j1", content="Check", id="job:j1:1", by="schedule", wants_answer=True,
            reply=Destination(channel="session", chat_id="main"), workspace=str(folder),
        )  # fmt: skip
        await Inbox(app.store).add(job)
        messages = app.messages
        worker = Worker(
            app, app.history, app.sessions, app.runs, on_answer=[messages.reply], model=f"scripted:{turns}"
        )  # fmt: skip
        await worker.serve("schedule:j1")
        await messages.deliver_due()

        (told,) = await Inbox(app.store).waiting("main")
        assert (told.content, told.by, told.labels, told.workspace) == (
            "Checked.", "session", ("untrusted",), str(folder)
        )  # fmt: skip
        await app.worker(model=f"scripted:{turns}").work(until_idle=True)
        assert await Inbox(app.store).waiting("main") == [told]
        assert not told.wake
