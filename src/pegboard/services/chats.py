"""Chats: what a message from a chat channel means: a task, a command, an answer, or somebody who is not known yet."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from pegboard.config.channels import ChatAccess
from pegboard.core.errors import InvalidArguments, PegboardError, ToolError, Unavailable
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.session_key import SessionKey, check_session_key
from pegboard.ports.channel import ChatChannel, ChatMessage
from pegboard.ports.messages import Destination, InboundMessage, OutboundMessage
from pegboard.ports.store import Put
from pegboard.services.chat_approvals import ChatApprovals
from pegboard.services.chat_files import ChatFiles, file_note
from pegboard.services.history import History
from pegboard.services.outbox import StoredMessages
from pegboard.services.pairing import Pairings
from pegboard.services.runs import Runs
from pegboard.services.runtime import Runtime
from pegboard.services.sessions import Sessions, with_attached
from pegboard.store.inbox import Inbox

Role: TypeAlias = Literal["owner", "approver", "user", "member", "unknown"]
"""What a sender may do: an owner approves everything; an approver what others caused; a user talks to us; a member of a
group that the settings name does too, but what it writes is not taken for the user's; anybody else is asked to pair."""

_COMMAND: Final = re.compile(r"/([a-z]+)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)
_MINUTE: Final = 60.0
_STOP_S: Final = 10.0
HELP: Final = """\
Write what you want done. Commands:
/status – what goes on, and what waits
/stop – end the run that goes on
/new – begin the conversation anew
/approve ID [session] – let a call that waits run
/deny ID [why] – refuse it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat as its messages are handled.

    Attributes:
        channel: what it is on.
        access: who may write there.
        message: what came.
        role: of its sender.
        session: key of the chat's session.
    """

    channel: ChatChannel
    access: ChatAccess
    message: ChatMessage
    role: Role
    session: str

    @property
    def to(self) -> Destination:
        """Where an answer goes."""
        m = self.message
        return Destination(channel=self.channel.name, chat_id=m.chat_id, thread_id=m.thread_id)

    @property
    def sender(self) -> str:
        """The sender, as what they did is recorded."""
        return f"{self.channel.name}:{self.message.sender_id}"


class Chats:
    """Handles what chat channels receive.

    Args:
        runtime: the workspace.
        history: where sessions are kept.
        messages: sends what is answered.
        sessions, runs: begin a conversation anew, and end a run.
        approvals: asks and answers in chats.
        files: keeps what comes with messages.
        pairings: who was let in.
        clock: tells the time.
    """

    def __init__(
        self,
        runtime: Runtime,
        history: History,
        messages: StoredMessages,
        sessions: Sessions,
        runs: Runs,
        approvals: ChatApprovals,
        files: ChatFiles,
        pairings: Pairings,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._runtime = runtime
        self._history = history
        self._messages = messages
        self._sessions = sessions
        self._runs = runs
        self._approvals = approvals
        self._files = files
        self._pairings = pairings
        self._clock = clock or SystemClock()
        self._times: dict[str, deque[float]] = {}

    async def take(self, channel: ChatChannel, access: ChatAccess, message: ChatMessage) -> Sequence[Put]:
        """Handle a message; what is to be stored of it, together with that it was taken.

        Raises:
            StoreError: the store cannot be read or written.
        """
        role = await self._role(channel.name, access, message)
        key = SessionKey(
            channel=channel.name, kind=message.kind, id=message.chat_id, thread=message.thread_id
        )
        chat = Chat(channel=channel, access=access, message=message, role=role, session=str(key))
        # In a group, people talk to each other.
        meant = message.kind == "user" or message.mentioned or bool(message.pressed)
        if not meant and (access.mention or role == "unknown"):
            return ()
        if not await self._within_rate(chat):
            return ()
        if role == "unknown":
            await self._ask_to_pair(chat)
            return ()
        try:
            check_session_key(chat.session)
            return await self._act(chat)
        except InvalidArguments as error:
            await self._answer(chat, error.message)
        return ()

    async def _act(self, chat: Chat) -> Sequence[Put]:
        message = chat.message
        if message.pressed:
            if await self._approvals.press(chat):
                return ()
            # The value of a button is what we wrote, and not what the person did.
            return [await self._inbound(chat, message.pressed, by="button")]
        command = _COMMAND.fullmatch(message.content.strip())
        if command is not None and (said := await self._command(chat, command[1], command[2] or "")):
            await self._answer(chat, said)
            return ()
        if chat.role != "member" and await self._approvals.answer_question(chat):
            return ()
        return [await self._inbound(chat, message.content, by="channel" if chat.role == "member" else "user")]

    # -- who writes ---------------------------------------------------------------------------------

    async def _role(self, name: str, access: ChatAccess, message: ChatMessage) -> Role:
        sender = message.sender_id
        named: dict[Role, tuple[str, ...]] = {
            "owner": access.owners, "approver": access.approvers, "user": access.allow
        }  # fmt: skip
        for role, ids in named.items():
            if sender in ids:
                return role
        paired = None if message.role else await self._pairings.get(name, sender)
        match message.role or ("" if paired is None else paired.role):
            case "":
                in_group = message.kind == "group" and message.chat_id in access.groups
                return "member" if in_group else "unknown"
            case "owner":
                return "owner"
            case "operator":
                return "approver"
            case "viewer":
                return "unknown"
            case _:
                return "user"

    async def _ask_to_pair(self, chat: Chat) -> None:
        """Show an unknown sender the code that the owner has to approve; in a chat with them alone."""
        message, name = chat.message, chat.channel.name
        if message.kind != "user":
            return
        try:
            code = await self._pairings.request(name, message.sender_id, message.sender_name)
        except Unavailable as error:
            await self._answer(chat, f"I do not know you yet. {error}", id=f"{name}:busy:{message.sender_id}")
            return
        except InvalidArguments:
            return
        text = (
            f"I do not know you yet. Ask my owner to let you in with the code **{code}**, within 10 minutes:\n\n"
            f"```\npegboard pairing approve {code}\n```"
        )
        await self._answer(chat, text, id=f"{name}:pair:{code}")

    async def _within_rate(self, chat: Chat) -> bool:
        """Count a message; False where its sender has written too many within a minute, who is told once."""
        now, most = self._clock.monotonic(), chat.access.per_minute
        times = self._times.setdefault(chat.sender, deque())
        while times and now - times[0] >= _MINUTE:
            times.popleft()
        if len(times) < most:
            times.append(now)
            return True
        if chat.role != "unknown":
            text = f"You have sent {most} messages within a minute. I read on in a minute."
            await self._answer(chat, text, id=f"{chat.sender}:rate:{int(self._clock.now() // _MINUTE)}")
        return False

    # -- commands -----------------------------------------------------------------------------------

    async def _command(self, chat: Chat, name: str, rest: str) -> str:
        """Carry out a command; what is answered, empty where it is none."""
        match name:
            case "help" | "start":
                return HELP
            case "status":
                return await self._status(chat)
            case "stop":
                return await self._stop(chat)
            case "new" if chat.role != "member":
                return await self._new(chat)
            case "approve" | "deny":
                return await self._approvals.command(chat, name, rest)
            case _:
                return ""

    async def _status(self, chat: Chat) -> str:
        rows = await self._history.mark_interrupted(await self._history.runs(session=chat.session, limit=1))
        waiting = len(await Inbox(self._history.store).waiting(chat.session))
        lines = [
            f"session: {chat.session}",
            f"mode: {self._runtime.policy.mode}",
            f"last run: {rows[0].id}, {rows[0].status}" if rows else "last run: none yet",
            f"messages that wait: {waiting}",
            *await self._approvals.lines(chat),
        ]
        return "\n".join(f"- {line}" for line in lines)

    async def _stop(self, chat: Chat) -> str:
        """End the run of this session, whether it goes on or waits for somebody."""
        rows = await self._history.mark_interrupted(await self._history.runs(session=chat.session, limit=1))
        if not rows:
            return "No run goes on here."
        try:
            row = await self._runs.stop(rows[0], wait_s=_STOP_S)
        except ToolError:
            return "No run goes on here."
        return "Stopped." if row.status == "cancelled" else "The run is being stopped."

    async def _new(self, chat: Chat) -> str:
        await self._stop(chat)
        try:
            await self._sessions.restart(chat.session)
        except PegboardError:
            return "A run goes on here and is being stopped. Send /new again in a moment."
        return "A new conversation begins. The record keeps the one before."

    # -- messages -----------------------------------------------------------------------------------

    async def _inbound(self, chat: Chat, text: str, *, by: str) -> Put:
        message = chat.message
        notes: list[str] = []
        media: list[str] = []
        for file in message.files:
            try:
                kept = await self._files.keep(chat.channel, message, file)
            except (ToolError, OSError) as error:
                notes.append(f"<file>{file.name or 'A file'} was not received: {error}</file>")
            else:
                media.append(kept.path)
                notes.append(file_note(kept))
        inbound = InboundMessage(
            session=chat.session, content=with_attached(text or "(no text)", notes), media=tuple(media), by=by,
            id=f"{chat.channel.name}:{message.id}", channel=chat.channel.name, chat_id=message.chat_id,
            sender_id=message.sender_id, reply=chat.to, workspace=str(self._runtime.workspace),
            metadata={"reply_to": message.message_id} if message.kind == "group" else {},
        )  # fmt: skip
        if message.kind == "group":
            # Several people write here.
            name = message.sender_name or message.sender_id
            inbound = replace(inbound, content=f"[{name}] {inbound.content}")
        return Inbox(self._history.store, clock=self._clock).put_of(inbound)

    async def _answer(self, chat: Chat, text: str, *, id: str = "") -> None:
        id = id or f"{chat.channel.name}:answer:{chat.message.id}"
        await self._messages.queue(OutboundMessage(to=chat.to, id=id, content=text), session=chat.session)
