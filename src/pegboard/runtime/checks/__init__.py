"""checks: what any tool must keep to, own or foreign."""

from __future__ import annotations

from pegboard.runtime.checks.checks import CHECKS, check_kit, check_tool
from pegboard.runtime.checks.report import CheckReport, CheckResult

__all__ = ["CHECKS", "CheckReport", "CheckResult", "check_kit", "check_tool"]
