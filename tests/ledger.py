"""`@owes("N-40")`: ties a test to the ledger rows that it proves."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""The folder of corpora beside the repository."""


def owes(*rows: str) -> pytest.MarkDecorator:
    """Mark a test with the ledger rows (`N-40`) or cases (`schema-01`) that it proves."""
    return pytest.mark.owes(*rows)
