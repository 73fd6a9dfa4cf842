"""Google ADK needs another google-genai than we do: its tests run in an environment of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.environments import environment

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_the_adapter_works_with_the_framework() -> None:
    python = environment(
        "google-adk",
        "google-adk>=2.10,<3",
        *project_requirements(),
        "pytest",
        "pytest-asyncio",
        "hypothesis",
        "coverage",
    )

    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-rs", "tests/interop/test_google_adk.py"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "skipped" not in done.stdout


def project_requirements() -> list[str]:
    """What the package needs without extras."""
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
