"""The checks: schema, dialects, wrong types, error path, run, Unicode, output, timeout, cancellation,
idempotence and fuzz on any tool."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Final, cast

from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.runtime.checks.calls import (
    FUZZ,
    cancellation,
    error_path,
    fuzz,
    idempotence,
    long_output,
    sample_runs,
    time_limit,
    unicode,
)
from pegboard.runtime.checks.report import CheckReport, CheckResult
from pegboard.runtime.checks.samples import sample
from pegboard.runtime.checks.schemas import dialects, schema, wrong_types
from pegboard.runtime.checks.subject import Check, Opener, Outcome, Subject, ToolCaller


async def check_kit(toolkit: Toolkit, open: Opener, *, consent: bool = False, seed: int = 0) -> CheckReport:
    """Check every tool of a kit.

    Args:
        kit: the tools.
        open: opens an Executor over a kit, in a folder that may be changed.
        consent: run tools whose calls ask; else only those that the policy allows are run.
        seed: for random values; the same seed makes the same calls.
    """
    report = CheckReport(seed=seed)
    door = open(toolkit)
    try:
        for tool in toolkit:
            report.add([f async for f in check_tool(tool, door, open, consent=consent, seed=seed)])
    finally:
        await door.aclose()
    return report


async def check_tool(
    tool: Tool, executor: ToolCaller, open: Opener, *, consent: bool = False, seed: int = 0
) -> AsyncIterator[CheckResult]:
    """All checks of one tool; see `check_kit`."""
    rng = random.Random(f"{seed}:{tool.name}")
    status, message = schema(tool)
    yield CheckResult(tool.name, "schema", status, message)
    if status == "fail":
        return
    fitting = sample(tool, rng)
    preview = await executor.preview(tool.name, fitting)
    runs = preview.error is None and (preview.decision == "allow" or (consent and preview.decision == "ask"))
    why = (
        f"its sample call cannot be planned: {preview.error.message}"
        if preview.error is not None
        else f"{preview.decision}: {preview.reason or preview.rule}; --yes runs what asks"
    )
    subject = Subject(tool=tool, door=executor, open=open, rng=rng, sample=fitting, runs=runs, why=why,
                      effects=frozenset(map(str, preview.effects)), consent=consent)  # fmt: skip
    for name, check in CHECKS.items():
        try:
            outcome = await check(subject)
        except Exception as error:  # noqa: BLE001  A check must report what breaks, whatever it is.
            outcome = ("fail", f"{type(error).__name__} escaped: {error}")
        yield CheckResult(tool.name, name, *cast(Outcome, outcome))


CHECKS: Final[dict[str, Check]] = {
    "dialects": dialects,
    "wrong types": wrong_types,
    "error path": error_path,
    "run": sample_runs,
    "unicode": unicode,
    "huge output": long_output,
    "timeout": time_limit,
    "cancellation": cancellation,
    "idempotence": idempotence,
    "fuzz": fuzz,
}
"""Check → function, in the order in which they run; the schema is checked before all of them."""


__all__ = ["CHECKS", "FUZZ", "Opener", "Subject", "ToolCaller", "check_kit", "check_tool"]
