"""Replaces files of ours that only their owner may read."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def replace_private(path: Path, text: str, *, errors: str = "strict", sync: bool = False) -> None:
    """Replace a file atomically: a reader gets the old text or the new one, never a part of it.

    Args:
        path: the file; its folder is made where there is none.
        text: what it holds from now on.
        errors: how what UTF-8 cannot hold is written, as `open` takes it.
        sync: return once the disk has it.

    Raises:
        OSError: it cannot be written; the old file is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Named by its writer: two may replace one file at once.
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        descriptor = os.open(
            fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8", errors=errors) as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
