"""`[sessions]`: which sessions a session sees, and how often two answer each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.sessions import SessionSettings
from pegboard.core.errors import ConfigError
from tests.ledger import owes


def loaded(folder: Path, text: str) -> SessionSettings:
    file = folder / "pegboard.toml"
    file.write_text(text)
    return load_config(Paths.of({"HOME": str(folder)}), None, file=file).sessions


@owes("K-70", "K-71")
def test_visibility_and_limits_are_set(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == SessionSettings(visibility="tree", turns=5, per_minute=6)
    assert loaded(
        tmp_path, '[sessions]\nvisibility = "all"\nturns = 2\nper_minute = 60\n'
    ) == SessionSettings(visibility="all", turns=2, per_minute=60)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'visibility = "everyone"',
            "sessions.visibility = 'everyone' is unknown; use self, tree, agent, all",
        ),
        ("turns = 6", "sessions.turns = 6 is not between 0 and 5"),
        ("per_minute = -1", "sessions.per_minute = -1 is not between 0 and 600"),
        ("depth = 1", "depth"),
    ],
)
def test_what_cannot_be_is_an_error(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"[sessions]\n{text}\n")
    assert says in str(caught.value)
