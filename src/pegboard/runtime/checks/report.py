"""Findings of checks, and how they read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Status: TypeAlias = Literal["pass", "warn", "fail", "skip"]

_SIGNS = {"pass": "ok  ", "warn": "warn", "fail": "FAIL", "skip": "n/a "}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one tool.

    Attributes:
        tool, check: which.
        status: pass, warn (works, could be better), fail, or skip (could not be tried; the message says why).
        message: what was found; empty where there is nothing to say.
    """

    tool: str
    check: str
    status: Status
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """`{tool, check, status, message}`."""
        return {"tool": self.tool, "check": self.check, "status": self.status, "message": self.message}


@dataclass(slots=True)
class CheckReport:
    """All findings.

    Attributes:
        findings: in order of tool and check.
        seed: what the random values were made from.
    """

    findings: list[CheckResult] = field(default_factory=list[CheckResult])
    seed: int = 0

    def add(self, findings: Iterable[CheckResult]) -> None:
        """Take further ones."""
        self.findings.extend(findings)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not any(f.status == "fail" for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """`{ok, seed, counts, findings}`."""
        return {
            "ok": self.ok,
            "seed": self.seed,
            "counts": self.counts(),
            "findings": [f.to_dict() for f in self.findings],
        }

    def counts(self) -> dict[str, int]:
        """How many of each status."""
        return {s: sum(f.status == s for f in self.findings) for s in _SIGNS}

    def __str__(self) -> str:
        lines: list[str] = []
        tool = ""
        for finding in self.findings:
            if finding.tool != tool:
                tool = finding.tool
                lines.append(tool)
            text = f"  {_SIGNS[finding.status]}  {finding.check}"
            because = "skipped: " if finding.status == "skip" else ""
            lines.append(f"{text}: {because}{finding.message}" if finding.message else text)
        counts = self.counts()
        lines.append(
            f"{counts['pass']} passed, {counts['fail']} failed, {counts['warn']} warnings, "
            f"{counts['skip']} not applied (seed {self.seed})"
        )
        return "\n".join(lines)
