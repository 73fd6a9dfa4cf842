"""collecting: no search for garbage while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """Keep the collector away, then let it be as it was.

    It would look through a history again and again as it grows, and find nothing: a fifth more time. What was made
    meanwhile counts as old at the end, or the next look would go through all of it once more.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            # A program that keeps objects from the collector (before it forks) has its own use of the same shelf;
            # so has Python 3.12 itself, where this gain is given up.
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
