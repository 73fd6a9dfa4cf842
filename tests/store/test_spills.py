"""Spills: the whole texts of cut results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pegboard.core.errors import NotFound
from pegboard.store.spills import KEEP_S, SpillFolder
from tests.ledger import owes


@dataclass
class At:
    """A clock that is set by hand."""

    time: float = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


@owes("K-48")
def test_a_spill_is_kept_whole_private_and_for_seven_days(tmp_path: Path) -> None:
    clock = At()
    folder = SpillFolder(tmp_path / "spills", clock=clock)
    name = folder.save("a\r\nb", call_id="c", labels=frozenset({"untrusted"}))

    assert folder.read(name) == "a\r\nb"
    assert folder.labels(name) == {"untrusted"}
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in (tmp_path / "spills").iterdir())
    clock.time += KEEP_S
    assert folder.prune() == 0
    clock.time += 1
    assert folder.prune() == 1
    assert list((tmp_path / "spills").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["spill:000000000000", "spill:../../etc/passwd", "/etc/passwd", "", "spill:"]
)
def test_what_is_no_spill_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound):
        SpillFolder(tmp_path).read(name)
