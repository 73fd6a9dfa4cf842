"""`@owes("N-40")`: ties a test to the ledger rows that it proves."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parent / "data"
"""The corpora; `README.md` in it says what each is and where it comes from."""


def owes(*rows: str) -> pytest.MarkDecorator:
    """Mark a test with the ledger rows (`N-40`) or cases (`schema-01`) that it proves."""
    return pytest.mark.owes(*rows)
