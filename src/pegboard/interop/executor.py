"""The executor behind exported tools, and what imported ones say about themselves."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from pegboard.core.content import Image
from pegboard.core.effects import Effect
from pegboard.core.policy.approval import NOBODY, Answer, ApprovalRequest, Approved, Waiting
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


class FrameworkApprover:
    """Answers for a framework that asks its own person: a call waits until exactly that call was confirmed.

    A confirmation holds for the digest of the request that was shown. If the call would do something else by then, it
    waits again.
    """

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._asking: ContextVar[_Asking | None] = ContextVar("asking", default=None)

    async def decide(self, request: ApprovalRequest) -> Answer:
        """Yes to what was confirmed; anything else waits, or is refused where no framework can ask."""
        asking = self._asking.get()
        if asking is None:
            return await NOBODY.decide(request)
        if asking.confirmed == request.digest:
            return Approved(by=asking.by)
        asking.request = request
        return Waiting("approval", request.id)

    async def call(
        self, executor: Any, name: str, arguments: Mapping[str, Any], *, id: str, confirmed: bool, by: str
    ) -> tuple[ToolResult, ApprovalRequest | None]:
        """Make a framework's call; the result, and what its person has to confirm first, if anything.

        Args:
            executor: the Executor.
            name, arguments: of the call.
            id: the framework's id of it, the same when it is made again.
            confirmed: its person has confirmed what was shown for this id.
            by: who is named in the record as the one who approved it.
        """
        asking = _Asking(confirmed=self._shown.pop(id, "") if confirmed else "", by=by)
        token = self._asking.set(asking)
        try:
            result = await executor.call(name, arguments, id=id)
        finally:
            self._asking.reset(token)
        if result.error is None or result.error.code != "suspended" or asking.request is None:
            return result, None
        self._shown[id] = asking.request.digest
        return result, asking.request


@dataclass(slots=True)
class _Asking:
    """One call of a framework: the digest that was confirmed, and what it asks now."""

    confirmed: str
    by: str
    request: ApprovalRequest | None = None


def framework_approver(executor: Any) -> FrameworkApprover:
    """What answers for a framework's person; an approver that the executor was given goes before it."""
    parts = executor.pipeline.parts
    if parts.approver is NOBODY:
        parts.approver = FrameworkApprover()
    return parts.approver if isinstance(parts.approver, FrameworkApprover) else FrameworkApprover()


def question(request: ApprovalRequest) -> dict[str, Any]:
    """What a person should see before a yes, JSON-able: reason, effects, and changes with diffs."""
    return {
        "tool": request.tool,
        "reason": request.reason,
        "effects": [effect.to_dict() for effect in request.effects],
        "changes": [{"path": c.path, "kind": c.kind, "diff": c.diff} for c in request.changes],
    }


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
