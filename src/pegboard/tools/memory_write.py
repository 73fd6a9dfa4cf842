"""memory_write: keep a note for later sessions."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan, Verdict
from pegboard.core.policy.taint import UNTRUSTED
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.memory import Memory
from pegboard.textedit.redaction_marks import refuse_marks

MAX_CHARS: Final = 20_000
"""Of one entry."""


async def plan_memory_write(call: ValidCall, context: Context) -> Plan:
    """The entry as it would be kept; a person is asked if the session holds what others wrote."""
    memory = context.port(Memory)
    name, content = call.arguments["name"], call.arguments["content"]
    refuse_marks(content, "", f"memory:/{name}")
    source = memory.labels(context).get(UNTRUSTED)
    verdict: Verdict | None = None if source is None else "ask"
    reason = "" if source is None else f"this session has read untrusted content ({source})"
    effect = Effect("write", f"memory:/{name}", at_least=verdict, reason=reason)
    return Plan((effect,), await memory.propose(name, content, context))


@tool(plan=plan_memory_write, touches=("write",), hints=("remember this", "keep a note", "记住"))
async def memory_write(
    name: Annotated[str, Field(max_length=64), Alias("key", "title")],
    content: Annotated[str, Field(min_length=1, max_length=MAX_CHARS), Alias("text", "note")],
    *,
    memory: Inject[Memory],
    planned: Inject[Plan],
) -> ToolResult:
    """Keep a note for later sessions in this workspace, or replace the one of that name.

    Use it for what will still be true and useful then: decisions, commands that work, what the user prefers. Not for
    the state of the present task, and never for secrets.

    Args:
        name: What the note is called: small letters, digits and hyphens.
        content: The whole note, as Markdown.

    Raises:
        InvalidArguments: the name is not one, or the content holds a mark that stands for a hidden secret.
        Conflict: the entry has changed meanwhile.
    """
    if planned.changes:
        await memory.commit(planned.changes)
    kept = memory.read(name)
    text = f"Kept as {name}" if planned.changes else f"{name} says this already"
    if kept.text.strip() != content.strip():
        text += "; secrets were taken out of it"
    return ToolResult.from_text(text, data={"name": name, "labels": sorted(kept.labels)})
