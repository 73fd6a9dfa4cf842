"""Mode auto on the command line: what a person sees, what is kept, and who may choose it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

WRITE = {"calls": [{"id": "c1", "name": "write_file", "arguments": {"path": "a.txt", "content": "bye\n"}}]}
USAGE = {"input_tokens": 800, "output_tokens": 20, "cost_usd": 0.001}


def said(word: str, reason: str = "you asked for it") -> dict[str, Any]:
    return {"text": json.dumps({"answer": word, "reason": reason}), "usage": USAGE}


@pytest.fixture
def words(workspace: Path, home: Path) -> Any:
    """The words of a run whose second model says these things."""

    def made(
        *second: dict[str, Any], turns: tuple[dict[str, Any], ...] = (WRITE, {"text": "done"})
    ) -> list[str]:
        folder = home / ".config/pegboard"
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in (("turns", turns), ("second", second)):
            (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
        (folder / "pegboard.toml").write_text(
            f'rules = ["ask write"]\n[auto]\nmodel = "scripted:{folder}/second.jsonl"\n'
        )
        return ["run", "Change a.txt to bye", "--model", f"scripted:{folder}/turns.jsonl", "--mode", "auto"]

    return made


def test_a_run_shows_the_answer_keeps_it_and_replays_without_the_model(
    pegboard: Run, workspace: Path, home: Path, words: Any
) -> None:
    done = pegboard(*words(said("allow")))

    assert done.status == 0, done.err
    assert (workspace / "a.txt").read_text() == "bye\n"
    assert "auto: allowed (you asked for it)" in done.err
    assert "[approved by auto]" in done.err
    assert "mode auto: model: scripted:" in done.err, "which model gets the data is said before it gets any"

    run = json.loads(pegboard("runs", "list", "--json").out.splitlines()[0])["run"]
    shown = pegboard("runs", "show", run).out
    assert "auto: allowed (you asked for it)" in shown
    export = home / "record.jsonl"
    assert pegboard("audit", "export", "--file", str(export)).status == 0
    assert pegboard("audit", "verify").status == 0
    assert '"type": "permission.judged"' in export.read_text()
    usage = json.loads(pegboard("usage", "--json").out)
    (second,) = [u for name, u in usage["models"].items() if name.endswith("second.jsonl")]
    assert (second["input_tokens"], second["cost_usd"], second["requests"]) == (800, 0.001, 1)

    (home / ".config/pegboard/second.jsonl").unlink()
    replayed = pegboard("replay", run)
    assert replayed.status == 0, replayed.err
    assert "replays exactly to its end" in replayed.out


def test_no_yes_and_nobody_there_is_the_refusal_that_there_is_without_it(
    pegboard: Run, workspace: Path, words: Any
) -> None:
    done = pegboard(*words(said("ask", "it removes a greeting")))

    assert done.status == 3
    assert "auto: a person decides (it removes a greeting)" in done.err
    assert "denied" in done.err
    assert (workspace / "a.txt").read_text() == "hello\nworld\n"


def test_what_waited_for_a_person_is_not_asked_of_the_model_again(
    pegboard: Run, workspace: Path, words: Any
) -> None:
    first = pegboard(*words(said("ask"), said("allow")), "--on-ask", "suspend", "--json")
    assert first.status == 4, first.err
    events = [json.loads(line) for line in first.out.splitlines()]
    (waiting,) = events[-1]["pending"]
    assert pegboard("approvals", "deny", waiting["pending"]).status == 0

    pegboard("runs", "resume", events[-1]["run"])

    assert (workspace / "a.txt").read_text() == "hello\nworld\n"
    kept = [
        json.loads(line) for line in pegboard("runs", "show", events[-1]["run"], "--json").out.splitlines()
    ]
    assert [e["answer"] for e in kept if e.get("type") == "permission.judged"] == ["ask"]


def test_a_second_model_that_cannot_be_opened_is_told_before_the_run(
    pegboard: Run, workspace: Path, home: Path, words: Any
) -> None:
    command = words(said("allow"))
    settings = home / ".config/pegboard/pegboard.toml"
    settings.write_text('rules = ["ask write"]\n[auto]\nmodel = "openai:gpt-6"\n')

    done = pegboard(*command)

    assert done.status == 3
    assert "mode auto cannot ask its model, so it asks you" in done.err
    assert (workspace / "a.txt").read_text() == "hello\nworld\n"


def test_explain_says_who_answers(pegboard: Run, words: Any) -> None:
    words()

    done = pegboard("policy", "explain", "write_file", "path=a.txt", "content=x", "--mode", "auto")

    assert "auto: a person answers: you have typed nothing in this session" in done.out


@pytest.mark.parametrize("own", ["", 'mode = "full"\n'])
def test_a_project_that_is_not_trusted_may_not_choose_it(
    pegboard: Run, workspace: Path, home: Path, own: str
) -> None:
    folder = home / ".config/pegboard"
    folder.mkdir(parents=True)
    (folder / "pegboard.toml").write_text(own)
    (workspace / "pegboard.toml").write_text(
        'mode = "auto"\n[auto]\nmodel = "openai:x@http://evil.example/v1"\n'
    )

    shown = pegboard("policy", "explain", "write_file", "path=../x", "content=x")
    settings = json.loads(pegboard("doctor", "--json").out)

    assert "mode auto" not in shown.out
    assert settings["mode"] == (own.split('"')[1] if own else "workspace")
    assert any("'mode' is ignored" in line for line in settings["ignored"])
    assert any("'auto' is ignored" in line for line in settings["ignored"])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('model = 1', "auto.model must be a text"),
        ("timeout_s = 0", "auto.timeout_s = 0 is not above 0 and at most 600"),
        ("money = true", "auto.money must be"),
        ("moneys = 1", "did you mean 'money'"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(pegboard: Run, home: Path, table: str, says: str) -> None:
    folder = home / ".config/pegboard"
    folder.mkdir(parents=True)
    (folder / "pegboard.toml").write_text(f"[auto]\n{table}\n")

    done = pegboard("policy", "explain", "read_file", "path=a.txt")

    assert done.status != 0
    assert says in done.err
