"""Run the test suite with coverage; `--full` runs every long sweep whole.

Exit status: pytest's, or 1 where coverage is below its bar.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = {"pegboard.core": 100, "pegboard.dialects": 100}
OVERALL = 90


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
    return max(
        *[_coverage(f"src/{part.replace('.', '/')}/*", bar, env) for part, bar in PARTS.items()],
        _coverage("src/pegboard/*", OVERALL, env),
    )


def _coverage(include: str, bar: int, env: dict[str, str]) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "coverage", "report", "--skip-covered", "--show-missing", f"--include={include}",
         f"--fail-under={bar}"],
        cwd=ROOT, env=env, check=False, capture_output=True, text=True,
    )  # fmt: skip
    print(f"coverage of {include} (at least {bar} %):")
    print("\n".join(done.stdout.splitlines()[-40:]), flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
