"""gateway: look after the gateway that the agent runs in, and its settings."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import BuildError, InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.gateway import GatewayControl


async def plan_gateway(call: ValidCall, context: Context) -> Plan:
    """Looking is free. A patch names each setting with its new value; a restart controls the gateway."""
    given, control = call.arguments, context.port(GatewayControl)
    match given["action"]:
        case "restart":
            control.check("restart")
            return Plan((Effect("control", "gateway:restart", at_least="ask"),))
        case "config_patch":
            control.check("config_patch")
            if not given["set"] or not given["base_hash"]:
                raise InvalidArguments(
                    "config_patch needs base_hash and set", hint="config_get gives the hash and the values."
                )
            shown = [
                f"{key} = {clip(json.dumps(v, ensure_ascii=False), 0, 300)}"
                for key, v in given["set"].items()
            ]
            # The policy asks a person for these in every mode, as for a protected file.
            return Plan(tuple(Effect("control", f"gateway:setting {one}", at_least="ask") for one in shown))
        case "config_get":
            control.check("config_get")
            return Plan((Effect("control", "gateway:config_get", at_least="allow"),))
        case _:
            return Plan()


@tool(
    plan=plan_gateway,
    touches=("control",),
    hints=("restart the gateway", "change a setting", "show the settings", "网关", "重启"),
    example={"action": "config_get", "key": "model"},
)
async def gateway(
    action: Literal["status", "restart", "config_get", "config_schema", "config_patch"] = "status",
    key: str = "",
    base_hash: Annotated[str, Alias("baseHash", "base")] = "",
    set: Annotated[dict[str, Any] | None, Alias("patch", "values")] = None,
    reason: Annotated[str, Alias("note")] = "",
    *,
    control: Inject[GatewayControl],
) -> ToolResult:
    """Show or restart the gateway that this agent runs in, and read or change the user's settings.

    Changes always need the user's approval. A changed setting holds from the next run on.

    Args:
        action: status; restart, which is off unless the settings allow it; config_get, config_schema (the keys
            that there are), config_patch.
        key: For config_get, one key such as model; all by default.
        base_hash: For config_patch, the hash that config_get gave.
        set: For config_patch, values by key.
        reason: For restart, why; the session is told when the gateway is back.

    Raises:
        PermissionDenied: the session is not the owner's.
        Unavailable: restarting is off, or no gateway runs here.
        Conflict: the settings have changed since they were read.
    """
    try:
        match action:
            case "status":
                told = await control.status()
            case "restart":
                await control.restart(reason)
                told = {"restarting": True, "reason": reason}
            case "config_get":
                told = await control.config_get(key)
            case "config_schema":
                told = control.config_schema()
            case _:
                told = await control.config_patch(base_hash, set or {})
    except BuildError as error:
        raise InvalidArguments(str(error), hint="config_schema shows the keys.") from error
    return ToolResult.from_text(json.dumps(told, ensure_ascii=False, indent=1, default=str), data=dict(told))
