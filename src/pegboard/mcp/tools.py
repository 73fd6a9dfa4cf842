"""Tools: an offer of a foreign server as a Tool: effects `call server/tool`, level confirm, pinned (ledger D-36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.core.content import Block, Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import Conflict, PermissionDenied
from pegboard.core.result import Notes, ToolResult
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Tool, ValidCall
from pegboard.mcp.catalogue import RemoteTool, addressed, permitted
from pegboard.mcp.definitions import shown_description
from pegboard.mcp.results import LABEL, blocks, resource, tool_result
from pegboard.mcp.text_warnings import sanitise

if TYPE_CHECKING:
    from pegboard.mcp.client import MCPServer

_DIFF: Final = 4_000


def tool_of(server: MCPServer, offer: RemoteTool) -> Tool:
    """The tool for an offer. What the server says of itself lowers no permission (corpus mcp-057, mcp-064)."""

    def plan(call: ValidCall, context: Context) -> Plan:
        return Plan(_effects(server, offer))

    async def run(**arguments: Any) -> ToolResult:
        if server.current(offer).definition.digest != offer.definition.digest:
            raise Conflict(
                f"the definition of {offer.original} of MCP server {server.name!r} has changed since it was offered",
                hint="Look at the tool as it is now and make the call again; it asks for approval anew.",
            )
        # Whoever let this call through has let this definition through: the effects named it.
        server.pins.accept(server.name, offer.definition)
        match offer.kind:
            case "tool":
                return await _call(server, offer, arguments)
            case "resources":
                return await _read(server, str(arguments["uri"]))
            case "prompts":
                return await _prompt(server, str(arguments["name"]), arguments.get("arguments") or {})

    run.__name__ = "run"
    tool = Tool(
        run,
        name=offer.name,
        description=shown_description(offer.definition.description)
        or f"{offer.original} of the MCP server {server.name}.",
        plan=plan,
        level="confirm",
        timeout_s=0,  # the connection's own deadline holds, and tells the server to stop
        idempotent=offer.idempotent,
        parameters={"type": "object", "properties": {}},
        touches=("call",),
    )
    schema = offer.definition.schema
    if "type" not in schema:
        schema = {"type": "object", **schema}
    return tool.copy(
        parameters=schema,
        signature=Signature.foreign(
            schema, name=offer.name, closed=False, fill_defaults=False, output=offer.output
        ),
    )


def _effects(server: MCPServer, offer: RemoteTool) -> tuple[Effect, ...]:
    target = f"{server.name}/{offer.original}"
    reason = f"the server's description {'; '.join(offer.notes)}" if offer.notes else ""
    call = Effect(
        "call", target, at_least="ask" if reason else None, reason=reason, unordered=server.config.parallel
    )
    state = server.pins.state(server.name, offer.definition)
    if state == "changed":
        diff = server.pins.diff(server.name, offer.definition)[:_DIFF]
        why = f"its definition changed since it was approved:\n{sanitise(diff)}"
    elif state == "new" and reason:
        why = f"nobody has approved its definition yet: {reason}"
    else:
        return (call,)
    # An effect of its own, with the digest in its target: no grant for an older definition covers it, and no `allow
    # call:` rule that was written before anybody had seen this one.
    unseen = Effect(
        "control", f"mcp-definition/{target}@{offer.definition.digest[:12]}", at_least="ask", reason=why
    )
    return (call, unseen)


async def _call(server: MCPServer, offer: RemoteTool, arguments: Mapping[str, Any]) -> ToolResult:
    params = {"name": offer.original, "arguments": dict(arguments)}
    raw = await server.call("tools/call", params, what=offer.original, idempotent=offer.idempotent)
    return tool_result(raw, server=server.name, tool=offer.original, output=offer.output)


async def _read(server: MCPServer, uri: str) -> ToolResult:
    config = server.config
    listed = next(
        (r for r in (server.catalogue.resources if server.catalogue else ()) if r.get("uri") == uri), None
    )
    named = str(listed.get("name", "")) if listed else ""
    ways = addressed(uri)
    denied = not all(permitted(way, None, config.deny) for way in ways)
    allowed = all(permitted(way, config.allow, ()) for way in ways) or (
        named != "" and permitted(named, config.allow, ())
    )
    if denied or not allowed:
        raise PermissionDenied(
            f"the resource {uri[:200]} is not on the allow-list of MCP server {server.name!r}"
        )
    # The address goes to the server and nowhere else, whatever its scheme (corpus mcp-071).
    raw = await server.call("resources/read", {"uri": uri}, what=f"reading {uri[:100]}", idempotent=True)
    items: Any = raw.get("contents")
    found = [resource(item) for item in cast("list[Any]", items)] if isinstance(items, list) else []
    return _untrusted(server, "resources/read", found)


async def _prompt(server: MCPServer, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    if not permitted(name, server.config.allow, server.config.deny):
        raise PermissionDenied(
            f"the prompt {name[:100]} is not on the allow-list of MCP server {server.name!r}"
        )
    params = {"name": name, "arguments": {str(k): str(v) for k, v in arguments.items()}}
    raw = await server.call("prompts/get", params, what=f"prompt {name[:100]}", idempotent=True)
    out: list[Block] = [Text(f"[prompt {name[:100]} from the MCP server {server.name}]")]
    messages: Any = raw.get("messages")
    for message in cast("list[Any]", messages) if isinstance(messages, list) else []:
        one = cast("dict[str, Any]", message) if isinstance(message, dict) else {"content": message}
        for shown in blocks(one.get("content")):
            said = f"{sanitise(str(one.get('role', '')))[:20]}: "
            out.append(Text(f"{said}{shown.text}") if isinstance(shown, Text) else shown)
    return _untrusted(server, "prompts/get", out)


def _untrusted(server: MCPServer, what: str, found: list[Block]) -> ToolResult:
    notes = Notes(labels=(LABEL,), extra={"server": server.name, "tool": what})
    return ToolResult(content=tuple(found) or (Text("(nothing)"),), notes=notes)
