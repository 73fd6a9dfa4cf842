"""What people are shown before a call runs holds no secret, as its record (decisions 16; security.md, secrets)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pegboard.app.redacted import RedactingApprover
from pegboard.cli.approve import TerminalApprover
from pegboard.core.approval import ApprovalRequest
from pegboard.core.call import ToolCall
from pegboard.core.effects import Change, Effect
from pegboard.core.redact import Redactor
from tests.cli.conftest import Run
from tests.cli.test_approve import Typed
from tests.ledger import owes

# An invented token in GitHub's form.
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


@owes("G-01", "K-87")
def test_a_preview_shows_no_secret(pegboard: Run, workspace: Path) -> None:
    words = ("call", "write_file", "path=b.txt", f"content=token {TOKEN}", "--preview")

    shown, row = pegboard(*words), pegboard(*words, "--json")

    assert TOKEN not in shown.out + shown.err + row.out
    assert "+token [redacted:" in shown.out
    assert "[redacted:" in json.loads(row.out)["changes"][0]["diff"]


@owes("K-87")
def test_a_call_that_was_carried_out_is_told_without_its_secret(pegboard: Run, workspace: Path) -> None:
    done = pegboard("call", "write_file", "path=b.txt", f"content=token {TOKEN}", "--json")

    assert (workspace / "b.txt").read_text() == f"token {TOKEN}"
    assert TOKEN not in done.out and "[redacted:" in json.loads(done.out)["changes"][0]["diff"]


@owes("K-26", "K-87")
async def test_a_question_shows_no_secret_and_the_answer_is_to_the_call_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = f"curl -H 'Authorization: Bearer {TOKEN}' https://x.example"
    effect = Effect("exec", command, argv=("curl", "-H", f"Authorization: Bearer {TOKEN}"), at_least="ask")
    change = Change(path="a", kind="create", before=None, after=b"", diff=f"+{TOKEN}")
    request = ApprovalRequest(
        id="ap_1", call=ToolCall("c", "exec", {"command": command, "env": {"T": TOKEN}}), tool="exec",
        effects=(effect,), asking=(effect,), changes=(change,), reason=f"it sends {TOKEN}", novel=(f"host {TOKEN}",),
        digest="d1",
    )  # fmt: skip
    seen: list[ApprovalRequest] = []

    class Person(TerminalApprover):
        async def decide(self, request: ApprovalRequest):  # type: ignore[no-untyped-def]
            seen.append(request)
            return await super().decide(request)

    await RedactingApprover(Person(Typed("y")), Redactor().redact).decide(request)

    shown = capsys.readouterr().out
    assert TOKEN not in shown + repr(seen[0])
    assert shown.count("? exec curl") == 1 and "[redacted:" in shown
    assert (seen[0].digest, seen[0].id) == ("d1", "ap_1")


@pytest.mark.slow
@owes("perm-18", "K-25", "K-87")
def test_an_approval_of_a_call_with_a_secret_is_void_since_its_record_holds_none(
    pegboard: Run, workspace: Path, tmp_path: Path, home: Path
) -> None:
    script = tmp_path / "script.jsonl"
    call = {"name": "write_file", "arguments": {"path": "b.txt", "content": f"token {TOKEN}"}}
    script.write_text(json.dumps({"calls": [call]}) + "\n" + json.dumps({"text": "done"}) + "\n")
    words = ("run", "go", "--model", f"scripted:{script}", "--mode", "ask", "--on-ask", "suspend", "--json")

    first = pegboard(*words)
    run = json.loads(first.out.splitlines()[-1])
    assert (first.status, run["status"]) == (4, "suspended")
    listed = pegboard("approvals", "list").out
    pegboard("approvals", "approve", run["pending"][0]["pending"])
    again = pegboard("runs", "resume", run["run"], "--mode", "ask", "--json")

    assert TOKEN not in listed
    assert not (workspace / "b.txt").exists()
    said = next(json.loads(line) for line in again.out.splitlines() if '"call.finished"' in line)
    assert "approval of it is void" in said["result"]["error"]["message"]
    assert json.loads(again.out.splitlines()[-1])["status"] == "done"
    files = [p for p in home.rglob("history.sqlite*") if p.is_file()]
    kept = b"".join(p.read_bytes() for p in files)
    assert TOKEN.encode() not in kept and b"[redacted:" in kept
