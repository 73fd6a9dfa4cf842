"""The hints that a tool's kinds of effect give to a client of ours."""

from __future__ import annotations

import pytest

from pegboard import builtin
from pegboard.mcp.rendering import hints_of


@pytest.mark.parametrize("name", ["message", "spawn", "sessions_send"])
def test_a_call_that_reaches_somebody_is_not_offered_for_repeating(name: str) -> None:
    (tool,) = builtin(name)

    # After a crash the same call may come again; a second call with the same arguments is a second message.
    assert tool.idempotent
    assert hints_of(tool)["idempotentHint"] is False
