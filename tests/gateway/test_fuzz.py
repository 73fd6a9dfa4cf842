"""The API fuzzed from its own OpenAPI document by schemathesis: no 5xx, and content of the types that it names."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from tests.gateway.conftest import TOKEN, Serve, calls

CHECKS = "not_a_server_error,content_type_conformance"


async def fuzzed(serve: Serve, folder: Path, *options: str, seed: int) -> tuple[int | None, str]:
    """Exit status and output of schemathesis."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    async with serve(calls("read_file", path="a.txt"), {"text": "ok"}, clock=clock) as client:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "schemathesis.cli", "run", f"{client.base_url}/openapi.json",
            "-H", f"Authorization: Bearer {TOKEN}", "-c", CHECKS, "--seed", str(seed), "--continue-on-failure",
            "--request-timeout", "60", "--no-shrink", "--warnings", "off", "--no-color",
            # A server that is added is a program that is started later.
            "--exclude-operation-id", "add_server", *options,
            cwd=folder.parent, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            told = (await process.communicate())[0].decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        alive = await client.get("/api/health")
    assert alive.status_code == 200
    return process.returncode, told


@pytest.mark.slow
async def test_no_request_of_the_documents_makes_the_gateway_fail(serve: Serve, folder: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)

    status, told = await fuzzed(serve, folder, "--phases", "fuzzing", "--max-examples", "5", seed=seed)

    assert status == 0, f"seed {seed}\n{told[-4000:]}"
    assert "5" in told and "Tested" in told


@pytest.mark.full
@pytest.mark.slow
async def test_no_request_of_many_makes_the_gateway_fail(serve: Serve, folder: Path) -> None:
    status, told = await fuzzed(
        serve, folder, "--phases", "coverage,fuzzing", "--max-examples", "50", "--max-time", "600", seed=7
    )

    assert status == 0, told[-4000:]
