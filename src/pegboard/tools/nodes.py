"""nodes: paired machines and phones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from pegboard.core.content import Block, Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments, Unavailable
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.nodes import Node, Nodes
from pegboard.tools._nodes import node_effects, picture_of

Action: TypeAlias = Literal["list", "screenshot", "location", "notify", "run", "approve", "camera"]

_SPELLINGS: Final = {
    "status": "list", "describe": "list", "camera_snap": "camera", "camerasnap": "camera", "photo": "camera",
    "location_get": "location", "screen_snapshot": "screenshot", "exec": "run", "system_run": "run",
    "system_notify": "notify", "ask": "approve",
}  # fmt: skip
"""What other systems call the same."""
_REASONS: Final = {
    "screenshot": "it shows what is on its screen",
    "location": "it tells where it is",
    "camera": "it takes a picture with its camera",
    "approve": "it puts a question before whoever holds it",
}
_FACTS: Final = ("latitude", "longitude", "accuracy_m", "source", "at")
_MOST_TEXT: Final = 100_000


def _spelled(value: Any) -> Any:
    return (
        _SPELLINGS.get(value.strip().lower().replace("-", "_").replace(".", "_"), value)
        if isinstance(value, str)
        else value
    )


async def plan_nodes(call: ValidCall, context: Context) -> Plan:
    """Which node is reached, and for what. Listing reaches none.

    Raises:
        InvalidArguments: the action lacks what it needs.
        ToolError: see Nodes.find_node.
    """
    given = call.arguments
    action: str = given["action"]
    if action == "list":
        return Plan()
    for wanted in {"notify": "text", "approve": "text", "run": "command"}.get(action, "").split():
        if not given[wanted].strip():
            raise InvalidArguments(f"action {action} needs {wanted}")
    node = await context.port(Nodes).find_node(given["node"], action)
    connect, control = node_effects(node.name, action, _REASONS.get(action, ""))
    match action:
        case "notify":
            effects = (connect, Effect("send", f"node:{node.name}"))
        case "run":
            command: str = given["command"]
            bound = hashlib.sha256(command.encode("utf-8", "replace")).hexdigest()
            effects = (
                connect, control,
                Effect(
                    "exec", f"node:{node.name} {command}", argv=(f"node:{node.name}", command), at_least="ask",
                    reason="it runs on another machine, under the policy there", bound=bound,
                ),
            )  # fmt: skip
        case _:
            effects = (connect, control)
    return Plan(effects, private=node.name)


@tool(
    plan=plan_nodes,
    touches=("connect", "control", "send", "exec"),
    timeout_s=0,
    hints=(
        "take a screenshot of another machine",
        "where is my phone",
        "take a photo",
        "notify my phone",
        "run a command on another machine",
        "节点",
        "手机",
    ),
    example={"action": "list"},
)
async def nodes(
    action: Annotated[Action, BeforeValidator(_spelled)] = "list",
    node: Annotated[str, Alias("node_id", "node_name", "device", "target")] = "",
    text: Annotated[str, Field(max_length=2000), Alias("message", "body", "question", "content")] = "",
    title: Annotated[str, Field(max_length=200)] = "",
    command: Annotated[str, Field(max_length=20_000), Alias("cmd")] = "",
    timeout: Annotated[float | None, Field(gt=0, le=600), Alias("timeout_s")] = None,
    *,
    paired: Inject[Nodes],
    planned: Inject[Plan | None] = None,
) -> ToolResult:
    """Use the user's other machines and phones that are paired with this one.

    Start with list: it says which are connected and what each can do. What a node returns was not
    written by the user.

    Args:
        action: list; screenshot of a machine's screen; location of the node; notify: show text to
            whoever is there; run a command there; approve: ask whoever holds it yes or no; camera:
            take a picture with a phone.
        node: Its name, as list shows it; may be left out where only one can do it.
        text: For notify and approve, what is shown.
        title: For notify, a heading.
        command: For run, the command as typed in a shell; it runs in the node's own sandbox.
        timeout: Seconds to wait, 30 unless given, 180 for run and approve, where a person may have to answer.

    Raises:
        NotFound: no node has that name.
        Unavailable: the node is not connected.
        Interrupted: the connection was lost; nobody knows whether it was done.
    """
    if action == "list":
        return _listed(list(await paired.list_nodes()), node)
    name = planned.private if planned is not None else (await paired.find_node(node, action)).name
    seconds = timeout or (180.0 if action in ("run", "approve") else 30.0)
    sent = {"text": text, "title": title, "command": command, "timeout": seconds}
    wanted = {"notify": ("text", "title"), "approve": ("text",), "run": ("command", "timeout")}.get(
        action, ()
    )
    values = await paired.call_node(name, action, {key: sent[key] for key in wanted}, timeout_s=seconds + 5)
    return _shown(action, name, values)


def _listed(found: list[Node], wanted: str) -> ToolResult:
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for n in found:
        if wanted not in ("", n.name):
            continue
        able = list(n.capabilities if n.offers is None else n.offers)
        rows.append(
            {
                "name": n.name, "kind": n.kind, "platform": n.platform, "connected": n.offers is not None,
                "capabilities": able,
            }
        )  # fmt: skip
        kind = f"{n.kind}, {n.platform}" if n.platform else n.kind
        state = "not connected" if n.offers is None else "connected"
        lines.append(f"{n.name} ({kind}): {state}; {', '.join(able) or 'can do nothing'}")
    none = f"No node is called {wanted}." if found else "No node is paired."
    return ToolResult.from_text("\n".join(lines) or none, data={"nodes": rows})


def _shown(action: str, name: str, values: Mapping[str, Any]) -> ToolResult:
    """What a node answered: the facts that are expected of it, and nothing else that it sent.

    Raises:
        Unavailable: it sent none of them.
    """
    data: dict[str, Any] = {"node": name, "action": action}
    content: list[Block] = []
    match action:
        case "screenshot" | "camera":
            picture = picture_of(name, values, f"{action} of {name}")
            content = [Text(f"{action.capitalize()} of {name}."), picture]
            data |= {"mime_type": picture.mime_type, "bytes": len(picture.data)}
        case "location":
            data |= {key: values.get(key) for key in _FACTS if isinstance(values.get(key), int | float | str)}
            if not all(isinstance(data.get(key), int | float) for key in ("latitude", "longitude")):
                raise Unavailable(f"{name} sent no location")
            accuracy = data.get("accuracy_m")
            within = f", within {accuracy:.0f} m" if isinstance(accuracy, int | float) else ""
            content = [Text(f"{name} is at {data['latitude']:.5f}, {data['longitude']:.5f}{within}.")]
        case "approve":
            data["approved"] = values.get("approved") is True
            content = [Text(f"{name} answered {'yes' if data['approved'] else 'no'}.")]
        case "run":
            output, exit_code = str(values.get("text") or "")[:_MOST_TEXT], values.get("data")
            data |= {"output": output, "result": exit_code if isinstance(exit_code, dict) else None}
            content = [Text(f"{name} ran the command:\n{output}")]
        case _:
            content = [Text(f"Shown at {name}.")]
    return ToolResult(content=tuple(content), data=data)
