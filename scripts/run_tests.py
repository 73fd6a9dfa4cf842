"""Run the test suite with coverage; `--full` runs every long sweep whole.

Exit status: pytest's, or 2 where coverage is below the floor.

Real browsers, terminals and servers share two cores here, and a test may wait too long for one of them. Up to
five failed tests are therefore run once more, by themselves: one that passes then is named at the end, and one
that fails again fails the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTED = ROOT / ".pytest_cache/v/cache/lastfailed"
"""Where pytest notes what failed."""

COVERED = 90
"""Percent of the package's branches and lines; `make test` fails below."""

REPEATED = 5
"""Failed tests that are run once more at most: where more fail, it is not chance."""


def main() -> int:
    """Run everything; the exit status."""
    full = "--full" in sys.argv
    env = {**os.environ, "COVERAGE_FILE": str(ROOT / ".coverage"), "PEGBOARD_FULL": "1" if full else ""}
    started = time.monotonic()
    NOTED.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "coverage", "erase"], cwd=ROOT, env=env, check=True)
    command = [
        sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--cov=pegboard", "--cov-branch",
        "--cov-report=", *([] if full else ["-m", "not full"]), *[a for a in sys.argv[1:] if a != "--full"],
    ]  # fmt: skip
    status = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    print(f"tests took {time.monotonic() - started:.0f} s", flush=True)
    failed = _failed() if status == 1 else []
    if 0 < len(failed) <= REPEATED:
        print("once more, by themselves:", *failed, sep="\n  ", flush=True)
        alone = [sys.executable, "-m", "pytest", *failed]
        status = subprocess.run(alone, cwd=ROOT, env=env, check=False).returncode
    if status:
        return status
    report = [sys.executable, "-m", "coverage", "report", "--skip-covered", f"--fail-under={COVERED}"]
    status = subprocess.run(report, cwd=ROOT, env=env, check=False).returncode
    if failed:
        print("failed among the others and passed by themselves; see above why:", *failed, sep="\n  ")
    return status


def _failed() -> list[str]:
    """The tests that failed in the run before, by their ids."""
    return sorted(json.loads(NOTED.read_text())) if NOTED.exists() else []


if __name__ == "__main__":
    sys.exit(main())
