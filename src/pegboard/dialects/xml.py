"""xml: calls in XML with CDATA, the prompt that teaches them, and results as XML.

Selected for models without tool calls. Reads that form strictly where it is exact and
leniently where it is not, and the other text forms beside it, since models mix them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from xml.sax.saxutils import quoteattr

from pegboard.core.content import ToolCall
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.json_schema import modern, pointer, types_of
from pegboard.core.schema.numerals import as_sent
from pegboard.core.secrets.clip import clip
from pegboard.dialects import media, wire
from pegboard.dialects.protocol import ToolkitView, ToolView
from pegboard.dialects.text import TextDialect, feedback_of
from pegboard.dialects.values import guessed, infer_scalar
from pegboard.dialects.xml_elements import cdata

INTRODUCTION: Final = """\
You can call the tools below. To call one, write a block exactly like its example:
<tool_call> with the tool's <name> and one element for each parameter in <params>."""

NOTES: Final = """\
Notes:
- Put every value in CDATA: <![CDATA[value]]>. Nothing in it is escaped; it may have many lines.
- If a value contains ]]>, write ]]]]><![CDATA[> in its place.
- Write a list as <item> elements, an object as JSON in CDATA.
- Leave an optional parameter out to use its default.
- Close every tag. You may write several <tool_call> blocks; write nothing after the last one.
- The result comes back in <tool_result>. Never write one yourself."""

_TAG = re.compile(r"[^\W\d][\w.-]*")
_MAX_DEPTH: Final = 30


class XMLDialect(TextDialect):
    """Calls as XML with CDATA."""

    name = "xml"
    guess: Callable[[str], Any] = staticmethod(infer_scalar)
    tags = True

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The calls of a text.

        Without a toolkit, values are true or false, whole or decimal numbers, else text.

        Raises:
            InvalidArguments: a call was cut off, or a document type stands before one. The
                calls before it are not given either; `decode_message` gives them.
            ModelError: neither text nor a Chat Completions response.
        """
        reading = self.read(reply, toolkit)
        if reading.cut or reading.refused:
            raise InvalidArguments(
                f"the text ends inside a tool call: …{clip(reading.cut, -60)!r}"
                if reading.cut
                else f"a tool call was refused: {'; '.join(reading.refused)}",
                hint=feedback_of(reading),
                details={"complete_calls": len(reading.calls)},
            )
        return [ToolCall(None, c.named.name, as_sent(c.named.sent), c.raw) for c in reading.calls]

    def prompt(self, toolkit: ToolkitView) -> str:
        """The whole instruction: introduction, one section a tool, notes."""
        sections = [tool_section(tool) for tool in toolkit]
        return "\n\n".join([INTRODUCTION, *sections, NOTES]) if sections else ""

    def call(self, call: ToolCall) -> str:
        """A call as XML."""
        return format_call(call.name, wire.arguments_object(call.arguments))

    def result(self, result: ToolResult) -> str:
        """A result as XML; the model's view of it, never the uncut data."""
        text = media.result_text(result)
        return format_tool_result(
            result.tool,
            {"success": result.ok, "data": text if result.ok else None, "error": None if result.ok else text},
        )


def tool_section(tool: ToolView) -> str:
    """One tool as the prompt describes it."""
    schema = modern(tool.schema)
    lines = [f"### {tool.name}", f"Description: {tool.description}", "Parameters:"]
    properties = wire.as_dict(schema.get("properties"))
    for name, sub in properties.items():
        lines += _parameter(name, sub, name in (schema.get("required") or ()), schema)
    if not properties:
        lines.append("  (none)")
    return "\n".join([*lines, "Example:", _example(tool)])


def format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as XML, every value in CDATA, lists as `<item>` elements."""
    lines = ["<tool_call>", f"  <name>{_escaped(name)}</name>", "  <params>"]
    lines += [f"    {_argument(key, value)}" for key, value in arguments.items()]
    return "\n".join([*lines, "  </params>", "</tool_call>"])


def format_tool_result(name: str, result: Mapping[str, Any]) -> str:
    """A result as XML.

    Args:
        name: the tool.
        result: `{success, data, error}`; an object becomes nested tags, a list `<item>` elements.
            Every text stands in CDATA, so that no content can close the block or open another.
    """
    error = result.get("error")
    return "\n".join(
        [
            "<tool_result>",
            f"  <name>{_escaped(name)}</name>",
            f"  <success>{'true' if result.get('success') else 'false'}</success>",
            *_nested("data", result.get("data"), "  ", 0),
            f"  <error>{'' if error is None else cdata(str(error))}</error>",
            "</tool_result>",
        ]
    )


def _parameter(name: str, schema: Any, required: bool, root: Mapping[str, Any]) -> list[str]:
    sub = pointer(cast("Mapping[str, Any]", schema), root) if isinstance(schema, Mapping) else True
    body: Mapping[str, Any] = {} if isinstance(sub, bool) else sub
    text = " ".join(str(body.get("description") or "").split())
    if values := _values(body, root):
        text = f"{text} One of: {', '.join(map(_shown, values))}.".strip()
    line = f"  - {name}: {_kinds(body, root)} ({'required' if required else 'optional'})"
    lines = [f"{line} - {text}" if text else line]
    if body.get("default") is not None:
        lines.append(f"    Default: {_shown(body['default'])}")
    if any(key in body for key in ("properties", "items", "anyOf", "oneOf")) and _is_nested(body, root):
        kept = {k: v for k, v in body.items() if k not in ("description", "default", "title")}
        lines.append(f"    Schema: {wire.to_json(kept)}")
    return lines


def _is_nested(body: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    kinds = types_of(body, root) or frozenset()
    items = body.get("items")
    simple = isinstance(items, Mapping) and not (types_of(items, root) or {"object"}) & {"object", "array"}  # pyright: ignore[reportUnknownArgumentType]
    return "object" in kinds or ("array" in kinds and not simple and "items" in body)


def _kinds(body: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    kinds = set(types_of(body, root) or {"any"})
    if "number" in kinds:
        kinds.discard("integer")
    # That it may be left out is said by "optional".
    return "|".join(sorted(kinds - {"null"} or {"null"}))


def _values(body: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    found = body.get("enum")
    if isinstance(found, list):
        return cast("list[Any]", found)
    for key in ("anyOf", "oneOf"):
        for branch in wire.as_dicts(body.get(key)):
            target = pointer(branch, root)
            if not isinstance(target, bool) and isinstance(target.get("enum"), list):
                return cast("list[Any]", target["enum"])
    return []


def _example(tool: ToolView) -> str:
    """The tool's own example where it has one, else one that its schema accepts."""
    own = getattr(tool, "example", None)
    if isinstance(own, str) and own.strip():
        return own.strip()
    if isinstance(own, Mapping):
        return format_call(tool.name, cast("Mapping[str, Any]", own))
    schema = modern(tool.schema)
    required = schema.get("required") or ()
    arguments: dict[str, Any] = {}
    for name, sub in wire.as_dict(schema.get("properties")).items():
        default = wire.as_dict(sub).get("default")
        if default is not None:
            arguments[name] = default
        elif name in required:
            arguments[name] = _sample(name, sub, schema, 0)
    return format_call(tool.name, arguments)


def _sample(name: str, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """A value that the schema accepts, as far as types, enumerations and bounds say."""
    target = pointer(cast("Mapping[str, Any]", schema), root) if isinstance(schema, Mapping) else True
    if isinstance(target, bool) or depth > 6:
        return f"your_{name}_here"
    for key in ("default", "const"):
        if target.get(key) is not None:
            return target[key]
    for key in ("examples", "enum"):
        if isinstance(target.get(key), list) and target[key]:
            return target[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        branches = wire.as_dicts(target.get(key))
        if branches and "type" not in target:
            return _sample(name, branches[0], root, depth + 1)
    kinds = types_of(target, root) or frozenset({"string"})
    if "string" in kinds:
        return f"your_{name}_here"
    if "integer" in kinds:
        return _number(target)
    if "boolean" in kinds:
        return True
    if "array" in kinds:
        count = max(1, wire.count(target.get("minItems")))
        return [_sample(name, target.get("items", True), root, depth + 1)] * min(count, 5)
    if "object" in kinds:
        properties = wire.as_dict(target.get("properties"))
        needed = target.get("required") or ()
        return {k: _sample(k, v, root, depth + 1) for k, v in properties.items() if k in needed}
    return None


def _number(schema: Mapping[str, Any]) -> Any:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(schema.get("exclusiveMinimum"), (int, float)):
        low = int(schema["exclusiveMinimum"]) + 1
    if isinstance(low, (int, float)) and low > 1:
        return low
    return high if isinstance(high, (int, float)) and high < 1 else 1


def _argument(key: str, value: Any) -> str:
    """One parameter. A `type` is written only where the bare text would be read as something else."""
    tag = key if _TAG.fullmatch(key) else f"param name={quoteattr(wire.clean_text(key))}"
    close = tag.partition(" ")[0]
    if isinstance(value, list) and value and all(_is_scalar(v) for v in cast("list[Any]", value)):
        return f"<{tag}>{''.join(_argument('item', v) for v in cast('list[Any]', value))}</{close}>"
    if isinstance(value, str) and not (
        isinstance(guessed(value), str) and isinstance(infer_scalar(value), str)
    ):
        return f'<{tag} type="string">{cdata(value)}</{close}>'
    return f"<{tag}>{cdata(_text(value))}</{close}>"


def _is_scalar(value: Any) -> bool:
    return value is not None and not isinstance(value, (list, dict, float))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else wire.to_json(value)


def _nested(key: str, value: Any, indent: str, depth: int) -> list[str]:
    tag = _tag(key)
    if depth < _MAX_DEPTH and isinstance(value, (Mapping, list, tuple)) and value:
        entries = (
            cast("Mapping[Any, Any]", value).items()
            if isinstance(value, Mapping)
            else [("item", item) for item in cast("list[Any]", value)]
        )
        inner = [line for k, v in entries for line in _nested(str(k), v, indent + "  ", depth + 1)]
        return [f"{indent}<{tag}>", *inner, f"{indent}</{tag}>"]
    if value is None:
        return [f"{indent}<{tag}></{tag}>"]
    return [f"{indent}<{tag}>{cdata(_shown(value))}</{tag}>"]


def _tag(key: str) -> str:
    """A key as an XML name."""
    return key if _TAG.fullmatch(key) else "_" + re.sub(r"[^\w.-]", "_", key)


def _escaped(text: str) -> str:
    return wire.clean_text(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
