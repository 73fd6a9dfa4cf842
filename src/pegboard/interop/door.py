"""The executor behind exported tools, and what imported ones say about themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pegboard.core.effects import Effect
from pegboard.core.families import load
from pegboard.core.signature import Signature
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit

_EXECUTOR: Final = "pegboard.app.executor:Executor"


def open_door(tools: Any, options: Mapping[str, Any]) -> Any:
    """An Executor as it is, or one over a Toolkit or list of tools.

    Args:
        tools: an Executor, a Toolkit, or tools.
        options: for the new Executor: workspace, mode, policy, approver, provide …
    """
    if hasattr(tools, "pipeline") and hasattr(tools, "call"):
        return tools
    kit = tools if isinstance(tools, Toolkit) else Toolkit(tools)
    return load(_EXECUTOR)(kit, **options)


def imported(
    function: Any,
    *,
    name: str,
    description: str,
    schema: Mapping[str, Any] | None,
    framework: str,
    effects: Iterable[Effect] | None,
    timeout_s: float | None = None,
) -> Tool:
    """A Tool around another framework's function.

    What it does cannot be seen, so its effect is `call FRAMEWORK/NAME`, which asks, unless the developer
    says what it is.
    """
    made = Tool(
        function,
        name=name,
        description=description,
        effects=(Effect("call", f"{framework}/{name}"),) if effects is None else tuple(effects),
        parameters=schema or {"type": "object", "properties": {}},
        timeout_s=timeout_s,
    )
    made.signature = Signature.foreign(
        made.parameters, description=description, name=name, closed=True, fill_defaults=False
    )
    return made
