"""Remembered yeses: exact, limited in time and uses, and revocable."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pegboard import Effect, Executor, Policy, tool
from pegboard.core.content import ToolCall
from pegboard.core.errors import PermissionDenied
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.grants import Grant, MemoryGrants
from pegboard.core.policy.rules import Situation
from tests.ledger import owes

PUSH = Effect("exec", "FOO=1 git push", ("git", "push"))


@dataclass
class At:
    """A clock that is set by hand."""

    time: float = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def request(*effects: Effect, session: str = "s1", asking: tuple[Effect, ...] = ()) -> ApprovalRequest:
    return ApprovalRequest(
        id="ap_1",
        call=ToolCall("c", "exec", {}),
        tool="exec",
        effects=effects,
        asking=asking,
        session=session,
    )


def here(session: str = "s1", workspace: str = "/w") -> Situation:
    return Situation(values={"session": session}, workspace=workspace)


@owes("G-04", "K-26")
async def test_an_always_holds_for_this_tool_target_and_workspace_for_thirty_days() -> None:
    clock = At()
    book = MemoryGrants(clock=clock)

    grant = await book.add(request(PUSH), Approved(scope="always", by="ann"), workspace="/w")

    assert grant.effects == (("exec", "git push"),)
    assert (grant.scope, grant.by, grant.expires_at) == ("always", "ann", 1000 + 30 * 86400)
    assert book.find("exec", PUSH, here("another")) == grant.id
    assert book.find("other", PUSH, here()) is None
    assert book.find("exec", Effect("exec", "x", ("git", "push", "--force")), here()) is None
    assert book.find("exec", PUSH, here(workspace="/v")) is None
    clock.time += 30 * 86400
    assert book.find("exec", PUSH, here()) is None
    assert book.list() == ()


@owes("G-04", "K-26")
async def test_expiry_and_uses_are_what_the_person_said() -> None:
    clock = At()
    book = MemoryGrants(clock=clock)
    grant = await book.add(request(PUSH), Approved(scope="always", expires_s=60, uses=2), workspace="/w")

    await book.use(grant.id)
    assert book.find("exec", PUSH, here()) == grant.id
    await book.use(grant.id)

    assert book.find("exec", PUSH, here()) is None
    with pytest.raises(PermissionDenied):
        await book.use(grant.id)


@owes("G-04", "K-26")
async def test_a_session_grant_ends_with_its_session_and_covers_what_asked_only() -> None:
    book = MemoryGrants()
    read = Effect("read", "/x")

    grant = await book.add(request(PUSH, read, asking=(read,)), Approved(scope="session"), workspace="/w")

    assert grant.scope == "session"
    assert book.find("exec", read, here()) == grant.id
    assert book.find("exec", read, here("s2")) is None
    assert book.find("exec", PUSH, here()) is None
    await book.use(grant.id)
    assert book.find("exec", read, here()) == grant.id


async def test_a_revoked_grant_is_gone_even_for_a_call_that_found_it() -> None:
    book = MemoryGrants()
    grant = await book.add(request(PUSH), Approved(scope="always"), workspace="/w")

    assert await book.revoke(grant.id)
    assert not await book.revoke(grant.id)
    with pytest.raises(PermissionDenied, match="has expired"):
        await book.use(grant.id)


def test_a_grant_is_written_and_read_back_whole() -> None:
    grant = Grant(
        id="g",
        tool="t",
        effects=(("read", "a"),),
        workspace="/w",
        session="s",
        expires_at=5.0,
        uses_left=2,
        by="x",
    )

    assert Grant.from_dict(grant.to_dict()) == grant
    assert grant.to_dict()["scope"] == "session"


@owes("G-04")
async def test_a_call_uses_a_grant_up_once_however_many_effects_lean_on_it() -> None:
    asked: list[str] = []

    class Yes:
        async def decide(self, request: ApprovalRequest) -> Approved:
            asked.append(request.id)
            return Approved(scope="always", uses=2)

    @tool(effects=[Effect("send", "a"), Effect("send", "b")])
    async def send() -> str:
        """Send."""
        return "sent"

    door = Executor([send], policy=Policy(), approver=Yes())

    for _ in range(4):
        assert (await door.call("send")).ok

    # Asked, two uses, asked again.
    assert len(asked) == 2


@owes("K-26")
@pytest.mark.parametrize(("scope", "asked"), [("once", 3), ("session", 1), ("always", 1)])
async def test_once_is_asked_again_and_a_wider_yes_is_not(scope: str, asked: int) -> None:
    seen: list[str] = []

    class Yes:
        async def decide(self, request: ApprovalRequest) -> Approved:
            seen.append(request.id)
            return Approved(scope=scope)  # type: ignore[arg-type]

    @tool(effects=[Effect("send", "a")])
    async def send() -> str:
        """Send."""
        return "sent"

    door = Executor([send], policy=Policy(), approver=Yes())
    for _ in range(3):
        assert (await door.call("send")).ok

    assert len(seen) == asked


@owes("K-29")
@pytest.mark.parametrize(
    ("rule", "reason"),
    [("deny send:a reason=not on Fridays", "not on Fridays"), ("deny send:*", "deny send:*")],
)
async def test_a_denied_call_says_what_it_may_not_and_why(rule: str, reason: str) -> None:
    @tool(effects=[Effect("send", "a")])
    async def send() -> str:
        """Send."""
        return "sent"

    result = await Executor([send], policy=Policy.of([rule])).call("send")

    assert result.error is not None
    assert result.error.message.startswith(f"send may not send a: {reason}")
    assert result.error.details is not None
    assert str(result.error.details["rule"]).startswith("deny send:")
