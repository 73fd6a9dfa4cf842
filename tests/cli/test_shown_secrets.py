"""What people are shown before a call runs holds no secret, as its record (decisions 16; security.md, secrets)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from pegboard.cli.approve import TerminalApprover
from pegboard.core.content import ToolCall
from pegboard.core.effects import Change, Effect
from pegboard.core.policy.approval import ApprovalRequest
from pegboard.core.secrets.redact import Redactor
from pegboard.services.redaction import RedactingApprover
from tests.cli.conftest import Run
from tests.cli.test_approve import Typed
from tests.ledger import DATA, owes

ROWS = [
    row
    for row in map(json.loads, (DATA / "security" / "secrets.jsonl").read_text().splitlines())
    if row["expect"] == "redact"
]
CONFIGURED = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zQ"
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


def named(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    # Every fifth: a line, a header, a URL, a key in JSON, a block of several lines; the others in the full count.
    [pytest.param(r, id=r["id"], marks=() if n % 5 == 0 else pytest.mark.full) for n, r in enumerate(ROWS)],
)
@owes("G-01", "G-21", "K-25", "K-87")
def test_nothing_that_leaves_holds_a_secret_of_the_corpus(
    row: dict[str, str],
    pegboard: Run,
    workspace: Path,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Said by a person and by a model, given to tools, answered by them, and in the place of a tool's name."""
    text, secret = (base64.b64decode(row[field]).decode() for field in ("input_b64", "secret_b64"))
    monkeypatch.setenv("CONFIGURED", CONFIGURED)
    settings = home / ".config" / "pegboard" / "pegboard.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[secrets.one]\nfrom = "env:CONFIGURED"\nhosts = ["x.example"]\n')
    (workspace / "s.txt").write_text(text + "\n")
    turns = [
        {
            "text": f"I see {text}",
            "calls": [
                named("read_file", path="s.txt"), named("grep", pattern=text), named("grep", pattern=f"({text}"),
                named("read_file", path=text), named("list_dir", path={"x": text}), named("read_file", **{text: 1}),
                named(text),
            ],
        },
        {"calls": [named("write_file", path="n.txt", content=text)]},
        {"text": f"the end {text}"},
    ]  # fmt: skip
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, turns)))
    told = ("run", "--model", f"scripted:{script}", "--on-ask", "suspend")

    shown = {
        "ask": pegboard(*told, "--mode", "ask", "--", text),
        "full": pegboard(*told, "--mode", "full", "--", text),
    }
    shown["json"] = pegboard(*told, "--mode", "full", "--json", "--", text)
    for words in ("runs", "runs --json", "approvals list", "approvals list --json", "usage", "usage --json"):
        shown[words] = pegboard(*words.split())
    waiting = json.loads(shown["approvals list --json"].out.splitlines()[0])
    for run in [json.loads(line)["run"] for line in shown["runs --json"].out.splitlines()]:
        for words in (
            "runs show",
            "runs show --json",
            "runs export",
            "runs export --pytest",
            "replay",
            "replay --json",
        ):
            shown[f"{words} {run}"] = pegboard(*words.split(), run)
            assert shown[f"{words} {run}"].status == 0, shown[f"{words} {run}"]
    pegboard("approvals", "deny", waiting["approval"], text)
    shown["denied"] = pegboard("approvals", "list", "--json")
    shown["resumed"] = pegboard("runs", "resume", waiting["run"], "--mode", "ask", "--json")

    held = {secret, json.dumps(secret)[1:-1], secret.replace("\n", "")}
    assert len(shown) == 9 + 3 * 6 + 2
    for words, done in shown.items():
        assert not [s for s in held if s in done.out + done.err], (words, done)
    for file in (p for p in home.rglob("*") if p.is_file() and "blobs" not in p.parts):
        # What undo puts back is kept as it was, for its owner alone.
        assert not [s for s in held if s.encode() in file.read_bytes()], file
