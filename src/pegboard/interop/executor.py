"""The executor behind exported tools, and what imported ones say about themselves."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pegboard.core.content import Image
from pegboard.core.effects import Effect
from pegboard.core.result import ToolResult
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, import_object

_EXECUTOR: Final = "pegboard.app.executor:Executor"


def as_executor(tools: Any, options: Mapping[str, Any]) -> Any:
    """An Executor as it is, or one over a Toolkit or list of tools.

    Args:
        tools: an Executor, a Toolkit, or tools.
        options: for the new Executor: workspace, mode, policy, approver, provide …
    """
    if hasattr(tools, "pipeline") and hasattr(tools, "call"):
        return tools
    kit = tools if isinstance(tools, Toolkit) else Toolkit(tools)
    return import_object(_EXECUTOR)(kit, **options)


def images(result: ToolResult) -> list[Image]:
    """The images of a result, which a framework that can show them gets beside the text."""
    return [block for block in result.content if isinstance(block, Image)]


def data_url(image: Image) -> str:
    """The image as a `data:` URL (RFC 2397)."""
    return f"data:{image.mime_type};base64,{base64.b64encode(image.data).decode()}"


def from_data_url(url: str) -> Image | None:
    """The image of a `data:` URL in base64; None for any other address, which is not fetched."""
    head, mark, data = url.partition(";base64,")
    if not mark or not head.startswith("data:image/"):
        return None
    try:
        return Image(data=base64.b64decode(data, validate=True), mime_type=head.removeprefix("data:"))
    except ValueError:
        return None


def wrap_foreign(
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
