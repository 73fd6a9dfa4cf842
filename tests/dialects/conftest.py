"""Work counting for the text readers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


@pytest.fixture
def counted_work() -> Callable[[Callable[[], object]], int]:
    """Processor nanoseconds of a call, the least of three, so that only its growth can be judged."""

    def measure(work: Callable[[], object]) -> int:
        best = 1 << 62
        for _ in range(3):
            began = time.process_time_ns()
            work()
            best = min(best, time.process_time_ns() - began)
        return best

    return measure
