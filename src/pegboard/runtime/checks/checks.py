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
    any_script,
    cancelled,
    error_path,
    fuzz,
    late,
    long_output,
    repeated,
    sample_runs,
)
from pegboard.runtime.checks.forms import dialects, schema, wrong_types
from pegboard.runtime.checks.report import Finding, Report
from pegboard.runtime.checks.samples import sample
from pegboard.runtime.checks.subject import Check, Door, Opener, Outcome, Subject


async def check_kit(kit: Toolkit, open: Opener, *, consent: bool = False, seed: int = 0) -> Report:
    """Check every tool of a kit.

    Args:
        kit: the tools.
        open: opens an Executor over a kit, in a folder that may be changed.
        consent: run tools whose calls ask; else only those that the policy allows are run.
        seed: for random values; the same seed makes the same calls.
    """
    report = Report(seed=seed)
    door = open(kit)
    try:
        for tool in kit:
            report.add([f async for f in check_tool(tool, door, open, consent=consent, seed=seed)])
    finally:
        await door.aclose()
    return report


async def check_tool(
    tool: Tool, door: Door, open: Opener, *, consent: bool = False, seed: int = 0
) -> AsyncIterator[Finding]:
    """All checks of one tool; see `check_kit`."""
    rng = random.Random(f"{seed}:{tool.name}")
    status, message = schema(tool)
    yield Finding(tool.name, "schema", status, message)
    if status == "fail":
        return
    fitting = sample(tool, rng)
    preview = await door.preview(tool.name, fitting)
    runs = preview.error is None and (preview.decision == "allow" or (consent and preview.decision == "ask"))
    why = (
        f"its sample call cannot be planned: {preview.error.message}"
        if preview.error is not None
        else f"{preview.decision}: {preview.reason or preview.rule}; --yes runs what asks"
    )
    subject = Subject(tool=tool, door=door, open=open, rng=rng, sample=fitting, runs=runs, why=why,
                      effects=frozenset(map(str, preview.effects)), consent=consent)  # fmt: skip
    for name, check in CHECKS.items():
        try:
            outcome = await check(subject)
        except Exception as error:  # noqa: BLE001  A check must report what breaks, whatever it is.
            outcome = ("fail", f"{type(error).__name__} escaped: {error}")
        yield Finding(tool.name, name, *cast(Outcome, outcome))


CHECKS: Final[dict[str, Check]] = {
    "dialects": dialects,
    "wrong types": wrong_types,
    "error path": error_path,
    "run": sample_runs,
    "unicode": any_script,
    "huge output": long_output,
    "timeout": late,
    "cancellation": cancelled,
    "idempotence": repeated,
    "fuzz": fuzz,
}
"""Check → function, in the order in which they run; the schema is checked before all of them."""


__all__ = ["CHECKS", "FUZZ", "Door", "Opener", "Subject", "check_kit", "check_tool"]
