"""checks: what any tool must keep to, own or foreign (ledger G-19)."""

from __future__ import annotations

from pegboard.runtime.checks.checks import CHECKS, check_kit, check_tool
from pegboard.runtime.checks.report import Finding, Report

__all__ = ["CHECKS", "Finding", "Report", "check_kit", "check_tool"]
