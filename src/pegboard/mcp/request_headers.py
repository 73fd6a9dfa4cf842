"""What a stateless request says about itself in its body, and the headers that must agree with it (2026-07-28)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pegboard.core.toolkit import Toolkit
from pegboard.mcp.request_context import Json
from pegboard.mcp.wire import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    META_CAPABILITIES,
    META_CLIENT,
    META_VERSION,
    MODERN,
    RpcError,
    error_reply,
)

if TYPE_CHECKING:
    from starlette.datastructures import Headers


def header_fault(message: Json, headers: Headers, toolkit: Toolkit) -> Json | None:
    """Headers that disagree with the body (2026-07-28, standard and custom headers)."""
    from mcp.shared.inbound import (
        InboundLadderRejection,
        classify_inbound_request,
        decode_header_value,
        validate_mcp_param_headers,
    )

    id = message.get("id")
    for name in ("mcp-protocol-version", "mcp-method", "mcp-name"):
        if len(headers.getlist(name)) > 1:
            return error_reply(id, HEADER_MISMATCH, f"{name} header appears more than once")
    verdict: Any = classify_inbound_request(message, headers=headers)
    if isinstance(verdict, InboundLadderRejection):
        return error_reply(id, verdict.code, verdict.message, verdict.data)
    params = cast("Json", message["params"])
    named = message.get("method") in ("tasks/get", "tasks/update", "tasks/cancel") and "taskId" in params
    if named and decode_header_value(headers.get("mcp-name")) != params["taskId"]:
        return error_reply(id, HEADER_MISMATCH, "mcp-name header does not match the request body's taskId")
    if message["method"] == "tools/call" and isinstance(params.get("arguments") or {}, dict):
        tool = toolkit.get(str(params.get("name")))
        arguments = cast("Json", params.get("arguments") or {})
        if tool is not None and (arguments or any(h.startswith("mcp-param-") for h in headers)):
            fault = validate_mcp_param_headers(tool.schema, arguments, headers)
            if fault is not None:
                return error_reply(id, fault.code, fault.message, fault.data)
    return None


def version_fault(version: str) -> Json | None:
    """Why a revision is not spoken here, None where it is."""
    from mcp.shared.inbound import unsupported_protocol_version_rejection

    fault = unsupported_protocol_version_rejection(version)
    return None if fault is None else error_reply(None, fault.code, fault.message, fault.data)


def capabilities_of(method: str, params: Json) -> Mapping[str, Any]:
    """The capabilities of a stateless request.

    Raises:
        RpcError: its envelope lacks something or names a revision that we do not speak.
    """
    from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request

    meta = cast("Json", params["_meta"])
    if meta.get(META_VERSION) in MODERN and isinstance(meta.get(META_CAPABILITIES), dict):
        if not isinstance(meta.get(META_CLIENT, {}), dict):
            raise RpcError(INVALID_PARAMS, f"{META_CLIENT} must be an object")
        return cast("Mapping[str, Any]", meta[META_CAPABILITIES])
    verdict = classify_inbound_request({"method": method, "params": params})
    if isinstance(verdict, InboundLadderRejection):
        raise RpcError(verdict.code, verdict.message, verdict.data)
    raise RpcError(INVALID_PARAMS, f"{META_CAPABILITIES} must be an object")
