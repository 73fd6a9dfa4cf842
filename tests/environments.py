"""Virtual environments of tests for packages that cannot be beside ours, kept in the cache folder of the user."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
"""The user's, seen before a test has a home folder of its own."""


def environment(name: str, *requirements: str) -> Path:
    """The interpreter of an environment with these packages; made if there is none. Skips where it cannot be made."""
    digest = hashlib.sha256(" ".join(requirements).encode()).hexdigest()[:12]
    place = _CACHE / "pegboard-tests" / f"{name}-{digest}-{sys.implementation.cache_tag}"
    place.parent.mkdir(parents=True, exist_ok=True)
    python = place / "bin" / "python"
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not (place / "complete").exists():
                shutil.rmtree(place, ignore_errors=True)
                for command in (
                    [sys.executable, "-m", "venv", str(place)],
                    [str(python), "-m", "pip", "install", "-q", *requirements],
                ):
                    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
                (place / "complete").touch()
        except (subprocess.SubprocessError, OSError) as error:
            said = str(getattr(error, "stderr", "") or error).strip().splitlines()
            pytest.skip(f"{name} cannot be installed here: {said[-1] if said else error}")
    return python
