"""The shell guard: commands parsed into segments, effects and a verdict.

The guard is for asking well; the sandbox is the boundary.
"""

from __future__ import annotations

from pegboard.shell.guard.deny_patterns import deny_matches
from pegboard.shell.guard.judgement import MAX_COMMAND_BYTES, Judgement, inspection, judge

__all__ = ["MAX_COMMAND_BYTES", "Judgement", "deny_matches", "inspection", "judge"]
