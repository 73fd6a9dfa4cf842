"""ChatApprovals: approvals and questions in chats: asked where a run was asked for, answered by whoever may."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pegboard.config.channels import ChatAccess
from pegboard.core.errors import ConfigError, NotFound
from pegboard.core.events import RunStarted, UserTold
from pegboard.core.policy.approval import Approved, Refused
from pegboard.core.secrets.clip import clip
from pegboard.core.session_key import SessionKey
from pegboard.ports.channel import Channel
from pegboard.ports.messages import Button, Destination, OutboundMessage
from pegboard.services.approvals import Approvals, PendingCall
from pegboard.services.history import History
from pegboard.services.outbox import StoredMessages
from pegboard.store.channels import ChannelRows
from pegboard.store.outbox import OutboxItem

if TYPE_CHECKING:
    from pegboard.services.chats import Chat

_DIFF: Final = 1500
"""Characters of a diff that a chat is shown."""
_ANSWERS: Final[Mapping[str, str]] = {
    "once": "Approve once",
    "session": "Approve for the session",
    "deny": "Deny",
}
_ASKED: Final = "approval:"


@dataclass(frozen=True, slots=True)
class _Said:
    """What is told whoever answered; `settled`: the question is over, and shows no buttons any more."""

    text: str
    settled: bool = True


class ChatApprovals:
    """Shows what waits in chats, and takes the answers.

    Args:
        history: where the runs lie.
        approvals: what waits.
        messages: sends what is asked.
        channels: those on which people write back by name, and who may answer there.
    """

    def __init__(
        self,
        history: History,
        approvals: Approvals,
        messages: StoredMessages,
        channels: Mapping[str, tuple[Channel, ChatAccess]],
    ) -> None:
        self._history = history
        self._approvals = approvals
        self._messages = messages
        self._channels = channels
        self._asked: set[tuple[str, str]] = set()
        self._looked: list[tuple[str, float]] = []

    # -- asking -------------------------------------------------------------------------------------

    async def ask(self, workspace: str) -> None:
        """Show every call that waits in this workspace, once in each chat that it concerns."""
        if not self._channels:
            return
        suspended = [(row.id, row.ended) for row in await self._history.runs(status="suspended")]
        if suspended == self._looked:
            return  # Reading what each of them waits for takes time.
        waiting = await self._approvals.pending()
        for call in waiting:
            row = await self._history.run(call.run)
            if row.workspace not in ("", workspace) or call.answer:
                continue
            for to in self._places(call):
                place = (call.key, f"{to.channel}:{to.chat_id}:{to.thread_id}")
                if place not in self._asked:
                    await self._messages.queue(self._question(call, to), session=call.session, run="")
                    self._asked.add(place)
        self._asked &= {(call.key, place) for call in waiting for _, place in self._asked}
        self._looked = suspended

    def _places(self, call: PendingCall) -> list[Destination]:
        """Where it is asked: in the chat whose run waits, and where the settings want every approval."""
        key = SessionKey.parse(call.session)
        found: list[Destination] = []
        if key.channel in self._channels:
            found.append(Destination(channel=key.channel, chat_id=key.id, thread_id=key.thread))
        if call.kind == "approval":
            found += [
                Destination(channel=name, chat_id=access.approvals)
                for name, (_, access) in self._channels.items()
                if access.approvals
                and (name, access.approvals) not in [(t.channel, t.chat_id) for t in found]
            ]
        return found

    def _question(self, call: PendingCall, to: Destination) -> OutboundMessage:
        can = self._channels[to.channel][0].capabilities
        if call.kind == "approval":
            buttons = [Button(text=text, value=f"{word}:{call.key}") for word, text in _ANSWERS.items()]
            text = approval_text(call)
        else:
            buttons = [
                Button(text=option, value=f"say:{n}:{call.key}") for n, option in enumerate(call.options)
            ]
            text = call.question or f"{call.tool} waits for an answer."
        shown = tuple(buttons) if can.buttons else ()
        return OutboundMessage(to=to, id=_id(call.key, to), content=text, buttons=shown)

    # -- answering ----------------------------------------------------------------------------------

    async def press(self, chat: Chat) -> bool:
        """Take a press of a button under a message with which we asked; False for any other button.

        Only there: what a model writes on a button of its own must not approve anything.
        """
        word, _, rest = chat.message.pressed.partition(":")
        key = rest.rpartition(":")[2]
        asked = await self._asked_in(chat, key) if word in (*_ANSWERS, "say") else None
        if asked is None or chat.message.message_id not in asked.sent:
            return False
        if word == "say":
            said = await self._choose(chat, key, rest.partition(":")[0])
        else:
            said = await self._decide(chat, key, word, "")
        if said.settled:
            await self._close(chat, asked, said.text)
        else:
            await self._say(chat, said.text)
        return True

    async def _choose(self, chat: Chat, key: str, number: str) -> _Said:
        """Answer a question with one of its options."""
        call = await self._waiting(key)
        if call is None or not number.isdecimal() or int(number) >= len(call.options):
            return _Said("This question was answered, or has expired.")
        if chat.role == "member":
            return _Said("Only who is let in may answer that.", settled=False)
        return await self._give(key, call.options[int(number)], f"Answered: {call.options[int(number)]}")

    async def command(self, chat: Chat, name: str, rest: str) -> str:
        """`/approve ID [session]` or `/deny ID [why]`; what is answered."""
        key, _, more = rest.strip().partition(" ")
        if not key:
            waiting = await self.lines(chat)
            return "\n".join((f"Say which: /{name} ID", *waiting)) if waiting else "Nothing waits here."
        word = "deny" if name == "deny" else more.strip().lower() or "once"
        if word not in _ANSWERS:
            return f"{more.strip()!r} is no scope; write /approve {key}, or /approve {key} session."
        return (await self._decide(chat, key, word, more.strip() if word == "deny" else "")).text

    async def answer_question(self, chat: Chat) -> bool:
        """Take a text for the answer to the question that this chat's run waits for; False where none waits."""
        if not chat.message.content.strip():
            return False
        for call in await self._approvals.pending():
            if call.session == chat.session and call.kind == "question" and not call.answer:
                await self._approvals.answer(call.key, chat.message.content.strip())
                return True
        return False

    async def lines(self, chat: Chat) -> list[str]:
        """What waits, as the sender may see it: in this chat, and for an owner everywhere."""
        return [
            f"{call.key} waits: {call.tool or call.kind}"
            + (f" in {call.session}" if call.session != chat.session else "")
            for call in await self._approvals.pending()
            if not call.answer and (call.session == chat.session or chat.role == "owner")
        ]

    async def _decide(self, chat: Chat, key: str, word: str, why: str) -> _Said:
        """Approve or deny."""
        call = await self._waiting(key)
        if call is None or call.kind != "approval":
            return _Said(f"Nothing waits under {key}: it was answered, or has expired.")
        if chat.role not in ("owner", "approver"):
            return _Said("Only an owner or approver of this channel may answer that.", settled=False)
        if chat.role == "approver" and await self._caused(chat, call):
            return _Said(
                "You have asked for this yourself, so somebody else has to approve it.", settled=False
            )
        name, by = chat.message.sender_name, chat.sender
        who = f"{name} ({by})" if name else by
        if word == "deny":
            return await self._give(call.key, Refused(why or f"denied by {by}", by=by), f"Denied by {who}.")
        scope = "session" if word == "session" else "once"
        how = "for the session" if scope == "session" else "once"
        return await self._give(call.key, Approved(scope=scope, by=by), f"Approved {how} by {who}.")

    async def _give(self, key: str, answer: Approved | Refused | str, said: str) -> _Said:
        try:
            await self._approvals.answer(key, answer)
        except ConfigError:
            return _Said(f"Nothing waits under {key}: it was answered, or has expired.")
        return _Said(said)

    async def _waiting(self, key: str) -> PendingCall | None:
        found = (
            [c for c in await self._approvals.pending() if c.key.startswith(key) and not c.answer]
            if key
            else []
        )
        return found[0] if len(found) == 1 else None

    async def _caused(self, chat: Chat, call: PendingCall) -> bool:
        """Whether the sender has written anything that the waiting run has read."""
        events = await self._history.events(
            call.session, run=call.run, types=(RunStarted.type, UserTold.type)
        )
        sources = {str(e.detail.get("source", "")) if isinstance(e, RunStarted) else e.source for e in events
                   if isinstance(e, RunStarted | UserTold)}  # fmt: skip
        rows = ChannelRows(self._history.store)
        for source in sources:
            name, _, id = source.partition(":")
            seen = await rows.seen(name, id)
            if seen is not None and (name, seen.sender) == (chat.channel.name, chat.message.sender_id):
                return True
        return False

    async def _asked_in(self, chat: Chat, key: str) -> OutboxItem | None:
        id = _id(key, chat.to)
        with suppress(NotFound):
            found = await self._messages.get(id)
            return found if found.id == id else None
        return None

    async def _say(self, chat: Chat, text: str) -> None:
        id = f"{chat.channel.name}:answer:{chat.message.id}"
        await self._messages.queue(OutboundMessage(to=chat.to, id=id, content=text), session=chat.session)

    async def _close(self, chat: Chat, asked: OutboxItem, said: str) -> None:
        """Write what was answered under what was asked, and take the buttons away."""
        edits = chat.channel.capabilities.edit
        content = f"{asked.message.content}\n\n{said}" if edits else said
        await self._messages.queue(
            OutboundMessage(
                to=chat.to, id=f"{asked.id}:{chat.message.id}", content=content, action="edit" if edits else "send",
                target_id=asked.sent[-1] if edits else "",
            )
        )  # fmt: skip


def _id(key: str, to: Destination) -> str:
    return f"{_ASKED}{key}:{to.channel}:{to.chat_id}:{to.thread_id}"


def approval_text(call: PendingCall) -> str:
    """What an approval is asked for, as Markdown."""
    lines = [f"**Approval needed**: {call.tool}", ""]
    effects = [str(effect).replace("`", "'").replace("\n", " ") for effect in call.effects]
    lines += [f"- `{effect}`" for effect in effects]
    if call.novel:
        lines.append(f"- first use in this workspace: {', '.join(call.novel)}")
    if call.reason:
        lines.append(f"- reason: {call.reason}")
    diff = "\n".join(change.diff.rstrip("\n") for change in call.changes if change.diff)
    if diff:
        shown = clip(diff, 0, _DIFF)
        # What is shown must not end the block of code and speak for us.
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", shown) or ["``"]))
        lines += ["", f"{fence}diff", shown, fence]
    return "\n".join((*lines, "", f"/approve {call.key} or /deny {call.key}"))
