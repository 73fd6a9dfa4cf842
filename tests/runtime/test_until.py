"""until: a run is done only when a command passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, Limits, Policy, builtin
from pegboard.core.errors import BuildError
from pegboard.core.events import CallFinished, RunStarted, UserSaid
from pegboard.models import ScriptedModel

CHECK = "test -e ok.txt || { echo no ok.txt; exit 3; }"
WRITE = {"calls": [{"name": "write_file", "arguments": {"path": "ok.txt", "content": "x"}}]}


def agent(folder: Path, turns: list[dict[str, Any]], **options: Any) -> Agent:
    tools = [builtin("write_file", "exec")]
    return Agent(tools=tools, model=ScriptedModel(turns), workspace=folder, **options)


async def test_a_failure_goes_back_to_the_model_until_the_command_passes(tmp_path: Path) -> None:
    turns = [{"text": "Done."}, WRITE, {"text": "Now it is."}]

    answer = await agent(tmp_path, turns).run("make it", until=CHECK)

    assert (answer.status, answer.answer) == ("done", "Now it is.")
    told = [e.message.text for e in answer.events if isinstance(e, UserSaid) and e.by == "runtime"]
    assert len(told) == 1 and CHECK in told[0]
    assert "no ok.txt" in told[0] and "Exit code: 3" in told[0]
    checks = [e.result for e in answer.events if isinstance(e, CallFinished) and e.result.tool == "exec"]
    assert [r.data["exit_code"] for r in checks] == [3, 0]


async def test_after_five_rounds_the_run_has_failed(tmp_path: Path) -> None:
    answer = await agent(tmp_path, [{"text": f"Done {n}."} for n in range(9)]).run("make it", until=CHECK)

    assert (answer.status, answer.answer) == ("failed", "Done 5.")
    assert "still fails after 5 rounds" in answer.error
    assert answer.usage.requests == 6


async def test_the_budget_ends_it_sooner(tmp_path: Path) -> None:
    turns = [{"text": f"Done {n}."} for n in range(9)]

    answer = await agent(tmp_path, turns, limits=Limits(turns=2)).run("make it", until=CHECK)

    assert answer.status == "limit"


async def test_a_rule_that_denies_the_command_holds(tmp_path: Path) -> None:
    denied = agent(tmp_path, [{"text": "Done."}], policy=Policy.of(["deny exec:make ** reason=not here"]))

    answer = await denied.run("make it", until="make test")

    assert answer.status == "failed"
    assert answer.error.startswith("until: ") and "not here" in answer.error


async def test_the_command_was_named_by_whoever_would_be_asked(tmp_path: Path) -> None:
    # Mode ask, and nobody to answer: only the check itself may run.
    answer = await agent(tmp_path, [{"text": "Done."}], mode="ask").run("make it", until="touch made.txt")

    assert answer.status == "done"
    assert (tmp_path / "made.txt").exists()


async def test_without_the_tool_the_run_does_not_begin() -> None:
    with pytest.raises(BuildError, match="needs the tool exec"):
        await Agent(model=ScriptedModel([{"text": "Done."}])).run("make it", until="true")


async def test_a_resumed_run_still_ends_by_its_command(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    work = tmp_path / "w"
    work.mkdir()
    first = agent(work, [{"text": "Done."}, {"error": "overloaded"}], store=store)
    failed = await first.run("make it", session="s", until=CHECK)
    await first.aclose()
    assert failed.status == "failed"

    second = agent(work, [WRITE, {"text": "Now."}], store=store)
    answer = await second.resume(failed.run_id)
    known = second.session("s")
    await second.aclose()

    assert (answer.status, answer.answer) == ("done", "Now.")
    assert next(e for e in known if isinstance(e, RunStarted)).detail["until"] == CHECK
    checks = [e for e in answer.events if isinstance(e, CallFinished) and e.result.tool == "exec"]
    assert len(checks) == 1
