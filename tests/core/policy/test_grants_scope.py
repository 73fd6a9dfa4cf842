"""What a remembered yes covers: these words, this content, this tool, this workspace (G-04, decisions 5)."""

from __future__ import annotations

from pegboard.core.content import ToolCall
from pegboard.core.effects import Effect, Plan
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.grants import Grant, MemoryGrants
from pegboard.core.policy.rules import Situation
from tests.ledger import owes

HERE = Situation(values={"session": "s"}, workspace="/w")


async def granted(*effects: Effect) -> MemoryGrants:
    book = MemoryGrants()
    call = ToolCall("c", "exec", {})
    request = ApprovalRequest(id="ap_1", call=call, tool="exec", effects=effects, asking=effects, session="s")
    await book.add(request, Approved(scope="always"), workspace="/w")
    return book


@owes("G-04", "K-26")
async def test_a_yes_to_quoted_words_is_none_to_the_same_letters_otherwise_parted() -> None:
    book = await granted(Effect("exec", "rm 'a b'", ("rm", "a b")))

    assert book.find("exec", Effect("exec", "x", ("rm", "a b")), HERE)
    assert not book.find("exec", Effect("exec", "x", ("rm", "a", "b")), HERE)


@owes("G-04", "perm-18")
async def test_a_yes_to_a_script_ends_when_its_content_changes() -> None:
    book = await granted(Effect("exec", "sh run.sh", ("sh", "run.sh"), bound="run.sh sha256:aa"))

    assert book.find("exec", Effect("exec", "sh run.sh", ("sh", "run.sh"), bound="run.sh sha256:aa"), HERE)
    assert not book.find(
        "exec", Effect("exec", "sh run.sh", ("sh", "run.sh"), bound="run.sh sha256:bb"), HERE
    )
    assert not book.find("exec", Effect("exec", "sh run.sh", ("sh", "run.sh")), HERE)


@owes("perm-18")
def test_the_content_of_scripts_is_part_of_the_digest() -> None:
    one = Plan((Effect("exec", "sh run.sh", ("sh", "run.sh"), bound="run.sh sha256:aa"),))
    two = Plan((Effect("exec", "sh run.sh", ("sh", "run.sh"), bound="run.sh sha256:bb"),))

    assert one.digest() != two.digest()


async def test_a_grant_survives_being_written_with_and_without_content() -> None:
    book = await granted(
        Effect("exec", "sh a", ("sh", "a"), bound="a sha256:aa"), Effect("exec", "ls", ("ls",))
    )
    grant = book.list()[0]

    assert Grant.from_dict(grant.to_dict()) == grant
    assert grant.to_dict()["effects"][1] == {"kind": "exec", "target": "ls"}


def test_a_grant_of_an_older_file_covers_only_what_runs_no_script() -> None:
    old = {
        "id": "g",
        "tool": "exec",
        "effects": [{"kind": "exec", "target": "sh a"}],
        "workspace": "/w",
        "expires_at": 9e9,
    }
    grant = Grant.from_dict(old)
    bare = Grant(id="g", tool="exec", effects=(("exec", "sh a"),), workspace="/w")

    for one in (grant, bare):
        assert one.covers(Effect("exec", "sh a", ("sh", "a")))
        assert not one.covers(Effect("exec", "sh a", ("sh", "a"), bound="a sha256:aa"))
