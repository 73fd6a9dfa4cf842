"""What an approval is bound to (decisions 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pegboard.core.effects import Plan
from pegboard.core.tool import Tool


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: the same value always gives the same text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def sha256_of(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of a value."""
    import hashlib

    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def tool_digest(tool: Tool) -> str:
    """SHA-256 (hex) of a tool's name, description and schema: its definition as a model sees it."""
    return sha256_of([tool.name, tool.description, tool.schema])


def approval_digest(
    tool: Tool,
    arguments: Mapping[str, Any],
    plan: Plan,
    *,
    session: str,
    workspace: str,
    policy: str,
    environment: tuple[str, ...] = (),
) -> str:
    """SHA-256 (hex) over the tool's definition, canonical arguments, effects, changes with
    before-hashes, workspace, session, policy revision and environment (sandbox backend and
    variable names). Two calls with one digest do the same thing to the same state.
    """
    return sha256_of(
        [tool_digest(tool), dict(arguments), plan.digest(), session, workspace, policy, list(environment)]
    )
