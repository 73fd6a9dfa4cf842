"""What an agent is told between its turns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, builtin
from pegboard.models import ScriptedModel
from tests.ledger import owes


@owes("K-46")
@pytest.mark.slow
async def test_the_agent_is_told_when_a_background_command_ends(tmp_path: Path) -> None:
    go = tmp_path / "go"

    def wait(request: Any) -> dict[str, Any]:
        go.write_text("")
        name = re.findall(r"p\d+-\w+", str(request.messages))[-1]
        arguments = {"action": "wait_for", "process_id": name, "text": "never there", "timeout": 5}
        return {"calls": [{"name": "process", "arguments": arguments}]}

    model = ScriptedModel(
        [
            {
                "calls": [
                    {
                        "name": "exec",
                        "arguments": {
                            "command": "until [ -e go ]; do :; done; echo done",
                            "background": True,
                        },
                    }
                ]
            },
            wait,
            {"text": "all done"},
            {"text": "all done"},
        ]
    )
    agent = Agent(tools=builtin("exec", "process"), model=model, workspace=tmp_path, mode="full")
    events: list[Any] = []

    async for event in agent.stream("start it"):
        events.append(event)
    await agent.aclose()

    said = [e.message.text for e in events if e.type == "message.user"]
    assert any("has ended: exited, exit code 0" in text for text in said[1:])
