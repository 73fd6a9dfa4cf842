"""The collector is kept away and left as it was."""

from __future__ import annotations

import gc

import pytest

from pegboard.core.collecting import uncollected


@pytest.mark.parametrize("before", [True, False])
def test_the_collector_is_as_it_was_whatever_happened_inside(before: bool) -> None:
    was = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        with pytest.raises(ValueError, match="x"), uncollected():
            inside = gc.isenabled()
            raise ValueError("x")
        after = gc.isenabled()
    finally:
        (gc.enable if was else gc.disable)()

    assert (inside, after) == (False, before)
