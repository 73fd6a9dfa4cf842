"""Run the test suite with coverage; `--full` runs every long sweep whole.

Exit status: pytest's, or 2 where coverage is below the floor.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COVERED = 90
"""Percent of the package's branches and lines; `make test` fails below."""


def main() -> int:
    """Run everything; the exit status."""
    full = "--full" in sys.argv
    env = {**os.environ, "COVERAGE_FILE": str(ROOT / ".coverage"), "PEGBOARD_FULL": "1" if full else ""}
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "coverage", "erase"], cwd=ROOT, env=env, check=True)
    command = [
        sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--cov=pegboard", "--cov-branch",
        "--cov-report=", *([] if full else ["-m", "not full"]), *[a for a in sys.argv[1:] if a != "--full"],
    ]  # fmt: skip
    status = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    print(f"tests took {time.monotonic() - started:.0f} s", flush=True)
    if status:
        return status
    report = [sys.executable, "-m", "coverage", "report", "--skip-covered", f"--fail-under={COVERED}"]
    return subprocess.run(report, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
