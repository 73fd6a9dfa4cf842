"""Places: an open folder and a name in it, where a file is or will be."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirfdPath:
    """A place in an open folder: where a file is or will be.

    Attributes:
        folder: descriptor of the folder, closed by whoever got the Spot.
        name: the last component.
        target: as effects name it: workspace-relative, or absolute outside.
        path: the same as an absolute path.
    """

    folder: int
    name: str
    target: str
    path: str

    def lstat(self) -> os.stat_result | None:
        """What is there, links not followed; None where nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """As Spot, for looking: `missing` names the folders between `folder` and the name that are not there."""

    folder: int
    name: str
    target: str
    path: str
    missing: tuple[str, ...] = ()


def exact(path: str) -> str:
    """A target as a path that means just that: a leading `~` is a name here, not a home."""
    return "./" + path if path.startswith("~") else path
