"""What a failed action says to do next."""

from __future__ import annotations

import pytest

from pegboard.browser.failures import as_tool_error


@pytest.mark.parametrize(
    ("doing", "hint"), [("take snapshot", "close its tab"), ("click", "Take a snapshot")]
)
def test_a_page_that_does_not_even_give_a_snapshot_is_to_be_closed(doing: str, hint: str) -> None:
    error = as_tool_error(TimeoutError("Timeout 10000ms exceeded."), doing, 10.0, lambda _: "")

    assert hint in error.hint
