"""Messages wait for a session until they were read."""

from __future__ import annotations

from pegboard.ports.messages import Destination, InboundMessage
from pegboard.store.inbox import Inbox
from pegboard.store.memory import MemoryStore


async def test_messages_wait_by_session_in_order_and_once_by_id() -> None:
    inbox = Inbox(MemoryStore())
    first = InboundMessage(session="a", content="one", id="m1", at=1.0, reply=Destination(channel="file"))
    second = InboundMessage(session="a", content="two", id="m0", at=2.0, labels=("untrusted",))
    other = InboundMessage(session="ab", content="three", id="m1", at=3.0)

    assert [await inbox.add(m) for m in (second, first, other)] == [True, True, True]
    assert not await inbox.add(InboundMessage(session="a", content="again", id="m1"))

    assert await inbox.waiting("a") == [first, second]
    assert await inbox.waiting("ab") == [other]
    await inbox.drop([first])
    assert await inbox.all() == [second, other]
