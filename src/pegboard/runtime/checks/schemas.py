"""Checks of a tool's form: its schema, its way through each dialect, the types of its parameters. Nothing runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pegboard.core.content import ToolCall
from pegboard.core.errors import BuildError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage
from pegboard.dialects import DIALECTS, dialect
from pegboard.runtime.checks.samples import wrong
from pegboard.runtime.checks.subject import Outcome, Subject


def schema(tool: Tool) -> Outcome:
    """It builds, its root is an object, and every parameter is described."""
    try:
        tool.signature.check()
        schema = tool.schema
        json.dumps(schema, allow_nan=False)
    except (BuildError, ValueError, TypeError) as error:
        return "fail", str(error)
    if schema.get("type") != "object":
        return "fail", f"the root is {schema.get('type')!r}, not an object"
    from pegboard.core.schema.foreign import ForeignSchema

    try:
        ForeignSchema(schema, name=tool.name).check()
    except BuildError as error:
        return "fail", str(error)
    if not tool.description.strip():
        return "warn", "it has no description"
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    bare = [k for k, v in properties.items() if not (isinstance(v, Mapping) and _described(v))]  # pyright: ignore[reportUnknownArgumentType]
    return ("warn", f"not described: {', '.join(bare)}") if bare else ("pass", "")


def _described(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("description") or "$ref" in schema or "enum" in schema)


async def dialects(subject: Subject) -> Outcome:
    """Each dialect renders it, and a call comes back from it as it was."""
    kit = Toolkit([subject.tool])
    wanted = json.dumps(dict(subject.sample), sort_keys=True)
    lost: list[str] = []
    for name in DIALECTS:
        spoken = dialect(name)
        json.dumps(spoken.render_tools(kit), allow_nan=False)
        message = AssistantMessage(content=(ToolCall("c1", subject.tool.name, dict(subject.sample)),))
        wire = json.loads(json.dumps(spoken.encode(message), allow_nan=False))
        back = spoken.decode(wire, kit)
        found = [(c.name, json.dumps(_object(c.arguments), sort_keys=True)) for c in back]
        if found != [(subject.tool.name, wanted)]:
            lost.append(name)
    return (
        ("fail", f"the call changes in {', '.join(lost)}") if lost else ("pass", f"{len(DIALECTS)} dialects")
    )


def _object(given: Any) -> Any:
    return json.loads(given) if isinstance(given, str) else given


async def wrong_types(subject: Subject) -> Outcome:
    """A value of the wrong type is refused and its place named; nothing runs."""
    schema = subject.tool.schema
    passed: list[str] = []
    tried = 0
    for name, sub in cast("Mapping[str, Any]", schema.get("properties") or {}).items():
        bad = wrong(sub, schema)
        if bad is None:
            continue
        tried += 1
        errors = subject.tool.signature.errors({**subject.sample, name: bad})
        if not any(name in e for e in errors):
            passed.append(name)
    if passed:
        return "fail", f"a wrong type passes or is not named: {', '.join(passed)}"
    return ("pass", f"{tried} parameters") if tried else ("skip", "no typed parameters")
