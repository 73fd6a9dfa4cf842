"""SpillFolder: whole texts of cut results, in XDG state."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Final

from pegboard.core.errors import NotFound
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.secrets.clip import clip
from pegboard.store.private_file import replace_private

KEEP_S: Final = 7 * 24 * 3600.0
"""How long a spill is kept."""

_NAME: Final = re.compile(r"spill:([0-9a-f]{12})\Z")


class SpillFolder:
    """Spills as files of mode 0600 in a folder of mode 0700.

    Args:
        folder: made at the first save.
        clock: decides what is too old.
    """

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self._folder = folder
        self._now = (clock or SystemClock()).now
        self._pruned = False

    def save(self, text: str, *, call_id: str, labels: frozenset[str]) -> str:
        """See Spills."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._pruned:
            self._pruned = True
            self.prune()
        spill = uuid.uuid4().hex[:12]
        self._write(spill + ".txt", text)
        self._write(
            spill + ".json", json.dumps({"call": call_id, "labels": sorted(labels), "at": self._now()})
        )
        return f"spill:{spill}"

    def read(self, name: str) -> str:
        """See Spills."""
        # As bytes: reading as text would turn CRLF into LF, and a spill is the whole text as it was.
        return self._path(name).read_bytes().decode("utf-8")

    def labels(self, name: str) -> frozenset[str]:
        """The taint labels that a spill carries; none where there is no such spill (reading it says so)."""
        try:
            about = self._path(name).with_suffix(".json").read_text(encoding="utf-8")
        except (NotFound, FileNotFoundError):
            return frozenset()
        return frozenset(json.loads(about)["labels"])

    def add_labels(self, name: str, labels: frozenset[str]) -> None:
        """See Spills."""
        path = self._path(name).with_suffix(".json")
        about = json.loads(path.read_text(encoding="utf-8"))
        about["labels"] = sorted({*about["labels"], *labels})
        replace_private(path, json.dumps(about))

    def prune(self, older_s: float = KEEP_S) -> int:
        """Drop what is older than some seconds; how many went. Also done at the first save."""
        gone = 0
        for text in self._folder.glob("*.txt"):
            if self._now() - self._saved_at(text) > older_s:
                text.unlink(missing_ok=True)
                text.with_suffix(".json").unlink(missing_ok=True)
                gone += 1
        return gone

    def held(self) -> list[tuple[float, int]]:
        """When each spill was saved, in seconds since the epoch, and its bytes."""
        return [(self._saved_at(text), text.stat().st_size) for text in self._folder.glob("*.txt")]

    @staticmethod
    def _saved_at(text: Path) -> float:
        try:
            return float(json.loads(text.with_suffix(".json").read_text(encoding="utf-8"))["at"])
        except (OSError, ValueError, KeyError, TypeError):
            # Its process was killed between the two files.
            return text.stat().st_mtime

    def _path(self, name: str) -> Path:
        match = _NAME.match(name)
        path = self._folder / f"{match.group(1)}.txt" if match else None
        if path is None or not path.exists():
            raise NotFound(
                f"there is no {clip(name, 0, 40)!r}; spills end with their session or after 7 days",
                hint="Make the call again to get its whole output.",
            )
        return path

    def _write(self, name: str, text: str) -> None:
        descriptor = os.open(self._folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
