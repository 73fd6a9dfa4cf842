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


class Made:
    """Something that the collector looks at."""


def generation(one: object) -> int | None:
    return next((n for n in range(3) if any(o is one for o in gc.get_objects(generation=n))), None)


def test_what_was_made_meanwhile_counts_as_old() -> None:
    gc.collect()
    gc.unfreeze()  # Python 3.12 starts with some objects of its own put aside.

    with uncollected():
        made = Made()

    assert generation(made) != 0


def test_objects_that_the_program_has_put_aside_stay_there() -> None:
    aside = Made()
    gc.freeze()
    try:
        with uncollected():
            made = Made()

        assert generation(aside) is None
        assert generation(made) == 0
    finally:
        gc.unfreeze()
