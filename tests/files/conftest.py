"""Fixtures of the workspace's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.files.journal import Journal
from pegboard.files.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def files(root: Path, journal: Journal) -> Workspace:
    return Workspace(root, journal=journal)
