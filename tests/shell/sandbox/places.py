"""Running this module's scripts as an ordinary user, with whatever Python that user can reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ORDINARY = 65534


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="pegboard-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_source(folder: Path) -> Path:
    """Our source where an ordinary user can read it."""
    target = folder / "src"
    shutil.copytree(
        ROOT / "src" / "pegboard", target / "pegboard", ignore=shutil.ignore_patterns("__pycache__")
    )
    subprocess.run(["chmod", "-R", "a+rX", str(target)], check=True)
    return target


def as_ordinary_user(
    argv: list[str], folder: Path, *, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a program as an ordinary user: another id where we are root, ourselves where we are not."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(folder / "src"),
           "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}  # fmt: skip
    prefix: list[str] = []
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", str(folder)], check=True)
        prefix = ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups", "--"]
    return subprocess.run(
        [*prefix, *argv], env=env, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def reachable_python() -> str:
    """A Python >= 3.11 that an ordinary user can run."""
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        if not os.path.exists(candidate):
            continue
        prefix = ["setpriv", "--reuid", str(ORDINARY), "--clear-groups", "--regid", str(ORDINARY), "--"]
        check = "import sys; raise SystemExit(sys.version_info < (3, 11))"
        argv = [*(prefix if os.geteuid() == 0 else []), candidate, "-c", check]
        if subprocess.run(argv, capture_output=True, check=False).returncode == 0:
            return candidate
    raise AssertionError("no Python 3.11 or newer that an ordinary user can run")
